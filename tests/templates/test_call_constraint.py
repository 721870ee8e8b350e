"""The grammar of calls: what it lets through is valid, and what is valid it lets through."""

from __future__ import annotations

from itertools import permutations
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentloop.arguments import encode_value
from agentloop.engine.bytevocab import ByteVocab
from agentloop.engine.constraint import Grammar
from agentloop.exceptions import ConstraintError
from agentloop.templates import Qwen38, Reply, StrictCalls
from agentloop.templates.answer_constraint import answer_grammar
from agentloop.templates.call_constraint import call_grammar
from tests.grammar_walks import walk
from tests.schema_strategies import fitting, objects, schemas

VOCAB = ByteVocab()
QWEN = Qwen38()
OPEN, CLOSE = "<tool_call>", "</tool_call>"


def tool(properties: dict[str, Any], required: tuple[str, ...] = (), name: str = "f", **more: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(required), **more}
    return {"type": "function", "function": {"name": name, "description": "Does it.", "parameters": parameters}}


def spelled(*values: tuple[str, str], name: str = "f") -> str:
    lines = "".join(f"<parameter={key}>\n{text}\n</parameter>\n" for key, text in values)
    return f"\n<function={name}>\n{lines}</function>\n</tool_call>"


def takes(tools: list[dict[str, Any]], text: str, strict: set[str] | None = None) -> bool:
    """Text of a whole reply from behind its first opener on, special tokens spelled."""
    constraint = Grammar(call_grammar(tools, strict), VOCAB).constraint()
    ids = VOCAB.encode(text + "<|im_end|>", special=True)
    return all(constraint.accept(token) for token in ids) and constraint.finished


def read(ids: list[int], tools: list[dict[str, Any]]) -> Reply:
    """What a reader makes of ids that were held to the grammar."""
    reader = QWEN.reader(VOCAB.special_tokens(), tools, thinking=False)
    reader.held = True
    for token in VOCAB.encode(OPEN, special=True) + ids:
        reader.feed(token, VOCAB.decode([token]))
    return reader.finish("end")


TWO = [tool({"a": {"type": "string"}, "n": {"type": "integer"}}, ("a",)), tool({}, name="none")]


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (spelled(("a", "x")), True),
        (spelled(("n", "5"), ("a", "x")), True),
        (spelled(("a", ""), ("n", "-5")), True),
        (spelled(("a", "several\n\nlines </parameter> <parameter=n>\n</function>\n")), True),
        (spelled(("a", "x")) + "\n<tool_call>" + spelled(name="none"), True),
        (spelled(name="none"), True),
        (spelled(("n", "5")), False),
        (spelled(("a", "x"), ("a", "y")), False),
        (spelled(("a", "x"), ("n", "five")), False),
        (spelled(("a", "x"), ("n", "5.5")), False),
        (spelled(("a", "x"), ("b", "y")), False),
        (spelled(("a", "x"), name="g"), False),
        (spelled(("a", "x"), name="none"), False),
        (spelled(("a", "x")).replace("\n<function", "<function"), False),
        (spelled(("a", "x")) + "And then?", False),
        (spelled(("a", "<|im_start|>")), False),
        (spelled(("a", "<think>")), False),
        ('\n{"name": "f", "arguments": {"a": "x"}}\n</tool_call>', False),
    ],
)
def test_only_the_canonical_form_of_a_declared_tool(text: str, good: bool) -> None:
    assert takes(TWO, text) is good


STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (STRING, ["", "null", "7", "\n", '{"a": 1', "\u00e9\U0001f600"], []),
        (True, ["", "anything"], []),
        ({"type": "string", "enum": ["a", "b c", 'q"\\']}, ["a", "b c", 'q"\\'], ["", "ab", '"a"']),
        ({"enum": ["a", 1, None, True]}, ["a", "1", "null", "true"], ["True", "2"]),
        ({"const": 5}, ["5"], ["6", "55"]),
        ({"type": "string", "minLength": 2, "maxLength": 4}, ["ab", "\u00e9\u00e9\u00e9\u00e9"], ["a", "abcde", ""]),
        ({"type": "string", "maxLength": 5000}, ["", "x" * 400], []),
        ({"type": "string", "minLength": 900}, ["x" * 901], ["x" * 10]),
        ({"type": "string", "pattern": "^[a-z/]+$"}, ["a/b"], ["A", "", "a\n"]),
        ({"type": "string", "pattern": "x\\d"}, ["__x5__", "x1"], ["x", "_"]),
        ({"type": "string", "pattern": "^(?=look)"}, ["anything"], []),
        ({"type": "string", "pattern": "^a|b$"}, ["anything"], []),
        ({"type": "string", "pattern": "^[a-z]+", "maxLength": 5, "minLength": 2}, ["ab1"], ["1ab", "abcdef", "a"]),
        ({"type": "boolean"}, ["true", "false"], ["True", "0", ""]),
        ({"type": "null"}, ["null"], ["None"]),
        ({"type": "integer"}, ["0", "-7", "123456789"], ["1.5", "07", "1e3", "x", "1" * 400]),
        ({"type": "integer", "minimum": 3, "maximum": 11}, ["3", "11"], ["2", "12", "111"]),
        ({"type": "number"}, ["0.5", "-3"], ["1e999", "NaN", ".5"]),
        ({"type": ["integer", "null"]}, ["1", "null"], ["x"]),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, ["1", "null"], ["x"]),
        ({"anyOf": [STRING, {"type": "integer"}]}, ["1", "x", ""], []),
        ({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]}, ["null", "abc", ""], ["abcd"]),
        ({"anyOf": [{"type": "string", "minLength": 6}, {"type": "null"}]}, ["null", "abcdef"], ["abc"]),
        ({"type": "array", "items": {"type": "integer"}}, ["[]", "[1, 2]"], ["[1,2]", "[1, ]", '["1"]', "1"]),
        (
            {"type": "object", "properties": {"k": {"enum": ["u", "v"]}}, "required": ["k"]},
            ['{"k": "u"}'],
            ['{"k": "w"}', "{}", '{"k":"u"}', '{"k": "u", "l": 1}'],
        ),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, ["{}", '{"x": 1, "y": 2}'], ['{"x": "1"}']),
        ({"type": "object"}, ['{"x": [1, {"y": null}]}'], ["[]", '{"x": 1e999}']),
        ({"$ref": "#/$defs/Mode"}, ["fast", "slow"], ["other", '"fast"']),
        ({"type": "array", "items": {"$ref": "#/$defs/Mode"}}, ['["fast", "slow"]'], ["[fast]"]),
        ({"$ref": "#/$defs/Tree"}, ['{"left": null}', '{"left": {"left": null}}'], ["{}", "null"]),
    ],
)
def test_forms_of_values(schema: Any, good: list[str], bad: list[str]) -> None:
    defs = {
        "Mode": {"type": "string", "enum": ["fast", "slow"]},
        "Tree": {
            "type": "object",
            "properties": {"left": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]}},
            "required": ["left"],
        },
    }
    tools = [tool({"v": schema}, ("v",), **{"$defs": defs})]
    for text in good:
        assert takes(tools, spelled(("v", text))), text
    for text in bad:
        assert not takes(tools, spelled(("v", text))), text


def test_any_order_of_parameters() -> None:
    names = "abcde"
    tools = [tool(dict.fromkeys(names, STRING), ("b", "d"))]
    grammar = Grammar(call_grammar(tools), VOCAB)
    for n in range(6):
        for order in permutations(names, n):
            constraint = grammar.constraint()
            ids = VOCAB.encode(spelled(*((name, "x") for name in order)) + "<|im_end|>", special=True)
            assert all(map(constraint.accept, ids)) is ({"b", "d"} <= set(order)), order


@pytest.mark.parametrize(("n", "any_order"), [(60, True), (70, False)])
def test_many_parameters(n: int, any_order: bool) -> None:
    tools = [tool({f"p{i}": STRING for i in range(n)}, ("p7",))]
    assert takes(tools, spelled(("p7", "x"), (f"p{n - 1}", "y")))
    assert takes(tools, spelled((f"p{n - 1}", "y"), ("p7", "x"))) is any_order
    assert not takes(tools, spelled((f"p{n - 1}", "y")))


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": True},
        {"type": "object", "properties": {"a": STRING}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"type": "object", "properties": {"a>b": STRING}, "required": ["a>b"]},
    ],
)
def test_parameters_that_no_grammar_holds_are_free(parameters: dict[str, Any]) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    assert takes(tools, spelled(("whatever", "x"), ("more", "")))
    assert not takes(tools, spelled(("whatever", "x"), name="g"))


