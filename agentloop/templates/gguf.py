"""The chat template that a model file carries, for models without a native one.

Rendered by Jinja2 under transformers' settings, in a bounded process of its own (`sandbox`). What the template wrote
and what came from data is told apart by stand-ins (`standins`), so that no text of a user, a tool or a schema becomes a
special token. Plain data stays inside scaffold pieces then; only the characters that could begin a special token are
pieces of data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from ..exceptions import TemplateRenderError
from .base import Message, ReplyEnd, Segment, join
from .messages import any_text, normalise
from .reply import Reply, parse_reply
from .sandbox import JinjaSandbox
from .standins import StandIns
from .text_tags import TextTagReader, without_opening

__all__ = ["JinjaTemplate"]

_END_TAG = re.compile(r"\s*(<[^<>\s]{1,60}>)")
_PROBE: list[dict[str, Any]] = [{"role": "user", "content": "Q7"}, {"role": "assistant", "content": "A7"}]


class JinjaTemplate:
    """text: the Jinja text. bos_token, eos_token: how the vocabulary spells them. special: all special tokens of the
    vocabulary, by spelling. end_of_turn: the token that ends a reply (None: what the template writes behind one, else
    eos_token). seconds: wall time that one render may take. Knobs go to the template as they are; those that are None
    are left out. Calls are read in the forms of the Qwen family and as JSON between `<tool_call>` tags.
    """

    def __init__(
        self,
        text: str,
        *,
        name: str = "jinja",
        bos_token: str = "",
        eos_token: str = "",
        special: Iterable[str] = (),
        end_of_turn: str | None = None,
        seconds: float = 5.0,
    ) -> None:
        self.name = name
        self._box = JinjaSandbox(text, seconds=seconds)
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self._starts = {token[0] for token in special if token}
        self._given_end = end_of_turn

    @cached_property
    def end_of_turn(self) -> str:
        """The special token that ends a reply."""
        if self._given_end is not None:
            return self._given_end
        try:
            text = self.render(_PROBE, add_generation_prompt=False)
        except TemplateRenderError:
            text = ""
        tag = _END_TAG.match(text.partition("A7")[2])
        return tag.group(1) if tag else self._tokens["eos_token"]

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **knobs: Any,
    ) -> str:
        """The text of the whole conversation. Raises InvalidMessage, TemplateRefused, TemplateRenderError."""
        return self._render(_openai(messages, start=True), tools, add_generation_prompt, knobs)

    def segments(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **knobs: Any,
    ) -> list[Segment]:
        """`render` in pieces. Raises TemplateRenderError besides if the template looks for tags in the messages and
        does different things when it finds them, so that data and scaffold cannot be told apart."""
        return self._segments(_openai(messages, start=True), tools, add_generation_prompt, knobs)

    def continuation(
        self,
        messages: Sequence[Message],
        *,
        ended: ReplyEnd | None,
        add_generation_prompt: bool = True,
        open_tool_block: bool = False,
        **knobs: Any,
    ) -> list[Segment]:
        """What the template writes for these messages behind the end of an earlier turn, which stays as it was decoded.
        Raises TemplateRenderError for a template that marks no end of a turn and writes earlier turns differently, and
        for an open block of tool results."""
        new = _openai(messages, start=False)
        if open_tool_block:
            raise TemplateRenderError("this template cannot go on inside a block of tool results; append them together")
        base: list[dict[str, Any]] = [dict(message) for message in _PROBE]
        results = next((i for i, m in enumerate(new) if m["role"] != "tool"), len(new))
        if results:
            call = {"name": "f", "arguments": {}}
            ids = [m.get("tool_call_id") or f"call_{i}" for i, m in enumerate(new[:results])]
            base[1]["tool_calls"] = [{"id": i, "type": "function", "function": call} for i in ids]
        end = self.end_of_turn
        before = self._render(base, None, False, knobs)
        pieces = self._segments([*base, *new], None, add_generation_prompt, knobs)
        whole = join(pieces)
        behind = next((b for b in (_behind(whole, e) for e in (self._inner_end(knobs), end)) if b is not None), None)
        closed = _behind(before, end)
        if behind is not None and closed is not None:
            at = len(whole) - len(behind)
            out = _cut(pieces, at + len(closed) if ended is None and behind.startswith(closed) else at)
        elif whole.startswith(before):
            out = _cut(pieces, len(before))
        else:
            raise TemplateRenderError("this template marks no end of a turn; nothing can be appended behind one")
        closing = {"truncated": end, "in_call": end, "in_reasoning": "\n</think>\n\n" + end}.get(ended or "", "")
        return [Segment(closing, True), *out] if closing else out

    def reply_prefix(self, **knobs: Any) -> str:
        """What the generation prompt has put into the reply: from the tag of reasoning on, where it has one."""
        without = self.render(_PROBE[:1], add_generation_prompt=False, **knobs)
        prompt = self.render(_PROBE[:1], add_generation_prompt=True, **knobs).removeprefix(without)
        return prompt[prompt.index("<think>") :] if "<think>" in prompt else ""

    def parse(
        self,
        text_or_ids: str | Sequence[int],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        vocab: Any = None,
        thinking: bool = True,
    ) -> Reply:
        """Read a whole reply. `thinking` counts only if the template opens the reasoning itself."""
        thinking = thinking and self._opens_reasoning
        if isinstance(text_or_ids, str):
            text = text_or_ids.rstrip().removesuffix(self.end_of_turn) if self.end_of_turn else text_or_ids
            reply = parse_reply(text, tools, thinking=thinking)
            return reply if self._prefix else without_opening(reply)
        if vocab is None:
            raise ValueError("ids need a vocabulary: parse(ids, vocab=engine.vocab)")
        reader = self.reader(vocab.special_tokens(), tools, thinking=thinking)
        for token in text_or_ids:
            reader.feed(token, vocab.decode([token]))
        return reader.finish("end")

    def reader(
        self,
        special: Mapping[int, str],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        thinking: bool = True,
    ) -> TextTagReader:
        """An incremental reader for one reply. `thinking` counts only if the template opens the reasoning itself."""
        ends = (self.end_of_turn, self._tokens["eos_token"])
        thinking = thinking and self._opens_reasoning
        return TextTagReader(special, tools, thinking=thinking, ends=ends, opens_itself=not self._prefix)

    def close(self) -> None:
        """End the process that renders; the next render starts another."""
        self._box.close()

    @cached_property
    def _prefix(self) -> str:
        return self.reply_prefix()

    @property
    def _opens_reasoning(self) -> bool:
        return "<think>" in self._prefix and "</think>" not in self._prefix

    def _inner_end(self, knobs: Mapping[str, Any]) -> str:
        """What ends a reply that others follow; some templates end the last one otherwise."""
        text = self._render([*_PROBE, *_PROBE[:1]], None, False, knobs)
        tag = _END_TAG.match(text.partition("A7")[2])
        return tag.group(1) if tag else self.end_of_turn

    def _render(self, messages: Any, tools: Any, prompt: bool, knobs: Mapping[str, Any]) -> str:
        given = {name: value for name, value in knobs.items() if value is not None}
        variables = {**self._tokens, **given, "messages": messages, "add_generation_prompt": prompt}
        return self._box.render({**variables, "tools": list(tools) if tools else None})

    def _segments(self, messages: Any, tools: Any, prompt: bool, knobs: Mapping[str, Any]) -> list[Segment]:
        hidden = StandIns(self._starts, messages, tools, self._box.text)
        text = self._render(messages, tools, prompt, knobs)
        try:
            shown = self._render(hidden.hide(messages), hidden.hide(tools), prompt, knobs)
        except TemplateRenderError:
            shown = ""
        pieces = hidden.segments(shown)
        if join(pieces) != text:
            raise TemplateRenderError(
                "this template looks for tags in the messages, and one holds such a tag: what the template writes "
                "cannot be told from what the message says. Take the tag out of the message"
            )
        return pieces


def _openai(messages: Sequence[Message], *, start: bool) -> list[dict[str, Any]]:
    """Normalised messages in the form that templates expect: OpenAI's, with arguments as mappings."""
    turns = normalise(messages, start=start, asks=any_text)
    ids = [message for message in messages if message["role"] == "tool"]
    out: list[dict[str, Any]] = []
    for turn in turns:
        message: dict[str, Any] = {"role": turn["role"], "content": turn["content"]}
        if turn.get("reasoning_content"):
            message["reasoning_content"] = turn["reasoning_content"]
        if turn.get("tool_calls"):
            message["tool_calls"] = [
                {"id": f"call_{i}", "type": "function", "function": call} for i, call in enumerate(turn["tool_calls"])
            ]
        if turn["role"] == "tool":
            given = ids.pop(0)
            message |= {key: given[key] for key in ("tool_call_id", "name") if isinstance(given.get(key), str)}
        out.append(message)
    return out


def _behind(text: str, end: str) -> str | None:
    """What stands behind the end of the probed reply; None if there is no end."""
    _, _, rest = text.partition("A7")
    return rest.partition(end)[2] if end and end in rest else None


def _cut(pieces: Sequence[Segment], start: int) -> list[Segment]:
    """The pieces behind the first `start` characters."""
    out: list[Segment] = []
    for text, is_scaffold in pieces:
        if start < len(text):
            out.append(Segment(text[start:], is_scaffold))
        start = max(0, start - len(text))
    return out
