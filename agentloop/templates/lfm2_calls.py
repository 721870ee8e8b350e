"""The call list of LFM2: `[name(key='text', n=1), other()]`, written and read back byte for byte.

The template writes strings between single quotes without escapes, so a quote ends a string only where a declared
parameter, the next call or the end of the list follows it. Of the readings that the tools' schemas allow, the first of
these holds: the one in which every string ends at the first such place with its inner quotes in pairs (apostrophes
inside words do not count); the one in which every string ends at the first such place; the only one. Else the calls are
refused: a guess could write half a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from ..arguments import check_call
from ..calls import Call
from .call_tags import parameters_of, tool_names
from .lfm2_literals import LiteralError, read_literal
from .pieces import to_json

__all__ = ["HEAD", "call_text", "read_calls", "value_text"]

HEAD = re.compile(r"\s*\[?\s*([^\s()\[\]{}=,'\"]+)\s*\(")
"""What a list of calls begins with; the group is the name of the first."""

_AMBIGUOUS = "they are ambiguous: a string holds quotes and could end at more than one of them"
_READINGS, _STEPS = 32, 5000  # a text with more readings, or that needs more steps, is ambiguous anyway
_OPEN = ("additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf")
_NAME = re.compile(r"\s*([^\s()\[\]{}=,'\"]+)\s*\(\s*")
_KEY = re.compile(r"\s*([^()\[\]{}=,'\"\n]+?)\s*=\s*")
_NEXT_KEY = re.compile(r"\s*,\s*([^()\[\]{}=,'\"\n]+?)\s*=")
_END_OF_CALL = re.compile(r"\s*\)\s*(?:,\s*([^\s()\[\]{}=,'\"]+)\s*\(|\]?\s*\Z)")
_NUMBER = re.compile(r"[+-]?[\d.]+(?:[eE][+-]?\d+)?")
_BARE = re.compile(r"[^\s,()\[\]{}'\"][^,()\[\]{}'\"\n]*")


class _Value(NamedTuple):
    key: str
    value: Any
    text: str | None = None  # of a value without quotes
    repair: str | None = None
    is_quoted: bool = False  # between single quotes, as it is


class _Raw(NamedTuple):
    name: str
    start: int
    end: int
    values: tuple[_Value, ...]


class _State(NamedTuple):
    """A reading that has come to `at`: in the call `name` that began at `start`, or before a call (None). `search`: a
    string begins at `at`, and its end is looked for from there on."""

    at: int
    calls: tuple[_Raw, ...] = ()
    name: str | None = None
    start: int = 0
    values: tuple[_Value, ...] = ()
    search: int | None = None
    key: str = ""


def value_text(name: str, value: Any) -> str:
    """An argument as the template writes it. Raises TemplateRenderError for an object that is not JSON."""
    if isinstance(value, str):
        return f"'{value}'"
    return to_json(value, f"the argument {name!r}") if isinstance(value, Mapping) else str(value)


def call_text(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as the template writes it."""
    return f"{name}({', '.join(f'{key}={value_text(key, value)}' for key, value in arguments.items())})"


def read_calls(text: str, tools: Sequence[Mapping[str, Any]] | None = None) -> list[Call]:
    """The calls of the text between the two tags, typed by `tools` (None: as they are written). A list that cannot be
    read, or not in one way only, is one `malformed` call."""
    if text.strip() in ("", "[]"):
        return [_malformed(text, "the list of calls is empty")]
    if text.lstrip().startswith(("{", "[{")):
        return _json_calls(text, tools)
    calls = _chosen(text, tools)
    body = text.strip()
    if calls[0].status != "malformed" and not (body.startswith("[") and body.endswith("]")):
        calls[0] = replace(calls[0], repairs=(*calls[0].repairs, "missing_bracket"))
    return calls


def _chosen(text: str, tools: Sequence[Mapping[str, Any]] | None) -> list[Call]:
    loose = next(_Lists(text, None).readings(), None)
    if loose is not None and not any("'" in value.value for raw in loose for value in raw.values if value.is_quoted):
        return _Lists(text, tools).meaning(loose)  # no quote inside a string: there is nothing to choose
    paired, lists = _Lists(text, tools, paired=True), _Lists(text, tools)
    nested = next(paired.readings(), None)
    if nested is not None:
        meant = lists.meaning(nested)
        if _holds(meant):
            return meant
    readings = lists.readings()
    first = next(readings, None)
    if first is not None and not lists.skips(first):
        meant = lists.meaning(first)
        if _holds(meant):
            return meant
    others = list(islice(readings, _READINGS))
    valid = [calls for calls in map(lists.meaning, [*([first] if first else []), *others]) if _holds(calls)]
    if len(others) >= _READINGS or lists.gave_up or len(valid) > 1:
        return [_malformed(text, _AMBIGUOUS)]
    if valid:
        return valid[0]
    # Nothing may run; the reading that takes undeclared names for parameters says best what is wrong.
    refused = [call for call in lists.meaning(loose or ()) if call.status != "ok"]
    return refused or [_malformed(text, lists.error if loose is None else _AMBIGUOUS)]