def test_tools_that_are_not_strict_keep_to_the_form() -> None:
    assert takes(TWO, spelled(("n", "five"), ("b", "")), strict={"none"})
    assert not takes(TWO, spelled(("n", "five")) + "text", strict={"none"})
    assert not takes(TWO, spelled(("x", "y"), name="none"), strict={"none"})
    assert not takes(TWO, spelled(name="other"), strict=set())


def test_a_pattern_that_does_not_compile_can_be_left_out() -> None:
    tools = [tool({"v": {"type": "string", "pattern": "^a{,3}$", "maxLength": 4}})]
    with pytest.raises(ConstraintError, match="does not compile"):
        Grammar(call_grammar(tools), VOCAB)
    constraint = Grammar(call_grammar(tools, patterns=False), VOCAB).constraint()
    assert constraint.how_many(list(spelled(("v", "bcde")).encode()[:-12])) > 0


def test_without_tools_there_is_no_grammar() -> None:
    with pytest.raises(ValueError, match="no tools"):
        call_grammar([])
    assert isinstance(QWEN, StrictCalls)


# -- any tools


@given(st.lists(objects(schemas()), min_size=1, max_size=3), st.integers(0, 1 << 32), st.integers(0, 150))
@settings(deadline=None, max_examples=100)
def test_whatever_is_written_is_valid(parameters: list[dict[str, Any]], seed: int, steps: int) -> None:
    tools = [tool(p["properties"], tuple(p["required"]), name=f"tool_{i}") for i, p in enumerate(parameters)]
    ids = walk(Grammar(call_grammar(tools), VOCAB).constraint(), VOCAB, Random(seed), steps=steps)
    reply = read(ids, tools)
    assert reply.calls
    assert not reply.content
    mixed = any(_is_mixed(schema) for p in parameters for schema in p["properties"].values())
    for call in reply.calls:
        assert call.status == "ok" or (mixed and call.status == "invalid_arguments"), (call.error, call.raw)


def _is_mixed(schema: dict[str, Any]) -> bool:
    """A string with rules beside what is no string: only the validation can tell."""
    parts = schema.get("anyOf", ())
    kinds = {part.get("type") for part in parts}
    return "string" in kinds or any(_is_mixed(part) for part in parts)


@given(
    objects(schemas()).flatmap(lambda schema: st.tuples(st.just(schema), fitting(schema))),
    st.randoms(use_true_random=False),
)
@settings(deadline=None, max_examples=150)
@example(
    ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, "required": []}, {"a": "null"}), Random(0)
)
def test_whatever_is_valid_can_be_written(pair: tuple[dict[str, Any], dict[str, Any]], random: Random) -> None:
    schema, arguments = pair
    tools = [tool(schema["properties"], tuple(schema["required"]))]
    order = list(arguments)
    random.shuffle(order)
    texts = [(name, encode_value(arguments[name])) for name in order]
    assert takes(tools, spelled(*texts)), texts
    reply = read(VOCAB.encode(spelled(*texts) + "<|im_end|>", special=True), tools)
    (call,) = reply.calls
    assert call.status == "ok"
    # As texts: where a string and null are allowed, the template writes "null" and null in the same way.
    written = {name: encode_value(value) for name, value in call.arguments.items()}
    assert written == dict(texts)


# -- answers


def test_an_answer_or_a_call() -> None:
    grammar = Grammar(answer_grammar({"type": "boolean"}, gap="\n\n", openers=[OPEN], end="<|im_end|>"), VOCAB)

    def ok(text: str) -> bool:
        constraint = grammar.constraint()
        return all(map(constraint.accept, VOCAB.encode(text, special=True))) and constraint.finished

    assert ok("\n\ntrue<|im_end|>")
    assert ok("\n\n<tool_call>")
    assert not ok("true<|im_end|>")
    assert not ok("\n\ntrue")
    assert not ok("\n\ntrue<|endoftext|>")
    assert not ok("\n\nIt is true.<|im_end|>")
