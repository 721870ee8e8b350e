"""The native template of Qwen3.8: messages to the bytes that the model was trained on, and back.

Rendered here, not by Jinja, so that scaffold and data stay apart; `qwen3_8.jinja` beside this file gives the same text
and is what model files carry. Deltas to its parents: Qwen3.6 has no reasoning effort and strips old reasoning by
default; Qwen3.5 besides that knows no `preserve_thinking`.

The system block holds the effort's instruction, then the tools, then the system message. Contents and reasoning are
trimmed of white space (Unicode), as Jinja2's `trim` does. Consecutive tool messages share one user envelope. A turn is
`<|im_start|>ROLE\\n...<|im_end|>\\n`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from typing import Any, ClassVar

from ..exceptions import InvalidKnob
from .base import Message, ReplyEnd, Segment, join
from .call_constraint import call_grammar
from .messages import is_query, normalise
from .pieces import Pieces, to_json
from .reply import Reply, ReplyReader, parse_reply

__all__ = ["Qwen38"]

_EFFORTS = {
    "xhigh": "Reasoning effort is set to xhigh. Please think carefully through the task, validate key assumptions, "
    "consider plausible alternatives, and prioritize correctness, consistency, and clarity in the final answer.",
    "medium": "",
    "low": "Reasoning effort is set to low. Keep your thinking brief and focused, moving directly to the conclusion "
    "without unnecessary elaboration.",
}

_TOOLS_HEAD = "# Tools\n\nYou have access to the following functions:\n\n<tools>"
_TOOLS_TAIL = (
    "\n</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n\n"
    "<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n"
    "<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple lines\n"
    "</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n"
    "- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested "
    "within <tool_call></tool_call> XML tags\n"
    "- Required parameters MUST be specified\n"
    "- You may provide optional reasoning for your function call in natural language BEFORE the function call, "
    "but NOT after\n"
    "- If there is no function call available, answer the question like normal with your current knowledge and do "
    "not tell the user about function calls\n</IMPORTANT>"
)

_CLOSING: Mapping[ReplyEnd | None, str] = {
    None: "",
    "complete": "\n",
    "truncated": "<|im_end|>\n",
    "in_call": "<|im_end|>\n",
    "in_reasoning": "\n</think>\n\n<|im_end|>\n",
}


class Qwen38:
    """Knobs: `reasoning_effort` ("xhigh" by default, "medium", "low"), `enable_thinking` (default True),
    `preserve_thinking` (default True: old turns keep their reasoning, so that a conversation only ever grows). A knob
    that is None is as if it were not given."""

    name: ClassVar[str] = "qwen3.8"
    end_of_turn: ClassVar[str] = "<|im_end|>"
    call_opener: ClassVar[str] = "<tool_call>"
    call_closer: ClassVar[str] = "</tool_call>"

    @staticmethod
    def jinja() -> str:
        """The same template as Jinja text, for model files."""
        return files(__package__).joinpath("qwen3_8.jinja").read_text("utf-8")

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **knobs: Any,
    ) -> str:
        """The text of the whole conversation. Raises InvalidMessage, InvalidKnob, TemplateRenderError (a tool schema
        that is not JSON)."""
        return join(self.segments(messages, tools, add_generation_prompt, **knobs))

    def segments(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **knobs: Any,
    ) -> list[Segment]:
        """`render` in pieces, scaffold and data apart; they join to the same text."""
        effort, thinking, preserve = self._knobs(knobs)
        turns = self._read(messages, start=True)
        out = Pieces()
        has_system = turns[0]["role"] == "system"
        self._head(out, turns[0]["content"] if has_system else None, tools, effort, thinking)
        rest = turns[1:] if has_system else turns
        queries = [i for i, m in enumerate(rest) if m["role"] == "user" and is_query(m["content"])]
        keep_from = 0 if preserve else queries[-1] + 1
        self._turns(out, rest, keep_from, before="system" if has_system else None)
        if add_generation_prompt:
            out.scaffold("<|im_start|>assistant\n" + self.reply_prefix(**knobs))
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
        """Only what is appended behind a reply that `ended` in this way (None: behind closed messages): what it left
        open is closed, then come the new messages. With `open_tool_block` the state stands inside an envelope of tool
        results. Raises InvalidMessage (a late system message among others) and InvalidKnob."""
        self._knobs(knobs)
        turns = self._read(messages, start=False)
        out = Pieces()
        if open_tool_block and not (turns and turns[0]["role"] == "tool"):
            out.scaffold("<|im_end|>\n")
        out.scaffold(_CLOSING[ended])
        self._turns(out, turns, 0, before="tool" if open_tool_block else "assistant")
        if add_generation_prompt:
            out.scaffold("<|im_start|>assistant\n" + self.reply_prefix(**knobs))
        return out.pieces

    def reply_prefix(self, **knobs: Any) -> str:
        """What the generation prompt has put into the reply: an open reasoning block, or an empty closed one."""
        _, thinking, _ = self._knobs(knobs)
        return "<think>\n" if thinking else "<think>\n\n</think>\n\n"

    def parse(
        self,
        text_or_ids: str | Sequence[int],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        vocab: Any = None,
        thinking: bool = True,
    ) -> Reply:
        """Read a whole reply, from behind the generation prompt up to its end of turn (with or without it)."""
        return parse_reply(text_or_ids, tools, vocab=vocab, thinking=thinking)

    def reader(
        self,
        special: Mapping[int, str],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        thinking: bool = True,
    ) -> ReplyReader:
        """An incremental reader for one reply."""
        return ReplyReader(special, tools, thinking=thinking)

    def call_grammar(
        self, tools: Sequence[Mapping[str, Any]], strict: Collection[str] | None = None, *, patterns: bool = True
    ) -> str:
        """The grammar of calls, from behind the first opening token to the end of the turn; see `call_constraint`."""
        return call_grammar(
            tools, strict, opener=self.call_opener, closer=self.call_closer, end=self.end_of_turn, patterns=patterns
        )

    def _read(self, messages: Sequence[Message], *, start: bool) -> list[dict[str, Any]]:
        """Normalised messages, their contents trimmed."""
        turns = normalise(messages, start=start)
        for turn in turns:
            turn["content"] = turn["content"].strip()
        return turns

    def _value(self, name: str, value: Any) -> str:
        """The text of an argument."""
        return value if isinstance(value, str) else to_json(value, f"the argument {name!r}")

    def _knobs(self, knobs: Mapping[str, Any]) -> tuple[str, bool, bool]:
        known = ("reasoning_effort", "enable_thinking", "preserve_thinking")
        for name in knobs:
            if name not in known:
                raise InvalidKnob("knob", name, known)
        effort = knobs.get("reasoning_effort")
        effort = "xhigh" if effort is None else effort
        if not isinstance(effort, str) or effort not in _EFFORTS:
            raise InvalidKnob("reasoning_effort", effort, tuple(_EFFORTS))
        flags: list[bool] = []
        for name in known[1:]:
            value = knobs.get(name)
            value = True if value is None else value
            if not isinstance(value, bool):
                raise InvalidKnob(name, value, (True, False))
            flags.append(value)
        return effort, flags[0], flags[1]

    def _head(
        self,
        out: Pieces,
        system: str | None,
        tools: Sequence[Mapping[str, Any]] | None,
        effort: str,
        thinking: bool,
    ) -> None:
        instruction = _EFFORTS[effort] if thinking else ""
        parts: list[list[tuple[str, bool]]] = []
        if instruction:
            parts.append([(instruction, True)])
        if tools:
            block = [(_TOOLS_HEAD, True)]
            for tool in tools:
                block += [("\n", True), (to_json(tool, "a tool schema"), False)]
            # The example call in it is text that the template itself spells with special tokens.
            parts.append([*block, (_TOOLS_TAIL, True)])
        if system:
            parts.append([(system, False)])
        if not parts:
            return
        out.scaffold("<|im_start|>system\n")
        for i, part in enumerate(parts):
            if i:
                out.scaffold("\n\n")
            for text, is_scaffold in part:
                out.add(text, is_scaffold)
        out.scaffold("<|im_end|>\n")

    def _turns(self, out: Pieces, turns: Sequence[Mapping[str, Any]], keep_from: int, before: str | None) -> None:
        """`keep_from`: assistant turns from here on show their reasoning. `before`: role of what stands before."""
        for i, turn in enumerate(turns):
            role, content = turn["role"], turn["content"]
            previous = turns[i - 1]["role"] if i else before
            if role == "user":
                out.scaffold("<|im_start|>user\n")
                out.data(content)
                out.scaffold("<|im_end|>\n")
            elif role == "assistant":
                self._assistant(out, turn, content, i >= keep_from)
            else:
                if previous is not None and previous != "tool":
                    out.scaffold("<|im_start|>user")
                out.scaffold("\n<tool_response>\n")
                out.data(content)
                out.scaffold("\n</tool_response>")
                if i + 1 == len(turns) or turns[i + 1]["role"] != "tool":
                    out.scaffold("<|im_end|>\n")

    def _assistant(self, out: Pieces, turn: Mapping[str, Any], content: str, with_reasoning: bool) -> None:
        out.scaffold("<|im_start|>assistant\n")
        if with_reasoning:
            out.scaffold("<think>\n")
            out.data(turn["reasoning_content"].strip())
            out.scaffold("\n</think>\n\n")
        out.data(content)
        for i, call in enumerate(turn["tool_calls"]):
            out.scaffold("\n" if i else "\n\n" if content else "")
            out.scaffold("<tool_call>\n<function=")
            out.data(call["name"])
            out.scaffold(">\n")
            for name, value in call["arguments"].items():
                out.scaffold("<parameter=")
                out.data(name)
                out.scaffold(">\n")
                out.data(self._value(name, value))
                out.scaffold("\n</parameter>\n")
            out.scaffold("</function>\n</tool_call>")
        out.scaffold("<|im_end|>\n")