def _holds(calls: Sequence[Call]) -> bool:
    return all(call.status == "ok" for call in calls)


def _malformed(text: str, reason: str) -> Call:
    found = HEAD.match(text)
    message = f"the calls could not be read: {reason}; write [name(key='value', other=1)]"
    return Call(found.group(1) if found else "", {}, "malformed", text, message)


class _Lists:
    """All readings of one text, the one that ends strings earliest first."""

    def __init__(self, text: str, tools: Sequence[Mapping[str, Any]] | None, *, paired: bool = False) -> None:
        self.text, self.tools = text, tools
        self._paired = paired  # strings end only where their inner quotes are in pairs, and at the first such place
        self.declared = None if tools is None else tool_names(tools)
        self.gave_up = False
        self.error, self._failed_at = "it is no list of calls", -1

    def readings(self) -> Iterator[tuple[_Raw, ...]]:
        begin = len(self.text) - len(self.text.lstrip())
        stack = [_State(begin + self.text.startswith("[", begin))]
        for _ in range(_STEPS):
            if not stack:
                return
            state = stack.pop()
            if state.search is not None:
                found = self._string(state, stack)
            elif state.name is None:
                found = self._head(state)
            else:
                found = self._argument(state)
            if found is None:
                continue
            if found.name is None and found.at > len(self.text):
                yield found.calls
            else:
                stack.append(found)
        self.gave_up = True

    def _fail(self, at: int, message: str) -> None:
        if at > self._failed_at:
            self._failed_at, self.error = at, message

    def _at_end(self, at: int) -> bool:
        return self.text[at:].strip() in ("", "]")

    def _head(self, state: _State) -> _State | None:
        match = _NAME.match(self.text, state.at)
        if match is None:
            self._fail(state.at, "a call begins with its name and (")
            return None
        start = match.start(1)
        if self.text.startswith(")", match.end()):
            return self._closed(state._replace(name=match.group(1), start=start), match.end(), ())
        return _State(match.end(), state.calls, match.group(1), start)

    def _argument(self, state: _State) -> _State | None:
        match = _KEY.match(self.text, state.at)
        if match is None:
            self._fail(state.at, f"an argument of {state.name} is not written as key=value")
            return None
        key, at = match.group(1), match.end()
        if self.text.startswith(("'", '"'), at):
            return state._replace(at=at, search=at + 1, key=key)
        bare = _BARE.match(self.text, at)
        try:
            value, end = read_literal(self.text, at)
            item = _Value(key, value, self.text[at:end] if bare else None)
        except LiteralError as error:
            if bare is None or _NUMBER.fullmatch(bare.group().rstrip()):
                self._fail(error.at, f"the value of {key} cannot be read: {error}")
                return None
            item = _Value(key, bare.group().rstrip(), None, "unquoted_text")
            end = at + len(bare.group().rstrip())
        return self._behind(state, end, item)

    def _string(self, state: _State, stack: list[_State]) -> _State | None:
        """The nearest end of a string; the search behind it waits on the stack."""
        quote, search = self.text[state.at], state.search or 0
        if quote == '"' and search == state.at + 1:
            try:
                value, end = read_literal(self.text, state.at)
            except LiteralError:
                end = -1
            if end > 0 and self._may_end(state.name or "", end):
                if not self._paired:
                    stack.append(state._replace(search=end))
                return self._behind(state, end, _Value(state.key, value, None, "double_quoted"))
        end = self.text.find(quote, search)
        count = 0
        while end >= 0 and (count % 2 or not self._may_end(state.name or "", end + 1)):
            count += self._paired and not (self.text[end - 1].isalnum() and self.text[end + 1 : end + 2].isalnum())
            end = self.text.find(quote, end + 1)
        if end < 0:
            self._fail(state.at, f"the string of {state.key} has no end")
            return None
        if not self._paired:
            stack.append(state._replace(search=end + 1))
        inner = self.text[state.at + 1 : end]
        repair = None if quote == "'" else "double_quoted"
        return self._behind(state, end + 1, _Value(state.key, inner, None, repair, quote == "'"))

    def _may_end(self, name: str, at: int, text: str | None = None) -> bool:
        """A string of the call `name` may have ended before `at`."""
        text = self.text if text is None else text
        match = _END_OF_CALL.match(text, at)
        if match is not None:
            return match.group(1) is None or self.declared is None or match.group(1) in self.declared
        match = _NEXT_KEY.match(text, at)
        return match is not None and self._takes(name, match.group(1))

    def _takes(self, name: str, key: str) -> bool:
        """The tool may have a parameter of this name."""
        if self.declared is None or name not in self.declared:
            return True
        if key in parameters_of(self.tools, name):
            return True
        functions = (tool.get("function", tool) for tool in self.tools or ())
        schema = next(f.get("parameters") or {} for f in functions if f.get("name") == name)
        return schema.get("additionalProperties") is not False and any(schema.get(word) for word in _OPEN)

    def _behind(self, state: _State, at: int, item: _Value) -> _State | None:
        at += len(self.text[at:]) - len(self.text[at:].lstrip())
        values = (*state.values, item)
        if self.text.startswith(")", at):
            return self._closed(state, at, values)
        if self.text.startswith(",", at):
            return state._replace(at=at + 1, values=values, search=None, key="")
        self._fail(at, f"a comma or ) must follow the value of {item.key}")
        return None

    def _closed(self, state: _State, at: int, values: tuple[_Value, ...]) -> _State | None:
        at += 1
        calls = (*state.calls, _Raw(state.name or "", state.start, at, values))
        at += len(self.text[at:]) - len(self.text[at:].lstrip())
        if self.text.startswith(",", at):
            return _State(at + 1, calls)
        if self._at_end(at):
            return _State(len(self.text) + 1, calls)
        self._fail(at, f"a comma or ] must follow the call of {state.name}")
        return None

    def skips(self, reading: Sequence[_Raw]) -> bool:
        """A string of it holds a quote at which it could have ended."""
        return any(
            self._may_end(raw.name, at + 1, value.value)
            for raw in reading
            for value in raw.values
            if value.is_quoted
            for at, char in enumerate(value.value)
            if char == "'" and value.value[at + 1 :].strip()
        )

    def meaning(self, reading: Sequence[_Raw]) -> list[Call]:
        """The reading as calls, checked."""
        return [self._call(raw) for raw in reading]

    def _call(self, raw: _Raw) -> Call:
        spelled = self.text[raw.start : raw.end]
        repairs = [value.repair for value in raw.values if value.repair is not None]
        arguments: dict[str, Any] = {}
        for value in raw.values:
            if value.key in arguments:
                if arguments[value.key] != value.value or type(arguments[value.key]) is not type(value.value):
                    reason = f"the parameter {value.key} is there twice with different values"
                    return Call(raw.name, {}, "malformed", spelled, reason)
                repairs.append("duplicate_parameter")
            arguments[value.key] = value.value
        if not repairs and call_text(raw.name, arguments) != spelled:
            repairs.append("loose_syntax")
        call = Call(raw.name, arguments, "ok", spelled, None, tuple(dict.fromkeys(repairs)))
        if self.tools is None:
            return call
        checked = _typed(call, self.tools)
        bare = {value.key: value.text for value in raw.values if value.text is not None}
        if checked.status == "invalid_arguments" and bare:
            repaired = replace(call, arguments={**arguments, **bare}, repairs=("unquoted_text",))
            as_text = _typed(repaired, self.tools)
            checked = as_text if as_text.status == "ok" else checked
        return checked


def _typed(call: Call, tools: Sequence[Mapping[str, Any]]) -> Call:
    """Checked as a call whose values have types already."""
    return replace(check_call(replace(call, repairs=("json_style",)), tools), repairs=call.repairs)


def _json_calls(text: str, tools: Sequence[Mapping[str, Any]] | None) -> list[Call]:
    """Calls written as JSON objects with a name and arguments."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        return [_malformed(text, f"it is no JSON: {error}")]
    calls: list[Call] = []
    for item in found if isinstance(found, list) else [found]:
        body = item.get("function", item) if isinstance(item, dict) else {}
        body = body if isinstance(body, dict) else item
        name, arguments = body.get("name"), body.get("arguments", body.get("parameters", {}))
        if not isinstance(name, str) or not isinstance(arguments, dict):
            return [_malformed(text, "a call in JSON has a name and an object of arguments")]
        spelled = json.dumps(item, ensure_ascii=False)
        call = Call(name, arguments, "ok", spelled, None, ("json_style",))
        calls.append(call if tools is None else check_call(call, tools))
    return calls or [_malformed(text, "the list of calls is empty")]
