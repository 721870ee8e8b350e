"""The grammar of LFM2's calls: what it lets through is read back valid, and what is valid it lets through."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentloop.engine.constraint import Constraint, Grammar
from agentloop.templates import Lfm25, Reply, StrictCalls
from agentloop.templates.lfm2_calls import call_text
from tests.grammar_walks import walk
from tests.lfm2_vocab import LfmVocab
from tests.schema_strategies import fitting, objects, schemas

VOCAB = LfmVocab()
SOUP = (
    "'",
    "', ",
    "')",
    "')]",
    "'), ",
    ", a=",
    "tool_0(",
    "it's",
    "x",
    "é",
    "7",
    '"',
    "\\",
    "\\u0041",
    "True",
    "null",
    "[",
    "{",
    "\n",
)
LFM = Lfm25()
OPEN, CLOSE = "<|tool_call_start|>", "<|tool_call_end|>"
ENDS = ("')", "')]", "', ", ")", "]", "]", ", ", '"', "}", "null", "0", "a=", "b_2=", "long-name=", "ü=", "'", "xyz")


def tool(properties: dict[str, Any], required: tuple[str, ...] = (), name: str = "f", **more: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(required), **more}
    return {"type": "function", "function": {"name": name, "description": "Does it.", "parameters": parameters}}


def begun(tools: list[dict[str, Any]], strict: set[str] | None = None) -> Constraint:
    return Grammar(LFM.call_grammar(tools, strict), VOCAB).constraint()


def takes(tools: list[dict[str, Any]], text: str, strict: set[str] | None = None) -> bool:
    """Text of a whole list, from behind its opener on."""
    constraint = begun(tools, strict)
    ids = VOCAB.encode(f"{text}{CLOSE}<|im_end|>", special=True)
    return all(constraint.accept(token) for token in ids) and constraint.finished


def read(ids: list[int], tools: list[dict[str, Any]]) -> Reply:
    reader = LFM.reader(VOCAB.special_tokens(), tools)
    for token in [*VOCAB.encode(OPEN, special=True), *ids]:
        reader.feed(token, VOCAB.decode([token]))
    return reader.finish("end")


def values_of(text: str, tools: list[dict[str, Any]]) -> list[Any]:
    reply = read(VOCAB.encode(f"{text}{CLOSE}<|im_end|>", special=True), tools)
    return [call.arguments if call.status == "ok" else call.error for call in reply.calls]


MANY = [
    tool(
        {
            "a": {"type": "string"},
            "n": {"type": "integer"},
            "l": {"type": "array", "items": {"type": "string"}},
            "b": {"type": ["boolean", "null"]},
            "o": {"type": "object", "properties": {"k": {"type": "string"}}},
            "e": {"enum": ["x", "it's", 3, None]},
            "s": {"type": "string", "maxLength": 3},
            "p": {"type": "string", "pattern": "^[a-c]+$"},
            "any": {},
        },
        ("a",),
    ),
    tool({}, name="none"),
]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[none()]", [{}]),
        ("[f(a='')]", [{"a": ""}]),
        ("[f(a='x', n=-5)]", [{"a": "x", "n": -5}]),
        ("[f(n=5, a='it's', b=True), none()]", [{"n": 5, "a": "it's", "b": True}, {}]),
        ("[f(a='x'), f(a='y')]", [{"a": "x"}, {"a": "y"}]),
        ('[f(a="two\\nlines and a \\" and a \', n=5)", n=5)]', [{"a": "two\nlines and a \" and a ', n=5)", "n": 5}]),
        ("[f(a='two\nlines', n=5)]", [{"a": "two\nlines", "n": 5}]),
        ("[f(a='print('x')', b=null)]", [{"a": "print('x')", "b": None}]),
        ("[f(a='[f('x')]')]", [{"a": "[f('x')]"}]),
        ("[f(a='call('x', b='y')', n=1)]", [{"a": "call('x', b='y')", "n": 1}]),
        ("[f(a='say 'x, n=5' ok', n=5)]", [{"a": "say 'x, n=5' ok", "n": 5}]),
        ("[f(a='don't, l'été, 'don't'', n=5)]", [{"a": "don't, l'été, 'don't'", "n": 5}]),
        ("[f(l=['a', \"it's\", 'q\\'\"'], a='x')]", [{"l": ["a", "it's", "q'\""], "a": "x"}]),
        ('[f(l=["a", "b"], a=\'x\', b=false)]', [{"l": ["a", "b"], "a": "x", "b": False}]),
        ('[f(a=\'x\', o={"k": "v"})]', [{"a": "x", "o": {"k": "v"}}]),
        ("[f(a='x', e='x')]", [{"a": "x", "e": "x"}]),
        ("[f(a='x', e=\"it's\")]", [{"a": "x", "e": "it's"}]),
        ("[f(a='x', e=None, s='abc', p='abc')]", [{"a": "x", "e": None, "s": "abc", "p": "abc"}]),
        ("[f(a='x', any='text')]", [{"a": "x", "any": "text"}]),
        ("[f(a='x', any=[1, {\"k\": null}])]", [{"a": "x", "any": [1, {"k": None}]}]),
    ],
)
def test_what_it_lets_through(text: str, values: list[Any]) -> None:
    assert takes(MANY, text)
    assert values_of(text, MANY) == values


@pytest.mark.parametrize(
    "text",
    [
        "none()",
        "[]",
        "[none(), ]",
        "[none(),none()]",
        "[g()]",
        "[f()]",
        "[f(n=5)]",
        "[f(a='x', a='y')]",
        "[f(a='x', n='5')]",
        "[f(a='x', n=5.5)]",
        "[f(a='x', z=5)]",
        "[f(a=x)]",
        "[f(a='x' n=5)]",
        "[f(a='x', n=5', n=6)]",
        "[f(a='x', s='abcd')]",
        "[f(a='x', p='abd')]",
        "[f(a='x', e='y')]",
        "[f(a='x', b='True')]",
        "[f(a='x', o={\"z\": 1})]",
        "[f(a='x')] And then?",
        "[f(a='<|im_start|>')]",
    ],
)
def test_what_it_keeps_out(text: str) -> None:
    assert not takes(MANY, text)


def test_it_is_a_template_with_strict_calls() -> None:
    assert isinstance(LFM, StrictCalls)
    assert (LFM.call_opener, LFM.call_closer) == (OPEN, CLOSE)
    with pytest.raises(ValueError, match="there are no tools"):
        LFM.call_grammar([])


def test_tools_that_are_not_strict_keep_to_the_form() -> None:
    tools = [*MANY, tool({"x": {"type": "integer"}}, ("x",), name="free")]
    for text in ("[free()]", "[free(x='y', other=[1], long key='it's')]", "[free(x=null), none()]"):
        assert takes(tools, text, {"f", "none"}), text
        assert not takes(tools, text), text
    for text in ("[free(x)]", "[free(x=y)]", "[other()]", "[f(n=5)]"):
        assert not takes(tools, text, {"f", "none"}), text


def test_parameters_that_no_grammar_holds_are_free() -> None:
    for parameters in ({"type": "object", "additionalProperties": True}, {"$ref": "#/$defs/x", "$defs": {"x": {}}}):
        function = {"name": "f", "parameters": parameters}
        assert takes([{"type": "function", "function": function}], "[f(anything='x', more=[1, 2])]")
    many = tool({f"p{i}": {"type": "integer"} for i in range(70)})
    assert takes([many], "[f(p69=1, p3=2)]")
    assert takes([tool({f"p{i}": {"type": "integer"} for i in range(60)})], "[f(p59=1, p3=2)]")


def test_a_pattern_that_does_not_compile_can_be_left_out() -> None:
    tools = [tool({"a": {"type": "string", "pattern": "^[a-c]+$"}})]
    loose = Grammar(LFM.call_grammar(tools, patterns=False), VOCAB).constraint()
    assert all(map(loose.accept, VOCAB.encode("[f(a='xyz')]")))


# -- any text, any tools

CODE = st.lists(
    st.sampled_from(["'", "''", "x", "é", "7", " ", "\n", ", n=", ",", ")", ")]", "), f(", "(", "=", '"', "\\", "it's"])
    | st.text(max_size=3),
    max_size=9,
).map("".join)


@given(CODE, st.booleans())
@settings(deadline=None, max_examples=300)
@example("b', q='c", False)
@example("x'", True)
def test_a_string_is_read_as_it_was_let_through(text: str, last: bool) -> None:
    """Between single quotes: whatever the grammar takes for one string, the reader takes for the same one."""
    text = text.encode("utf-8", "replace").decode()
    tools = [tool({"a": {"type": "string"}, "n": {"type": "integer"}}, ("a",))]
    arguments: dict[str, Any] = {"a": text} if last else {"a": text, "n": 5}
    whole = f"[{call_text('f', arguments)}]"
    if any(spelling in text for spelling in VOCAB.special_tokens().values()):
        return
    if takes(tools, whole):
        found = values_of(whole, tools)
        assert all(isinstance(values, dict) for values in found), found
        assert f"[{', '.join(call_text('f', values) for values in found)}]" == whole
    elif "'" not in text:
        raise AssertionError(whole)


@given(st.lists(objects(schemas()), min_size=1, max_size=3), st.integers(0, 1 << 32), st.integers(0, 150))
@settings(deadline=None, max_examples=100)
def test_whatever_is_written_is_valid(parameters: list[dict[str, Any]], seed: int, steps: int) -> None:
    tools = [tool(p["properties"], tuple(p["required"]), name=f"tool_{i}") for i, p in enumerate(parameters)]
    ids = walk(begun(tools), VOCAB, Random(seed), steps=steps, most=1200, soup=SOUP, ends=ENDS)
    reply = read(ids, tools)
    assert reply.calls
    assert not reply.content
    for call in reply.calls:
        assert call.status == "ok", (call.error, call.raw)


@given(
    objects(schemas()).flatmap(lambda schema: st.tuples(st.just(schema), fitting(schema))),
    st.randoms(use_true_random=False),
)
@settings(deadline=None, max_examples=150)
def test_whatever_is_valid_and_rendered_can_be_written(
    pair: tuple[dict[str, Any], dict[str, Any]], random: Random
) -> None:
    schema, arguments = pair
    order = list(arguments)
    random.shuffle(order)
    arguments = {name: arguments[name] for name in order}
    tools = [tool(schema["properties"], tuple(schema["required"]))]
    assert takes(tools, f"[{call_text('f', arguments)}]") or _holds_quotes(arguments), call_text("f", arguments)
    (found,) = values_of(f"[{call_text('f', arguments)}]", tools)
    assert found == arguments or _holds_quotes(arguments)


def _holds_quotes(arguments: dict[str, Any]) -> bool:
    """A string with a quote, where it can be told from its end in some places only."""
    return any(isinstance(value, str) and "'" in value for value in arguments.values())
