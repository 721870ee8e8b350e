"""Arguments: text between tags to JSON values by the schema, and what a model is told where that fails."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentloop.arguments import check_call, decode_arguments, encode_value, validate_arguments
from agentloop.calls import Call
from agentloop.exceptions import ArgumentsError, ToolDefinitionError, ToolFailed

POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]}},
    "required": ["x"],
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "nothing": {"type": "null"},
        "maybe_text": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "maybe_count": {"type": ["integer", "null"]},
        "id": {"type": ["integer", "string"]},
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "number"}]},
        "point": {"$ref": "#/$defs/Point"},
        "choice": {"enum": ["a", "b", 1, None]},
        "fixed": {"const": 7},
        "both": {"allOf": [{"type": ["integer", "string"]}, {"type": ["integer", "null"]}]},
        "one": {"oneOf": [{"type": "boolean"}, {"type": "array"}]},
        "text_or_object": {"anyOf": [{"type": "string"}, {"type": "object"}]},
        "free": {},
        "any_count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "one_count": {"oneOf": [{"type": "integer"}, {"type": "null"}]},
        "all_count": {"allOf": [{"type": ["integer", "boolean"]}, {"type": ["integer", "null"]}]},
        "ref_count": {"$ref": "#/$defs/Count"},
        "enum_count": {"enum": [3, True, None]},
    },
    "$defs": {"Point": POINT, "Count": {"type": ["integer", "null"]}},
}


def one(name: str, text: str) -> Any:
    return decode_arguments({name: text}, SCHEMA)[name]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("text", "02134", "02134"),
        ("text", "null", "null"),
        ("text", "True", "True"),
        ("text", '{"a": 1}', '{"a": 1}'),
        ("text", '"quoted"', '"quoted"'),
        ("text", "  two\n lines \n", "  two\n lines \n"),
        ("text", "", ""),
        ("count", "140", 140),
        ("count", "140.0", 140),
        ("count", " 140\n", 140),
        ("count", "1e3", 1000),
        ("count", "+5", 5),
        ("count", "123456789012345678901234567890", 123456789012345678901234567890),
        ("ratio", "140", 140),
        ("ratio", "140.0", 140.0),
        ("ratio", "1e20", 1e20),
        ("ratio", ".5", 0.5),
        ("flag", "true", True),
        ("flag", "False", False),
        ("nothing", "None", None),
        ("nothing", "null", None),
        ("maybe_text", "null", None),
        ("maybe_text", "nullable", "nullable"),
        ("maybe_text", "12", "12"),
        ("maybe_count", "None", None),
        ("maybe_count", "3.0", 3),
        ("id", "5", 5),
        ("id", "005", "005"),
        ("id", "5.0", "5.0"),
        ("id", " 5", " 5"),
        ("numbers", "[1.0, 2]", [1, 2]),
        ("numbers", "(1, 2)", [1, 2]),
        ("pair", "[1.0, 1.0]", [1, 1.0]),
        ("point", '{"x": 1.0, "next": {"x": 2.0, "next": null}}', {"x": 1, "next": {"x": 2, "next": None}}),
        ("point", "{'x': 1, 'next': None}", {"x": 1, "next": None}),
        ("choice", "a", "a"),
        ("choice", "1", 1),
        ("choice", "null", None),
        ("fixed", "7.0", 7),
        ("both", "12", 12),
        ("one", "True", True),
        ("one", "[true]", [True]),
        ("text_or_object", '{"a":1}', {"a": 1}),
        ("text_or_object", "[1]", "[1]"),
        ("text_or_object", "{oops", "{oops"),
        ("any_count", "3.0", 3),
        ("any_count", "None", None),
        ("one_count", "3.0", 3),
        ("one_count", "None", None),
        ("all_count", " 3.0", 3),
        ("ref_count", "3.0", 3),
        ("ref_count", "None", None),
        ("enum_count", "3.0", 3),
        ("enum_count", "True", True),
        ("enum_count", "None", None),
        ("free", "5", 5),
        ("free", "05", "05"),
        ("free", "plain", "plain"),
    ],
)
def test_the_schema_decides_the_type(name: str, text: str, value: Any) -> None:
    decoded = one(name, text)
    assert json.dumps(decoded) == json.dumps(value)
    validate_arguments({name: decoded}, SCHEMA)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("count", "abc", 'count must be an integer, got "abc"'),
        ("count", "", 'count must be an integer, got ""'),
        ("count", "007", 'count must be an integer, got "007"'),
        ("ratio", "NaN", 'ratio must be a number, got "NaN"'),
        ("ratio", "1e999", 'ratio must be a number, got "1e999"'),
        ("flag", "yes", 'flag must be a boolean, got "yes"'),
        ("maybe_count", "x", 'maybe_count must be an integer or null, got "x"'),
        (
            "numbers",
            "[1, 2",
            "numbers must be an array, got \"[1, 2\", which is no valid JSON: Expecting ',' delimiter",
        ),
        ("point", '{"x": 1, "x": 2}', "the name 'x' is there twice with different values"),
        ("numbers", "__import__('os').getpid()", "numbers must be an array"),
        ("numbers", "[" * 100_000, "nested too deeply"),
    ],
)
def test_text_that_no_allowed_type_can_hold(name: str, text: str, said: str) -> None:
    with pytest.raises(ArgumentsError) as caught:
        one(name, text)
    assert said in str(caught.value)
    assert (caught.value.path, caught.value.rule, caught.value.value) == (name, "type", text)


def test_a_number_out_of_range_is_refused_at_any_depth() -> None:
    for text in ("[1e999]", "[[-1e999]]", '[{"a": 1e400}]'):
        with pytest.raises(ArgumentsError, match="out of range"):
            one("one", text)


@pytest.mark.parametrize(
    ("arguments", "path", "rule", "said"),
    [
        ({"count": 1.5}, "count", "type", "count must be an integer, got 1.5"),
        ({"count": True}, "count", "type", "count must be an integer, got true"),
        ({"numbers": [1, "a"]}, "numbers[1]", "type", 'numbers[1] must be an integer, got "a"'),
        ({"point": {}}, "point", "required", 'missing required parameter "x" in point'),
        ({"choice": "z"}, "choice", "enum", 'choice must be one of "a", "b", 1, null, got "z"'),
        ({"fixed": 8}, "fixed", "const", "fixed must be 7, got 8"),
        (
            {"coutn": 1},
            "coutn",
            "additionalProperties",
            'unknown parameter "coutn"; did you mean "count"? declared parameters: text, count',
        ),
        ({"text": 5}, "text", "type", "text must be a string, got 5"),
    ],
)
def test_errors_name_path_rule_and_value(arguments: dict[str, Any], path: str, rule: str, said: str) -> None:
    with pytest.raises(ArgumentsError) as caught:
        validate_arguments(arguments, SCHEMA)
    assert (caught.value.path, caught.value.rule) == (path, rule)
    assert said in str(caught.value)


def test_a_long_value_is_shortened_in_the_message() -> None:
    with pytest.raises(ArgumentsError) as caught:
        one("count", "x" * 5000)
    assert len(str(caught.value)) < 200
    assert caught.value.value == "x" * 5000


def test_defaults_are_left_to_the_function() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "default": 3}}}
    assert decode_arguments({}, schema) == {}
    validate_arguments({}, schema)


def test_additional_properties() -> None:
    open_object: dict[str, Any] = {"type": "object"}
    typed = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}}
    assert decode_arguments({"x": "5"}, open_object) == {"x": 5}
    assert decode_arguments({"a": "5", "x": "5"}, typed) == {"a": "5", "x": 5}
    pattern = {"type": "object", "properties": {}, "patternProperties": {"^n_": {"type": "integer"}}}
    assert decode_arguments({"n_a": "1.0"}, pattern) == {"n_a": 1}
    closed: dict[str, Any] = {"type": "object", "properties": {}}
    with pytest.raises(ArgumentsError, match="there are no parameters"):
        decode_arguments({"x": "5"}, closed)
    validate_arguments({"x": 1}, open_object)
    with pytest.raises(ArgumentsError):
        validate_arguments({"x": "y"}, typed)


def test_properties_behind_combinations_and_references() -> None:
    schema = {
        "allOf": [{"$ref": "#/$defs/base"}],
        "anyOf": [{"properties": {"n": {"type": "integer"}}}, {"properties": {"n": {"type": "null"}}}],
        "type": "object",
        "$defs": {"base": {"type": "object", "properties": {"code": {"type": "string"}}}},
    }
    assert decode_arguments({"code": "01", "n": "None"}, schema) == {"code": "01", "n": None}
    assert decode_arguments({"code": "01", "n": "2"}, schema) == {"code": "01", "n": 2}


def test_a_reference_to_another_document_is_never_fetched() -> None:
    asked: list[str] = []

    class Schemas(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type": "integer"}')

        def log_message(self, format: str, *args: Any) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Schemas)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        ref = f"http://127.0.0.1:{server.server_port}/schema.json"
        with pytest.raises(ArgumentsError) as caught:
            validate_arguments({"a": 1}, {"type": "object", "properties": {"a": {"$ref": ref}}})
    finally:
        server.shutdown()
        server.server_close()
    assert caught.value.rule == "$ref"
    assert asked == []


TOOLS = [{"type": "function", "function": {"name": "f", "description": "", "parameters": SCHEMA}}]


def test_check_call_types_the_arguments() -> None:
    call = check_call(Call("f", {"count": "140.0", "text": "02134"}, raw="<...>"), TOOLS)
    assert call == Call("f", {"count": 140, "text": "02134"}, raw="<...>")
    assert check_call(call, TOOLS) == call


def test_check_call_takes_json_values_as_they_are() -> None:
    call = Call("f", {"id": "5", "count": "5", "numbers": [1.0]}, repairs=("json_style",))
    assert check_call(call, TOOLS).arguments == {"id": "5", "count": 5, "numbers": [1]}
    assert check_call(Call("f", {"text": 5}), TOOLS).error == "invalid arguments for f: text must be a string, got 5"


def test_check_call_says_what_is_declared() -> None:
    unknown = check_call(Call("g", {}), TOOLS)
    assert (unknown.status, unknown.error) == ("unknown_tool", 'there is no tool "g"; declared tools: f')
    near = check_call(Call("read_fil", {}), [{"function": {"name": "read_file"}}])
    assert near.error == 'there is no tool "read_fil"; did you mean "read_file"? declared tools: read_file'
    invalid = check_call(Call("f", {"count": "x"}), TOOLS)
    assert invalid.status == "invalid_arguments"
    assert invalid.arguments == {"count": "x"}
    assert check_call(Call("g", {}), []).error == 'there is no tool "g": no tools are declared'


def test_check_call_leaves_other_statuses_alone() -> None:
    cut = Call("f", {"count": "1"}, status="incomplete", error="cut")
    assert check_call(cut, TOOLS) is cut


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "properties": {"a": {"type": "text"}}},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
        {"type": "object", "properties": {"a": {"anyOf": "string"}}},
        {"type": "object", "properties": {"a": {"default": object()}}},
    ],
)
def test_a_broken_schema_is_the_fault_of_its_tool(parameters: dict[str, Any]) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        check_call(Call("f", {"a": "x"}), [{"function": {"name": "f", "parameters": parameters}}])
    assert caught.value.tool == "f"


json_scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
json_values = st.recursive(
    json_scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


typed_pairs = st.one_of(
    st.tuples(st.just({"type": "string"}), st.text()),
    st.tuples(st.just({"type": "integer"}), st.integers()),
    st.tuples(st.just({"type": "number"}), st.integers() | st.floats(allow_nan=False, allow_infinity=False)),
    st.tuples(st.just({"type": "boolean"}), st.booleans()),
    st.tuples(st.just({"type": "null"}), st.none()),
    st.tuples(st.just({"type": "array"}), st.lists(json_values, max_size=4)),
    st.tuples(st.just({"type": "object"}), st.dictionaries(st.text(max_size=6), json_values, max_size=4)),
    st.tuples(st.just({"type": ["integer", "null"]}), st.integers() | st.none()),
    st.tuples(st.just({"anyOf": [{"type": "boolean"}, {"type": "array"}]}), st.booleans() | st.lists(json_scalars)),
    st.tuples(
        st.just({"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "string"}]}}),
        st.lists(st.text() | st.floats(allow_nan=False, allow_infinity=False)),
    ),
)


@settings(max_examples=300, deadline=None)
@given(pairs=st.lists(typed_pairs, max_size=5))
def test_decoding_undoes_what_a_template_writes(pairs: list[tuple[dict[str, Any], Any]]) -> None:
    schema = {"type": "object", "properties": {f"p{i}": sub for i, (sub, _) in enumerate(pairs)}}
    values = {f"p{i}": value for i, (_, value) in enumerate(pairs)}
    text = {name: encode_value(value) for name, value in values.items()}
    decoded = decode_arguments(text, schema)
    assert repr(decoded) == repr(values)  # repr: 1, 1.0 and True are different values here
    validate_arguments(decoded, schema)
    assert {name: encode_value(value) for name, value in decoded.items()} == text


any_schema = st.sampled_from([{}, {"type": ["string", "integer", "null"]}, {"anyOf": [{"type": "string"}, {}]}])


@settings(max_examples=300, deadline=None)
@given(text=st.text() | json_values.map(encode_value), schema=any_schema)
def test_where_a_string_is_allowed_too_scalars_render_back_to_the_same_text(text: str, schema: dict[str, Any]) -> None:
    value = decode_arguments({"p": text}, {"type": "object", "properties": {"p": schema}})["p"]
    if not isinstance(value, (dict, list)):
        assert encode_value(value) == text


@settings(max_examples=300, deadline=None)
@given(text=st.text(), kind=st.sampled_from(["integer", "number", "boolean", "null", "array", "object"]))
def test_any_text_gives_a_valid_value_or_a_typed_error(text: str, kind: str) -> None:
    schema = {"type": "object", "properties": {"p": {"type": kind}}}
    call = check_call(Call("f", {"p": text}), [{"function": {"name": "f", "parameters": schema}}])
    assert call.status in ("ok", "invalid_arguments")
    assert (call.error is None) == (call.status == "ok")
    if call.status == "ok":
        validate_arguments(call.arguments, schema)


def test_text_of_a_model_makes_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    from agentloop.tools.samples import calculator

    for text in ("[1if 2else 3]", "[1or 2]", "{0x1for x in 2}", "(1 is 1)"):
        with contextlib.suppress(ArgumentsError):
            decode_arguments({"a": text}, {"type": "object", "properties": {"a": {"type": "array"}}})
    with contextlib.suppress(ToolFailed):
        asyncio.run(calculator.call({"expression": "1or 2"}, None))
    assert not recwarn.list
