"""Arguments of a call: the text between parameter tags becomes JSON values, as the tool's schema says.

A template writes a `str` as it is and everything else as JSON (`encode_value`), so the text alone does not tell `"5"`
from `5`; the schema does. Where it allows a string and nothing else, the text stays as it is, every byte of it: postal
codes, `null`, text that looks like JSON. Where it allows no string, the text is read as JSON (booleans and null also in
Python spelling, `140.0` as the integer `140`). Where it allows both, a number, boolean or null is taken only if writing
it again gives the same text, an array or object whenever it is valid JSON of the right shape, and else it is a string.

Values that are absent stay absent: defaults are the business of the function, and `encode(decode(text)) == text` for
every canonical text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jsonschema.exceptions import best_match
from referencing.exceptions import Unresolvable

from agentloop.arguments._messages import explain, relevance, unknown_tool
from agentloop.arguments._reader import Reader
from agentloop.arguments._text import encode_value, well_formed
from agentloop.calls import Call
from agentloop.exceptions import ArgumentsError

__all__ = ["check_call", "decode_arguments", "encode_value", "validate_arguments", "well_formed"]


def decode_arguments(raw: Mapping[str, str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Turn the text of every parameter into the JSON value that `schema` (an object schema) asks for.

    A value that fits no reading is returned in the reading that comes closest where there is one, for
    `validate_arguments` to refuse with the rule. Raises `ArgumentsError` for text that no allowed type can hold and for
    names that a schema with `properties` and without `additionalProperties` does not declare.
    """
    reader = Reader(schema)
    return {name: reader.decode(name, text) for name, text in raw.items()}


def validate_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Check JSON values against the tool's `parameters` schema.

    Raises `ArgumentsError` for the most telling violation; the message names the path, the rule and the value, and for
    a name that is not declared the names that are.
    """
    reader = Reader(schema)
    for name in arguments:
        reader.require_declared(name, arguments[name])
    try:
        error = best_match(reader.validator.iter_errors(dict(arguments)), key=relevance)
    except Unresolvable as exc:
        raise ArgumentsError("", "$ref", dict(arguments), f"the schema cannot be resolved: {exc}") from None
    except RecursionError:
        raise ArgumentsError("", "depth", None, "the arguments are nested too deeply") from None
    if error is not None:
        raise explain(error, reader.declared())


def check_call(call: Call, tools: Sequence[Mapping[str, Any]]) -> Call:
    """The same call with typed arguments, or with the status and the error that say why it must not run.

    `tools` are tool schemas (`{"type": "function", "function": {...}}`, or the inner object alone). A call whose status
    is not `ok` comes back as it is. Values that are no text (a call written as JSON) are taken as they are; half a
    character that JSON spelled (a lone surrogate) becomes `?`. Raises `ToolDefinitionError` if the tool's own schema is
    broken.
    """
    if call.status != "ok":
        return call
    call = replace(call, arguments=well_formed(call.arguments))
    functions = {str(f.get("name")): f for f in (tool.get("function", tool) for tool in tools)}
    function = functions.get(call.name)
    if function is None:
        return replace(call, status="unknown_tool", error=unknown_tool(call.name, list(functions)))
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    try:
        reader = Reader(schema, call.name)
        typed = "json_style" in call.repairs
        arguments = {name: reader.decode(name, value, typed=typed) for name, value in call.arguments.items()}
        arguments = well_formed(arguments)  # text that was read as JSON may have spelled more of them
        validate_arguments(arguments, schema)
    except ArgumentsError as exc:
        return replace(call, status="invalid_arguments", error=f"invalid arguments for {call.name}: {exc}")
    return replace(call, arguments=arguments)
