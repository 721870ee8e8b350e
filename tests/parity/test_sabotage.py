"""The corpus finds renderers that are wrong in one thing: each of these differs from the goldens in some case."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agentloop.exceptions import TemplateError
from agentloop.templates import Qwen38
from agentloop.templates.base import Message
from agentloop.templates.messages import normalise
from agentloop.templates.pieces import Pieces
from tests.parity.corpus import CASES
from tests.parity.test_goldens import golden


class NeverTrims(Qwen38):
    def _read(self, messages: Sequence[Message], *, start: bool) -> list[dict[str, Any]]:
        return normalise(messages, start=start)


class TrimsNewlinesAlone(Qwen38):
    def _read(self, messages: Sequence[Message], *, start: bool) -> list[dict[str, Any]]:
        turns = normalise(messages, start=start)
        for turn in turns:
            turn["content"] = turn["content"].strip("\n")
        return turns


class EscapesUnicode(Qwen38):
    def _value(self, name: str, value: Any) -> str:
        return value if isinstance(value, str) else json.dumps(value)


class EscapesHtml(Qwen38):
    def _value(self, name: str, value: Any) -> str:
        text = super()._value(name, value)
        return text if isinstance(value, str) else html.escape(text, quote=False)


class WritesPython(Qwen38):
    def _value(self, name: str, value: Any) -> str:
        return str(value)


class QuotesStrings(Qwen38):
    def _value(self, name: str, value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)


class SortsKeys(Qwen38):
    def _value(self, name: str, value: Any) -> str:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


class AlwaysThinks(Qwen38):
    def reply_prefix(self, **knobs: Any) -> str:
        return "<think>\n"


class NeverStrips(Qwen38):
    def _knobs(self, knobs: Mapping[str, Any]) -> tuple[str, bool, bool]:
        effort, thinking, _ = super()._knobs(knobs)
        return effort, thinking, True


class ForgetsTheEffort(Qwen38):
    def _knobs(self, knobs: Mapping[str, Any]) -> tuple[str, bool, bool]:
        return ("xhigh", *super()._knobs(knobs)[1:])


class StripsOneTurnTooMany(Qwen38):
    def _turns(self, out: Pieces, turns: Sequence[Mapping[str, Any]], keep_from: int, before: str | None) -> None:
        super()._turns(out, turns, keep_from + 2 if keep_from else 0, before)


class OneEnvelopeForEachResult(Qwen38):
    def _turns(self, out: Pieces, turns: Sequence[Mapping[str, Any]], keep_from: int, before: str | None) -> None:
        for i, turn in enumerate(turns):
            super()._turns(out, [turn], keep_from - i, "assistant" if i else before)


class LeavesOutEmptyReasoning(Qwen38):
    def _assistant(self, out: Pieces, turn: Mapping[str, Any], content: str, with_reasoning: bool) -> None:
        super()._assistant(out, turn, content, with_reasoning and bool(turn["reasoning_content"]))


BROKEN = (
    NeverTrims,
    TrimsNewlinesAlone,
    EscapesUnicode,
    EscapesHtml,
    WritesPython,
    QuotesStrings,
    SortsKeys,
    AlwaysThinks,
    NeverStrips,
    ForgetsTheEffort,
    StripsOneTurnTooMany,
    OneEnvelopeForEachResult,
    LeavesOutEmptyReasoning,
)


def wrong_in(template: Qwen38) -> list[str]:
    """The cases in which llama.cpp and Jinja2 agree with each other, and this template with neither."""
    found: list[str] = []
    entries = golden("qwen3_8")["cases"]
    for case in CASES:
        entry = entries[case.name]
        if "text" not in entry or "differs" in entry:
            continue
        try:
            text = template.render(case.messages, case.tools, **case.knobs)
        except TemplateError:
            text = None
        if text != entry["text"]:
            found.append(case.name)
    return found


def test_the_real_one_is_right() -> None:
    assert wrong_in(Qwen38()) == []


@pytest.mark.parametrize("broken", BROKEN, ids=lambda b: b.__name__)
def test_a_broken_renderer_is_found(broken: type[Qwen38]) -> None:
    assert wrong_in(broken())
