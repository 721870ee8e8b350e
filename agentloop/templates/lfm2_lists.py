"""The grammar of a list in a call of LFM2, which the template writes as Python does: `[1, 'a', None, {'k': True}]`.

Made from the list's JSON schema, for the schemas that say no more than a grammar can hold; other lists can be written
as JSON alone. Numbers have the bounds of `arguments.narrowing`, objects their properties in the schema's order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..arguments._reader import Reader
from .call_constraint import json_rule, literal
from .call_values import NOTES
from .lfm2_strings import literal_text

__all__ = ["ListRules"]

_SCALARS: Mapping[str, str] = {"boolean": '("True" | "False")', "null": '"None"'}
_KNOWN = frozenset({"type", "items", "minItems", "maxItems", "properties", "required", "minLength", "maxLength"})
_LONGEST = 1000  # characters that a grammar counts


class _Unheld(Exception):
    """The schema says what these rules cannot."""


class ListRules:
    """Collects the `lines` of rules whose names begin with `name`. `root`: the schema that references point into."""

    def __init__(self, name: str, root: Mapping[str, Any]) -> None:
        self.lines: list[str] = []
        self._name, self._root = name, root
        self._reader = Reader(root)
        self._known: dict[str, str] = {}

    def of(self, schema: Any) -> str | None:
        """The name of a rule for the literals that fit; None where there is none, and nothing is added then."""
        before = len(self.lines), dict(self._known)
        try:
            return self._rule(schema, 0)
        except _Unheld:
            del self.lines[before[0] :]
            self._known = before[1]
            return None

    def _rule(self, schema: Any, depth: int) -> str:
        key = repr(schema)
        if key not in self._known:
            if depth > 12:  # a reference to itself
                raise _Unheld
            body = self._body(schema, depth)
            self._known[key] = f"{self._name}l{len(self._known)}"
            self.lines.append(f"{self._known[key]}: {body}")
        return self._known[key]

    def _body(self, schema: Any, depth: int) -> str:
        if not isinstance(schema, Mapping):
            raise _Unheld
        rules = {key: value for key, value in schema.items() if key not in NOTES}
        if "enum" in rules or "const" in rules:
            values = [rules["const"]] if "const" in rules else rules["enum"]
            return _any_of(literal(repr(value)) for value in values if self._reader.fits(value, schema))
        if len(rules) == 1:
            (key, value), *_ = rules.items()
            if key == "$ref":
                return self._rule(self._reader.resolve(value), depth + 1)
            if key in ("anyOf", "oneOf"):
                return _any_of(self._rule(part, depth + 1) for part in value)
        types = [rules["type"]] if isinstance(rules.get("type"), str) else list(rules.get("type", ()))
        bodies = [self._typed(kind, rules, depth) for kind in types if kind not in ("integer", "number")]
        if numbers := [kind for kind in types if kind in ("integer", "number")]:
            bodies.append(self._named(json_rule({**schema, "type": numbers}, self._root)))
        elif rules.keys() - _KNOWN:
            raise _Unheld
        return _any_of(bodies)

    def _named(self, body: str) -> str:
        name = f"{self._name}j{len(self.lines)}"
        self.lines.append(f"{name}: {body}")
        return name

    def _typed(self, kind: str, rules: Mapping[str, Any], depth: int) -> str:
        if rules.keys() - _KNOWN:
            raise _Unheld
        if kind == "string":
            return literal_text(*_bounds(rules, "minLength", "maxLength"))
        if kind == "array":
            return _sequence(self._rule(rules.get("items"), depth + 1), *_bounds(rules, "minItems", "maxItems"))
        if kind == "object":
            return self._object(rules, depth)
        return _SCALARS[kind]

    def _object(self, rules: Mapping[str, Any], depth: int) -> str:
        properties, required = rules.get("properties"), set(rules.get("required", ()))
        if properties is None or required - properties.keys():
            raise _Unheld
        if not properties:
            return '"{}"'
        pairs = [
            (f"{literal(repr(name) + ': ')} {self._rule(part, depth + 1)}", name in required)
            for name, part in properties.items()
        ]
        # Behind each property: those that may follow. `rest[i]` begins with a comma, `first[i]` does not.
        rest: list[str] = ['""']
        first: list[str] = ['""']
        for pair, needed in reversed(pairs):
            behind = rest[-1]
            rest.append(self._named(f'", " {pair} {behind}' + ("" if needed else f" | {behind}")))
            first.append(self._named(f"{pair} {behind}" + ("" if needed else f" | {first[-1]}")))
        return f'"{{" {first[-1]} "}}"'


def _any_of(bodies: Any) -> str:
    found = list(dict.fromkeys(bodies))
    if not found:
        raise _Unheld
    return found[0] if len(found) == 1 else f"({' | '.join(found)})"


def _bounds(rules: Mapping[str, Any], least: str, most: str) -> tuple[int, int | None]:
    shortest, longest = rules.get(least, 0), rules.get(most)
    if shortest > _LONGEST or (longest is not None and longest < shortest):
        raise _Unheld
    return shortest, longest if longest is not None and longest <= _LONGEST else None


def _sequence(item: str, least: int, most: int | None) -> str:
    if most == 0:
        return '"[]"'
    behind = f"{{{max(least - 1, 0)},{'' if most is None else most - 1}}}"
    some = f'"[" {item} (", " {item}){behind} "]"'
    return some if least else f'("[]" | {some})'
