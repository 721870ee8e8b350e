"""The grammar of the calls that LFM2 may write, from behind `<|tool_call_start|>` to the end of the turn.

    [name(key='text', other=1), second()]<|tool_call_end|><|im_end|>

One list; a declared name, its parameters in any order and each at most once, the required ones present, every value in
a form that its schema allows. A string stands between single quotes as the template writes it, where it can be told
from what follows (see `lfm2_strings`), or in double quotes as JSON; all else is written as JSON, and lists, True, False
and None also as the template writes them, as Python does.

What follows a string tells where it ends, so the terminals of strings hold the comma or the bracket behind them. Rules
with a parameter hold one bit for each parameter of the tool that was written already.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ..arguments._reader import Reader
from .call_constraint import json_rule, literal, regex_between_slashes
from .call_values import NOTES, TextForm, value_forms
from .lfm2_calls import value_text
from .lfm2_lists import ListRules
from .lfm2_strings import CONTENT

__all__ = ["list_grammar"]

_MOST = 60  # parameters in any order: the bits of the rules' parameter
_TOOL = re.compile(r"[^\s()\[\]{}=,'\"]+")
_KEY = re.compile(r"[^\s()\[\]{}=,'\"]([^()\[\]{}=,'\"\n]*[^\s()\[\]{}=,'\"])?")
_HELPERS = rf"""
LAST: "'" CONTENT "')"
KEY: /[^\s()\[\]{{}}=,'\x22]([^()\[\]{{}}=,'\x22\n]*[^\s()\[\]{{}}=,'\x22])?=/
NEXT: "'" CONTENT "', "
loose: ")" | KEY loose_value
loose_value: any loose_rest | NEXT KEY loose_value | LAST
loose_rest: ")" | ", " KEY loose_value
any: {json_rule(True)}
{CONTENT}
"""


def list_grammar(
    tools: Sequence[Mapping[str, Any]],
    strict: Collection[str] | None = None,
    *,
    closer: str = "<|tool_call_end|>",
    end: str = "<|im_end|>",
    patterns: bool = True,
) -> str:
    """As `call_constraint.call_grammar`. Tools and parameters whose names no list can spell are left out; ValueError
    when no tool is left."""
    bodies, lines = [], []
    for i, tool in enumerate(tools):
        function = tool.get("function", tool)
        name = str(function["name"])
        if not _TOOL.fullmatch(name):
            continue
        schema = function.get("parameters") or {"type": "object", "properties": {}}
        wanted = strict is None or name in strict
        body = _Parameters(f"t{i}", schema, patterns).rules() if wanted else None
        bodies.append(f"{literal(name + '(')} {'loose' if body is None else body[0]}")
        lines += [] if body is None else body[1]
    if not bodies:
        raise ValueError("there are no tools, so no call may be written")
    calls = f"call: {' | '.join(bodies)}"
    return f'start: "[" call (", " call)* "]" {closer} {end}\n{calls}\n' + "\n".join(lines) + _HELPERS


class _Parameters:
    """The rules of one tool's parameters, named from `name` on: `a` at the first one, `n` behind a value, `k` behind a
    value and its comma, `s` at a string and what it ends in."""

    def __init__(self, name: str, schema: Mapping[str, Any], patterns: bool) -> None:
        self.name, self.schema, self.patterns = name, schema, patterns
        self.reader = Reader(schema)
        self.lists = ListRules(name, schema)
        self.lines: list[str] = []

    def rules(self) -> tuple[str, list[str]] | None:
        """What stands behind the tool's opening bracket, and the rules for it; None when the schema is no plain one."""
        schema, name = self.schema, self.name
        declared = schema.get("properties")
        if schema.keys() & {"$ref", "anyOf", "oneOf", "allOf", "patternProperties"}:
            return None
        if declared is None and schema.get("additionalProperties") is not False:
            return None
        properties: dict[str, Any] = dict(declared or {})
        required = [str(key) for key in schema.get("required", ())]
        for key in required:
            properties.setdefault(key, schema.get("additionalProperties", True))
        if any(not _KEY.fullmatch(key) for key in required):
            return None
        keys = [*required, *(key for key in properties if key not in required and _KEY.fullmatch(key))]
        if len(keys) > _MOST:
            return None
        if not keys:
            return '")"', []
        last = f" %if is_ones([0:{len(required)}])" if required else ""
        more = [f"{literal(f'{key}=')} {name}v{i}::set_bit({i}) %if bit_clear({i})" for i, key in enumerate(keys)]
        left = f" %if not(is_ones([0:{len(keys)}]))"
        self.lines += [
            f"{name}k::_: " + "\n  | ".join(more),
            f'{name}a::_: ")"{last}\n  | {name}k::_{left}',
            f'{name}n::_: ")"{last}\n  | ", " {name}k::_{left}',
            f"{name}s::_: LAST{last}\n  | NEXT {name}k::_{left}",
        ]
        for i, key in enumerate(keys):
            written, is_text = self._value(f"{name}p{i}", properties[key])
            ways = [f"{body} {name}n::_" for body in written] + [f"{name}s::_"] * is_text
            self.lines.append(f"{name}v{i}::_: {' | '.join(ways)}")
        return f"{name}a::0x0", [*self.lines, *self.lists.lines]

    def _value(self, name: str, schema: Any) -> tuple[list[str], bool]:
        """The ways to write a value that end by themselves, and whether it may be any text between single quotes."""
        bodies: list[str] = []
        is_text = False
        for i, part in enumerate(self._parts(schema, frozenset())):
            more, text = self._part(f"{name}x{i}", part)
            bodies += more
            is_text = is_text or text
        return list(dict.fromkeys(bodies)) or ["any"], is_text

    def _parts(self, schema: Any, seen: frozenset[str]) -> Iterable[Any]:
        rules = {} if not isinstance(schema, Mapping) else {k: v for k, v in schema.items() if k not in NOTES}
        if len(rules) == 1:
            (key, value), *_ = rules.items()
            if key == "$ref" and value not in seen:
                return self._parts(self.reader.resolve(value), seen | {value})
            if key in ("anyOf", "oneOf") or (key == "allOf" and len(value) == 1):
                return [found for part in value for found in self._parts(part, seen)]
        return [schema]

    def _part(self, name: str, schema: Any) -> tuple[list[str], bool]:
        rules = {} if not isinstance(schema, Mapping) else {k: v for k, v in schema.items() if k not in NOTES}
        if not rules:
            return ["any"], schema is not False
        if "const" in rules or "enum" in rules:
            values = [rules["const"]] if "const" in rules else rules["enum"]
            return [
                literal(text) for value in values if self.reader.fits(value, schema) for text in _spellings(value)
            ], False
        self.lines.append(f"{name}: {json_rule(schema if self.patterns else _without_patterns(schema), self.schema)}")
        if rules.keys() & {"$ref", "anyOf", "oneOf", "allOf"} or "type" not in rules:
            return [name], False
        bodies = [name]
        types = self.reader.types(schema)
        bodies += ['"True"', '"False"'] * ("boolean" in types) + ['"None"'] * ("null" in types)
        if "array" in types and (rule := self.lists.of({**rules, "type": "array"})) is not None:
            bodies.append(rule)
        if "string" not in types:
            return bodies, False
        (text, *_) = (
            form for form in value_forms({**rules, "type": "string"}, self.schema) if isinstance(form, TextForm)
        )
        if text.is_free:
            return bodies, True
        bodies.append(self._bounded(name.upper(), text))
        return bodies, False

    def _bounded(self, name: str, text: TextForm) -> str:
        """A string with rules, between single quotes and without any inside."""
        longest = "" if text.longest is None else text.longest
        held = f"/[^']{{{text.shortest},{longest}}}/"
        if text.pattern is not None and self.patterns:
            held += f" & {regex_between_slashes(text.pattern)}"
        self.lines += [f"{name}V: {held}", f'{name}: "\'" {name}V "\'"']
        return name


def _spellings(value: Any) -> list[str]:
    """How the template writes one value of an enumeration, where that can be read, and how JSON does."""
    as_json = json.dumps(value, ensure_ascii=False)
    own = value_text("value", value)
    return [as_json] if isinstance(value, str) and "'" in value else list(dict.fromkeys([own, as_json]))


def _without_patterns(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {
            key: _without_patterns(value)
            for key, value in schema.items()
            if key != "pattern" or isinstance(value, Mapping)
        }
    return [_without_patterns(item) for item in schema] if isinstance(schema, list) else schema
