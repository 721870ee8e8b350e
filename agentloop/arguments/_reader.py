"""One schema of a tool's parameters: which type each value has, and what JSON value a text becomes."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema.exceptions import SchemaError
from jsonschema.validators import Draft202012Validator, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from agentloop.arguments._messages import a_type, show, unknown_parameter, why
from agentloop.arguments._text import ALL_TYPES, meet, readings, type_of
from agentloop.exceptions import ArgumentsError, ToolDefinitionError

__all__ = ["Reader"]


@functools.lru_cache(maxsize=256)
def _fault(text: str) -> str | None:
    """What makes the text no JSON schema; by its text, because a schema is checked again with every call."""
    schema = json.loads(text)
    try:
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
    except SchemaError as exc:
        return str(exc.message)
    return None


class Reader:
    """One schema of a tool's parameters and what it says about every name and value."""

    def __init__(self, schema: Mapping[str, Any], tool: str = "arguments") -> None:
        try:
            fault = _fault(json.dumps(schema))
        except (TypeError, ValueError, RecursionError) as exc:
            fault = str(exc)
        if fault is not None:
            raise ToolDefinitionError(tool, f"its parameters are no JSON schema: {fault}")
        self.schema = schema
        # An explicit registry: the default one would fetch remote references over the network.
        self.validator: Any = validator_for(schema, default=Draft202012Validator)(schema, registry=Registry())

    def decode(self, name: str, value: Any, *, typed: bool = False) -> Any:
        """The JSON value of one parameter; `typed`: the value was JSON already, so a fitting string stays one."""
        schema = self.require_declared(name, value)
        if not isinstance(value, str) or (typed and self.fits(value, schema)):
            return self._integral(value, schema)
        types = self.types(schema)
        if types == {"string"}:
            return value
        found = [self._integral(reading, schema) for reading in readings(value, types)]
        for reading in found:
            if self.fits(reading, schema):
                return reading
        if "string" in types:
            return value
        if found:
            return found[0]
        raise ArgumentsError(name, "type", value, f"{name} must be {a_type(types)}, got {show(value)}{why(value)}")

    def require_declared(self, name: str, value: Any) -> Any:
        """The schema of the parameter `name`; raises if the schema is closed and does not know it."""
        found = list(self._property(self.schema, name, frozenset()))
        if found:
            return found[0] if len(found) == 1 else {"anyOf": found}
        declared = self.declared()
        if not declared and "properties" not in self.schema and self.schema.get("additionalProperties") is not False:
            return True
        raise ArgumentsError(name, "additionalProperties", value, unknown_parameter(name, declared))

    def declared(self) -> list[str]:
        return list(dict.fromkeys(self._names(self.schema, frozenset())))

    def _property(self, schema: Any, name: str, seen: frozenset[str]) -> Iterator[Any]:
        if not isinstance(schema, Mapping):
            return
        if name in schema.get("properties", ()):
            yield schema["properties"][name]
            return
        for pattern, sub in schema.get("patternProperties", {}).items():
            if re.search(pattern, name):
                yield sub
                return
        inherited = [found for part, seen in self._parts(schema, seen) for found in self._property(part, name, seen)]
        extra = schema.get("additionalProperties")
        if inherited:
            yield from inherited
        elif extra is not None and extra is not False:
            yield extra

    def _names(self, schema: Any, seen: frozenset[str]) -> Iterator[str]:
        if isinstance(schema, Mapping):
            yield from schema.get("properties", ())
            for part, inner in self._parts(schema, seen):
                yield from self._names(part, inner)

    def _parts(self, schema: Mapping[str, Any], seen: frozenset[str]) -> Iterator[tuple[Any, frozenset[str]]]:
        """The schemas that describe the same value: behind `$ref` and inside allOf, anyOf, oneOf."""
        ref = schema.get("$ref")
        if isinstance(ref, str) and ref not in seen:
            yield self.resolve(ref), seen | {ref}
        for keyword in ("allOf", "anyOf", "oneOf"):
            for part in schema.get(keyword, ()):
                yield part, seen

    def resolve(self, ref: str) -> Any:
        if ref != "#" and not ref.startswith("#/"):
            return True
        node: Any = self.schema
        for step in ref[2:].split("/") if ref != "#" else ():
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isdigit() and int(key) < len(node):
                node = node[int(key)]
            else:
                return True
        return node

    def types(self, schema: Any, seen: frozenset[str] = frozenset()) -> frozenset[str]:
        """The JSON types that the schema leaves possible; `number` stands for integers too."""
        if not isinstance(schema, Mapping):
            return ALL_TYPES
        types = ALL_TYPES
        if "type" in schema:
            named = schema["type"]
            types = meet(types, frozenset([named] if isinstance(named, str) else named))
        if "const" in schema:
            types = meet(types, {type_of(schema["const"])})
        if "enum" in schema:
            types = meet(types, {type_of(member) for member in schema["enum"]})
        ref = schema.get("$ref")
        if isinstance(ref, str) and ref not in seen:
            types = meet(types, self.types(self.resolve(ref), seen | {ref}))
        for part in schema.get("allOf", ()):
            types = meet(types, self.types(part, seen))
        for keyword in ("anyOf", "oneOf"):
            if schema.get(keyword):
                types = meet(types, frozenset().union(*(self.types(part, seen) for part in schema[keyword])))
        return types

    def fits(self, value: Any, schema: Any) -> bool:
        try:
            return bool(self.validator.evolve(schema=schema).is_valid(value))
        except (Unresolvable, RecursionError):
            return True  # validate_arguments says it with its reason

    def _integral(self, value: Any, schema: Any, seen: frozenset[str] = frozenset()) -> Any:
        """`140.0` becomes `140` wherever, at any depth, the schema allows an integer and no other number."""
        if isinstance(value, float):
            types = self.types(schema)
            return int(value) if "integer" in types and "number" not in types and value.is_integer() else value
        if not isinstance(value, (list, dict)) or not isinstance(schema, Mapping):
            return value
        for part, inner in self._parts(schema, seen):
            if self.fits(value, part):
                value = self._integral(value, part, inner)
        if isinstance(value, dict):
            return {k: self._integral(v, next(self._property(schema, k, seen), True)) for k, v in value.items()}
        first = schema.get("prefixItems", [])
        rest = schema.get("items", True)
        return [self._integral(v, first[i] if i < len(first) else rest) for i, v in enumerate(value)]
