"""The readings of a text: which JSON values it may spell, given the types that a schema allows."""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = ["ALL_TYPES", "encode_value", "loads", "meet", "readings", "type_of", "well_formed"]

ALL_TYPES = frozenset({"string", "integer", "number", "boolean", "null", "object", "array"})
_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_LITERAL_LIMIT = 100_000  # characters of a Python literal; the compiler is no place for more


class _TwoValues(ValueError):
    """An object names the same member twice with different values."""


def encode_value(value: Any) -> str:
    """The text that a template writes for a JSON value: a `str` as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def well_formed(value: Any) -> Any:
    """An equal value with `?` for every lone surrogate in its strings, at any depth: JSON can spell one, and no token
    can. What is nested too deeply to be looked through comes back as it is."""
    try:
        return _well_formed(value)
    except RecursionError:
        return value


def _well_formed(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_well_formed(key): _well_formed(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_well_formed, value))
    return value


def readings(text: str, types: Iterable[str]) -> Iterator[Any]:
    """The values of the allowed types that `text` may spell, likeliest first; a plain string is not among them."""
    types = frozenset(types)
    for value in _values(text.strip(), types):
        kind = type_of(value)
        if "string" in types:
            # Beside a string, only what is beyond doubt: the right type, and the same text when written again.
            allowed = kind in types or (kind == "integer" and "number" in types)
            if not allowed or (kind not in ("object", "array") and encode_value(value) != text):
                continue
        yield value


def _values(bare: str, types: frozenset[str]) -> Iterator[Any]:
    word = bare.lower()
    if "boolean" in types and word in ("true", "false"):
        yield word == "true"
    if "null" in types and word in ("null", "none"):
        yield None
    try:
        yield loads(bare)
        return
    except _TwoValues:
        return
    except (ValueError, RecursionError):
        pass
    if meet(types, {"number"}) and _NUMBER.fullmatch(bare) and math.isfinite(number := float(bare)):
        yield int(bare) if re.fullmatch(r"[+-]?\d{1,400}", bare) else number
    if bare[:1] in ("[", "{", "(") and len(bare) <= _LITERAL_LIMIT:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)  # it is the model's text, not a program of ours
                value = _plain(ast.literal_eval(bare))
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            return
        yield value


def loads(text: str) -> Any:
    """JSON as the standard has it: no NaN, no infinity, no name twice with different values."""

    def constant(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    def number(digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            raise ValueError(f"{digits} is out of range")
        return value

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in items:
            if key in result and not _same(result[key], value):
                raise _TwoValues(f"the name {key!r} is there twice with different values")
            result[key] = value
        return result

    return json.loads(text, parse_constant=constant, parse_float=number, object_pairs_hook=pairs)


def _same(left: Any, right: Any) -> bool:
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def _plain(value: Any) -> Any:
    """A Python literal as JSON values; raises ValueError for what JSON has no form for."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _plain(item) for key, item in value.items()}
    if value is None or isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise ValueError("no JSON value")


def type_of(value: Any) -> str:
    if value is None:
        return "null"
    for kind, name in (
        (bool, "boolean"),
        (int, "integer"),
        (float, "number"),
        (str, "string"),
        (Mapping, "object"),
    ):
        if isinstance(value, kind):
            return name
    return "array"


def meet(left: Iterable[str], right: Iterable[str]) -> frozenset[str]:
    """Intersection of two sets of JSON types, in which every integer is a number."""
    a, b = frozenset(left), frozenset(right)
    both = a & b
    if ("integer" in a and "number" in b) or ("integer" in b and "number" in a):
        both |= {"integer"}
    return both
