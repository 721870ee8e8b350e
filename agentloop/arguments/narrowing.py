"""A JSON schema as a grammar can hold it: what a model may write is a part of what the schema allows.

A grammar has no numbers, only digits, and no notion of a name that was there before. So that every text of the grammar
is a JSON text that can be read: integers have at most 15 digits and numbers no exponent, where the schema itself sets
no bound; objects that declare properties and say nothing of others have no others; a value of any type is spelled out
as such, with the same bounds. What no grammar can hold (`not`, `uniqueItems`, `format` of an unknown kind) stays in the
schema, to be validated when the text is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["narrowed"]

_LARGEST = 999_999_999_999_999
_ONE = ("items", "additionalProperties", "contains", "propertyNames", "if", "then", "else", "not")
_OPEN = ("items", "additionalProperties")  # where `true` allows any value
_MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_VALUES = frozenset({"type", "enum", "const", "$ref", "properties", "items", "prefixItems", *_MANY})
_ANY, _ROOT = "any", "root"


def narrowed(schema: Any, root: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The narrowed form of `schema`, which stands somewhere inside `root` (None: it is the root itself) and whose
    references are relative to that; the result is a schema of its own."""
    work = _Narrowing()
    result = work.schema(schema)
    defs: dict[str, Any] = {}
    if work.refers:
        defs[_ROOT] = work.schema(root if root is not None else schema)
    if work.uses_any:
        defs[_ANY] = _any_value()
    return {**result, "$defs": defs} if defs else result


class _Narrowing:
    def __init__(self) -> None:
        self.refers = self.uses_any = False

    def schema(self, schema: Any, *, part: bool = False) -> dict[str, Any]:
        """`part`: it stands beside others that describe the same value, so it must not close itself."""
        if schema is False:
            return {"not": {}}
        if not isinstance(schema, Mapping) or not _VALUES & schema.keys():
            if part and isinstance(schema, Mapping):
                return dict(schema)
            self.uses_any = True
            return {"$ref": f"#/$defs/{_ANY}"}
        beside = part or "allOf" in schema or sum(key in schema for key in ("anyOf", "oneOf", "$ref", "type")) > 1
        out: dict[str, Any] = {}
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str):
                self.refers = True
                out[key] = f"#/$defs/{_ROOT}{value[1:]}" if value.startswith("#") else value
            elif key in _ONE and (not isinstance(value, bool) or (value and key in _OPEN)):
                out[key] = self.schema(value)
            elif key in _MANY:
                out[key] = [self.schema(v, part=key == "allOf" or (key != "prefixItems" and beside)) for v in value]
            elif key in _NAMED and isinstance(value, Mapping):
                out[key] = {name: self.schema(v) for name, v in value.items()}
            else:
                out[key] = value
        self._bound(out)
        if not beside:
            self._close(out)
        return out

    def _bound(self, schema: dict[str, Any]) -> None:
        named = schema.get("type", ())
        types = {named} if isinstance(named, str) else set(named)
        if types & {"integer", "number"} and "enum" not in schema and "const" not in schema:
            if "minimum" not in schema and "exclusiveMinimum" not in schema:
                schema["minimum"] = min(-_LARGEST, _number(schema, "maximum", "exclusiveMaximum") - _LARGEST)
            if "maximum" not in schema and "exclusiveMaximum" not in schema:
                schema["maximum"] = max(_LARGEST, _number(schema, "minimum", "exclusiveMinimum") + _LARGEST)

    def _close(self, schema: dict[str, Any]) -> None:
        named = schema.get("type", ())
        types = {named} if isinstance(named, str) else set(named)
        if "object" in types or "properties" in schema:
            if "properties" in schema and "patternProperties" not in schema:
                schema.setdefault("additionalProperties", False)
            elif "patternProperties" not in schema and "additionalProperties" not in schema:
                schema["additionalProperties"] = self.schema(True)
        if "array" in types and "items" not in schema:
            schema["items"] = self.schema(True)


def _number(schema: Mapping[str, Any], *keys: str) -> float:
    return next((schema[key] for key in keys if isinstance(schema.get(key), (int, float))), 0)


def _any_value() -> dict[str, Any]:
    again = {"$ref": f"#/$defs/{_ANY}"}
    return {
        "anyOf": [
            {"type": ["string", "boolean", "null"]},
            {"type": "number", "minimum": -_LARGEST, "maximum": _LARGEST},
            {"type": "array", "items": again},
            {"type": "object", "additionalProperties": again},
        ]
    }
