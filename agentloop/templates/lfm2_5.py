"""The native template of LFM2.5: messages to the bytes that the model was trained on, and back.

A conversation begins with `<|startoftext|>`; a turn is `<|im_start|>ROLE\\n...<|im_end|>\\n`, tool results are turns of
their own. The tools stand as a JSON list at the end of the system message. Nothing is trimmed. An assistant turn is its
reasoning in `<think>` tags, its content, and its calls as a list: `<|tool_call_start|>[f(a='x')]<|tool_call_end|>`,
where a string has quotes around it and is not escaped, an object is JSON, and all else is as Python writes it.

The generation prompt opens no reasoning: a model that thinks writes `<think>` itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from ..exceptions import InvalidKnob
from .base import Message, ReplyEnd, Segment, join
from .lfm2_calls import value_text
from .lfm2_constraint import list_grammar
from .lfm2_reply import LfmReader, parse_lfm
from .messages import any_text, normalise
from .pieces import Pieces, to_json
from .reply import Reply

__all__ = ["Lfm25"]

_START, _STOP = "<|tool_call_start|>", "<|tool_call_end|>"
_KNOBS = ("reasoning_effort", "enable_thinking", "preserve_thinking")

_CLOSING: Mapping[ReplyEnd | None, str] = {
    None: "",
    "complete": "\n",
    "truncated": "<|im_end|>\n",
    "in_call": _STOP + "<|im_end|>\n",
    "in_reasoning": "</think><|im_end|>\n",
}


class Lfm25:
    """bos_token: what a conversation begins with.

    Knobs: `preserve_thinking` (default False: reasoning before the last user turn is left out by `render`; a
    conversation over live tokens keeps what was decoded). `reasoning_effort` and `enable_thinking` may be given and
    change nothing: this model was not trained to read them. A knob that is None is as if it were not given."""

    name: ClassVar[str] = "lfm2.5"
    end_of_turn: ClassVar[str] = "<|im_end|>"
    call_opener: ClassVar[str] = _START
    call_closer: ClassVar[str] = _STOP

    def __init__(self, bos_token: str = "<|startoftext|>") -> None:
        self._bos = bos_token

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **knobs: Any,
    ) -> str:
        """The text of the whole conversation. Raises InvalidMessage, InvalidKnob, TemplateRenderError (a tool schema
        or an argument that is not JSON)."""
        return join(self.segments(messages, tools, add_generation_prompt, **knobs))

    def segments(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **knobs: Any,
    ) -> list[Segment]:
        """`render` in pieces, scaffold and data apart; they join to the same text."""
        preserve = self._knobs(knobs)
        turns = normalise(messages, asks=any_text)
        out = Pieces()
        out.scaffold(self._bos)
        system = turns.pop(0)["content"] if turns[0]["role"] == "system" else ""
        if system or tools:
            out.scaffold("<|im_start|>system\n")
            out.data(system)
            if tools:
                out.scaffold(("\n" if system else "") + "List of tools: [")
                for i, tool in enumerate(tools):
                    out.scaffold(", " if i else "")
                    out.data(to_json(tool, "a tool schema"))
                out.scaffold("]")
            out.scaffold("<|im_end|>\n")
        last = max((i for i, turn in enumerate(turns) if turn["role"] == "user"), default=-1)
        self._turns(out, turns, 0 if preserve else last + 1)
        if add_generation_prompt:
            out.scaffold("<|im_start|>assistant\n")
        return out.pieces

    def continuation(
        self,
        messages: Sequence[Message],
        *,
        ended: ReplyEnd | None,
        add_generation_prompt: bool = True,
        open_tool_block: bool = False,
        **knobs: Any,
    ) -> list[Segment]:
        """Only what is appended behind a reply that `ended` in this way (None: behind closed messages). Results are
        turns of their own here, so `open_tool_block` means nothing. Raises InvalidMessage and InvalidKnob."""
        self._knobs(knobs)
        out = Pieces()
        out.scaffold(_CLOSING[ended])
        self._turns(out, normalise(messages, start=False), 0)
        if add_generation_prompt:
            out.scaffold("<|im_start|>assistant\n")
        return out.pieces

    def reply_prefix(self, **knobs: Any) -> str:
        """Nothing: the generation prompt puts nothing into the reply."""
        self._knobs(knobs)
        return ""

    def parse(
        self,
        text_or_ids: str | Sequence[int],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        vocab: Any = None,
        thinking: bool = True,
    ) -> Reply:
        """Read a whole reply, from behind the generation prompt up to its end of turn (with or without it). `thinking`
        changes nothing: a reply of this model says itself whether it begins with reasoning."""
        return parse_lfm(text_or_ids, tools, vocab=vocab)

    def reader(
        self,
        special: Mapping[int, str],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        thinking: bool = True,
    ) -> LfmReader:
        """An incremental reader for one reply; `thinking` changes nothing."""
        return LfmReader(special, tools)

    def call_grammar(
        self, tools: Sequence[Mapping[str, Any]], strict: Collection[str] | None = None, *, patterns: bool = True
    ) -> str:
        """The grammar of calls, from behind the opening token to the end of the turn; see `lfm2_constraint`."""
        return list_grammar(tools, strict, closer=self.call_closer, end=self.end_of_turn, patterns=patterns)

    def _knobs(self, knobs: Mapping[str, Any]) -> bool:
        """Whether old reasoning is kept."""
        for name, value in knobs.items():
            if name not in _KNOBS:
                raise InvalidKnob("knob", name, _KNOBS)
            if name != "reasoning_effort" and value is not None and not isinstance(value, bool):
                raise InvalidKnob(name, value, (True, False))
        return knobs.get("preserve_thinking") is True

    def _turns(self, out: Pieces, turns: Sequence[Mapping[str, Any]], keep_from: int) -> None:
        """`keep_from`: assistant turns from here on show their reasoning."""
        for i, turn in enumerate(turns):
            out.scaffold(f"<|im_start|>{turn['role']}\n")
            if turn["role"] == "assistant":
                self._assistant(out, turn, i >= keep_from)
            else:
                out.data(turn["content"])
            out.scaffold("<|im_end|>\n")

    def _assistant(self, out: Pieces, turn: Mapping[str, Any], keep: bool) -> None:
        content: str = turn["content"]
        if keep and turn["reasoning_content"]:
            out.scaffold("<think>")
            out.data(turn["reasoning_content"])
            out.scaffold("</think>")
        if not keep and "</think>" in content:
            content = content.split("</think>")[-1].strip()
        out.data(content)
        if not turn["tool_calls"]:
            return
        out.scaffold(_START + "[")
        for i, call in enumerate(turn["tool_calls"]):
            out.scaffold(", " if i else "")
            out.data(call["name"])
            out.scaffold("(")
            for j, (name, value) in enumerate(call["arguments"].items()):
                out.scaffold(", " if j else "")
                out.data(f"{name}={value_text(name, value)}")
            out.scaffold(")")
        out.scaffold("]" + _STOP)
