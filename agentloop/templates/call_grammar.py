"""From the text of a reply's calls to `Call`s: which reading of it holds, and what it means.

A text whose tags all stand where the canonical grammar has them, with none inside a value, has one reading. Where
values hold tags there may be several readings; a reading holds if the tools' schemas or the nesting of the tags leave
no other. If more than one is left, the calls are refused: a guess could write half a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..arguments import check_call
from ..calls import Call
from .call_lenient import Lenient, lenient_reading
from .call_strict import RawCall, nested_reading, strict_readings
from .call_tags import Tag, find_tags, function_name, is_closed, parameters_of, tool_names, unquoted

__all__ = ["Section", "function_name", "is_closed", "read_section", "tool_names", "unquoted"]

_READINGS = 64  # readings that are compared; a text with more is ambiguous anyway


@dataclass(frozen=True, slots=True)
class Section:
    """Calls, and the text behind them that belongs to no call. `is_clean`: no value holds a tag."""

    calls: tuple[Call, ...] = ()
    suffix: str = ""
    repairs: tuple[str, ...] = ()
    is_clean: bool = True


def read_section(
    text: str,
    marks: Mapping[int, str],
    tools: Sequence[Mapping[str, Any]] | None,
    *,
    complete: bool,
    has_opener: bool = True,
    held: bool = False,
) -> Section:
    """Read everything from the first call on. `marks`: where a tag is one by its token. `complete`: the model ended the
    reply; else it was cut, and a call that is not settled is `incomplete`. `held`: the text was held to the grammar of
    `call_constraint` while it was written, so every value ends at its first closing tag on a line of its own."""
    tags = find_tags(text, marks)
    last = next((tag.end for tag in reversed(tags) if tag.kind == "/call"), 0)
    behind, repairs = _suffix(text, last, marks)
    reader = _Reader(text, tools)
    closed = [tag for tag in tags if tag.end <= last]
    if held and (section := reader.held(next(strict_readings(text[:last], closed), None), tags, last)) is not None:
        return section
    readings = list(islice(strict_readings(text[:last], closed), _READINGS))
    nested = nested_reading(text[:last], closed) if len(readings) > 1 else None
    if nested is not None and nested not in readings:
        readings.append(nested)
    if any(tag.start >= last for tag in tags):
        readings = []  # an open call behind the last closed one
    for reading in readings:
        if not any(value.tags for raw in reading for value in raw.values) and (complete or not behind):
            calls = reader.calls(reading)
            if behind:
                calls = (*calls[:-1], reader.with_repair(calls[-1], "text_after_call"))
            return Section(calls, behind, repairs)
    lenient = lenient_reading(text, tags, tools, complete=complete, has_opener=has_opener)
    if readings and complete:
        return reader.choose(readings, nested, lenient, behind, repairs)
    return reader.lenient(lenient, complete, behind, repairs)


def _suffix(text: str, last: int, marks: Mapping[int, str]) -> tuple[str, tuple[str, ...]]:
    """The text behind the last call, without thinking tags that the model wrote there."""
    out, at, repairs = [], last, []
    for mark in sorted(m for m in marks if m >= last and marks[m] in ("<think>", "</think>")):
        out.append(text[at:mark])
        at = mark + len(marks[mark])
        repairs.append("second_think_close" if marks[mark] == "</think>" else "stray_think")
    out.append(text[at:])
    return "".join(out).strip(), tuple(repairs)


class _Reader:
    def __init__(self, text: str, tools: Sequence[Mapping[str, Any]] | None) -> None:
        self.text, self.tools = text, tools
        self.known: dict[Any, Call] = {}  # readings share most of their calls

    def held(self, reading: list[RawCall] | None, tags: Sequence[Tag], last: int) -> Section | None:
        """The reading that ends every value early, and a call behind it that was cut."""
        if reading is None and last:
            return None
        calls = self.calls(reading or ())
        opened = next((tag.start for tag in tags if tag.start >= last and tag.kind == "call"), None)
        if opened is not None:
            calls = (*calls, self.refused(opened, "incomplete", "the reply was cut inside the call"))
        return Section(calls)

    def choose(
        self,
        readings: list[list[RawCall]],
        nested: list[RawCall] | None,
        lenient: Lenient,
        behind: str,
        repairs: tuple[str, ...],
    ) -> Section:
        """One of several readings, or a refusal."""
        meant = [self.calls(reading) for reading in readings]
        valid = [i for i, calls in enumerate(meant) if all(call.status == "ok" for call in calls)]
        if not valid:
            valid = [0] if len(readings) == 1 else []
        chosen = valid[0] if len(valid) == 1 and len(readings) < _READINGS else None
        if chosen is None and valid:
            if nested is not None and readings.index(nested) in valid:
                chosen = readings.index(nested)
            elif not any(self._may_open(raw) for raw in readings[valid[0]]):
                chosen = valid[0]  # a closing tag ends a value where the grammar needs one
        if chosen is not None and lenient.error is None:
            other = self.calls(lenient.calls)
            if all(call.status == "ok" for call in other) and not _same(other, meant[chosen]):
                if any(call.status != "ok" for call in meant[chosen]):
                    return Section(other, lenient.suffix, repairs, is_clean=False)
                chosen = None
        if chosen is None:
            reason = "the call is ambiguous: a value holds tags of calls and could end at more than one of them"
            k = self.agreed(readings, meant, lenient)
            refused = self.refused(readings[0][k].start, "malformed", reason)
            return Section((*meant[0][:k], refused), behind, repairs, is_clean=False)
        calls = meant[chosen]
        if behind:
            calls = (*calls[:-1], self.with_repair(calls[-1], "text_after_call"))
        return Section(calls, behind, repairs, is_clean=False)

    def agreed(self, readings: list[list[RawCall]], meant: list[tuple[Call, ...]], lenient: Lenient) -> int:
        """How many calls at the beginning are the same in every reading."""
        if len(readings) >= _READINGS:
            return 0
        every = meant if lenient.error is not None else [*meant, self.calls(lenient.calls)]
        k = 0
        while k < min(map(len, every)) - 1 and all(_same(calls[k : k + 1], every[0][k : k + 1]) for calls in every):
            k += 1
        return k

    def _may_open(self, raw: RawCall) -> bool:
        """A value holds what could open another parameter of its call."""
        known = parameters_of(self.tools, raw.name)
        inside = [tag.name for value in raw.values for tag in value.tags if tag.kind == "parameter"]
        return any(self.tools is None or unquoted(name) in known for name in inside)

    def lenient(self, lenient: Lenient, complete: bool, behind: str, repairs: tuple[str, ...]) -> Section:
        calls = self.calls(lenient.calls)
        if lenient.error is not None:
            status = "malformed" if complete else "incomplete"
            reason = lenient.error if complete or lenient.cut else f"the reply was cut; {lenient.error}"
            return Section((*calls, self.refused(lenient.failed_at, status, reason)), "", repairs, is_clean=False)
        if not complete and behind and calls:
            # What stands behind the last closing tag may be the rest of a value.
            start = lenient.calls[-1].start
            reason = "the reply was cut behind the call, and its end is not certain"
            return Section((*calls[:-1], self.refused(start, "incomplete", reason)), "", repairs, is_clean=False)
        return Section(calls, lenient.suffix, repairs, is_clean=False)

    def calls(self, reading: Sequence[RawCall]) -> tuple[Call, ...]:
        calls: list[Call] = []
        for raw in reading:
            key = (raw.start, raw.end, tuple((value.name, len(value.text)) for value in raw.values if value.tags))
            if raw.repairs or raw.error is not None:
                calls.append(self.call(raw))
                continue
            if key not in self.known:
                self.known[key] = self.call(raw)
            calls.append(self.known[key])
        return tuple(calls)

    def call(self, raw: RawCall) -> Call:
        spelled = self.text[raw.start : raw.end]
        if raw.error is not None:
            return Call(raw.name, {}, "malformed", spelled, raw.error)
        repairs = list(raw.repairs)
        arguments: dict[str, Any] = {}
        for value in raw.values:
            if value.name in arguments:
                if arguments[value.name] != value.text:
                    reason = f"the parameter {value.name} is there twice with different values"
                    return Call(raw.name, {}, "malformed", spelled, reason, tuple(repairs))
                repairs.append("duplicate_parameter")
            arguments[value.name] = value.text
        call = Call(raw.name, arguments, "ok", spelled, None, tuple(dict.fromkeys(repairs)))
        return call if self.tools is None else check_call(call, self.tools)

    def refused(self, start: int, status: Any, reason: str) -> Call:
        raw = self.text[start:]
        return Call(function_name(raw)[0] or "", {}, status, raw, reason)

    @staticmethod
    def with_repair(call: Call, repair: str) -> Call:
        return Call(call.name, call.arguments, call.status, call.raw, call.error, (*call.repairs, repair))


def _same(left: Sequence[Call], right: Sequence[Call]) -> bool:
    return [(c.name, c.arguments) for c in left] == [(c.name, c.arguments) for c in right]
