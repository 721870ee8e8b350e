"""The native templates of Qwen3.6 and Qwen3.5, as deltas of Qwen3.8's.

Qwen3.6: no instruction about effort; a system message that is empty still makes a system block; reasoning that stands
in the content of an assistant message without `reasoning_content` is taken out of it; old turns lose their reasoning
unless `preserve_thinking` is set. Qwen3.5: the same, but old turns always lose it, and an argument that is no string,
object or list is written as Python writes it (`True`, `None`).

A conversation over live tokens keeps the reasoning that was decoded; the text of `render` without `preserve_thinking`
is what a server would send.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ..exceptions import TemplateNotFound
from .base import Message
from .pieces import Pieces
from .qwen3_8 import Qwen38

__all__ = ["Qwen35", "Qwen36"]


class Qwen36(Qwen38):
    """Knobs: `enable_thinking` (default True), `preserve_thinking` (default False). `reasoning_effort` may be given and
    changes nothing: this model was not trained to read it."""

    name: ClassVar[str] = "qwen3.6"

    @staticmethod
    def jinja() -> str:
        """Raises TemplateNotFound: files of this model carry their own text."""
        raise TemplateNotFound("there is no Jinja text of our own for this model; its files carry one")

    def _knobs(self, knobs: Mapping[str, Any]) -> tuple[str, bool, bool]:
        effort, thinking, _ = super()._knobs(knobs)
        return effort, thinking, knobs.get("preserve_thinking") is True

    def _read(self, messages: Sequence[Message], *, start: bool) -> list[dict[str, Any]]:
        turns = super()._read(messages, start=start)
        given = [message for message in messages if message["role"] == "assistant"]
        for message, turn in zip(given, (t for t in turns if t["role"] == "assistant"), strict=True):
            content = turn["content"]
            if message.get("reasoning_content") is None and "</think>" in content:
                first, last = content.split("</think>")[0], content.split("</think>")[-1]
                turn["reasoning_content"] = first.rstrip("\n").split("<think>")[-1].lstrip("\n")
                turn["content"] = last.lstrip("\n")
        return turns

    def _head(
        self,
        out: Pieces,
        system: str | None,
        tools: Sequence[Mapping[str, Any]] | None,
        effort: str,
        thinking: bool,
    ) -> None:
        if system == "" and not tools:
            out.scaffold("<|im_start|>system\n<|im_end|>\n")
        super()._head(out, system, tools, "medium", thinking)


class Qwen35(Qwen36):
    """Knobs: `enable_thinking` (default True). `reasoning_effort` and `preserve_thinking` may be given and change
    nothing."""

    name: ClassVar[str] = "qwen3.5"

    def _knobs(self, knobs: Mapping[str, Any]) -> tuple[str, bool, bool]:
        effort, thinking, _ = super()._knobs(knobs)
        return effort, thinking, False

    def _value(self, name: str, value: Any) -> str:
        return super()._value(name, value) if isinstance(value, (str, Mapping, list, tuple)) else str(value)
