"""Replies of LFM2.5: what its template writes is read back, whatever the cuts."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentloop.templates import Lfm25, Reply
from agentloop.templates.lfm2_calls import call_text, read_calls
from agentloop.templates.reply import CallDelta, CallEnd, PhaseChange, ReasoningDelta, ReplyEvent, TextDelta

SPECIAL = {1: "<|tool_call_start|>", 2: "<|tool_call_end|>", 3: "<think>", 4: "</think>", 5: "<|im_end|>"}
IDS = {text: i for i, text in SPECIAL.items()}
SPLIT = re.compile("(" + "|".join(map(re.escape, IDS)) + ")")
TEMPLATE = Lfm25()
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "write_file",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
                "required": ["path"],
            },
        },
    }
]


def feed(text: str, reason: Any = "end", tools: Any = None, seed: int = 0) -> tuple[list[ReplyEvent], Reply]:
    """Special tokens by id, the bytes between them cut at random."""
    reader = TEMPLATE.reader(SPECIAL, tools)
    rng = random.Random(seed)
    events: list[ReplyEvent] = []
    for i, part in enumerate(SPLIT.split(text)):
        data = part.encode()
        if i % 2:
            events += reader.feed(IDS[part], data)
            continue
        while data:
            n = rng.randint(1, 5)
            events += reader.feed(0, data[:n])
            data = data[n:]
    reply = reader.finish(reason)
    assert reader.finish("length") is reply
    return events, reply


def rendered(content: str, reasoning: str, calls: list[tuple[str, dict[str, Any]]]) -> str:
    message: dict[str, Any] = {"role": "assistant", "content": content, "reasoning_content": reasoning}
    message["tool_calls"] = [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]
    start = [{"role": "user", "content": "q"}]
    text = TEMPLATE.render([*start, message], add_generation_prompt=False)
    return text[len(TEMPLATE.render(start)) :].removesuffix("\n")


def found(reply: Reply) -> list[tuple[str, str, dict[str, Any]]]:
    return [(call.status, call.name, call.arguments) for call in reply.calls]


CALLS: list[list[tuple[str, dict[str, Any]]]] = [
    [("f", {})],
    [("f", {"a": "x"}), ("g", {"b": 1, "c": "y"})],
    [("f", {"a": "", "b": " ", "c": "\n", "d": "it's", "e": 'say "x"', "g": "a, b", "h": "(x)", "i": "[1]"})],
    [("f", {"a": True, "b": False, "c": None, "d": 1, "e": -2.5, "g": 1e20, "h": [], "i": {}})],
    [("f", {"a": [1, "x", None, [True, "it's"], "]"], "b": {"k": ["v", 1.0], "q": "}'"}})],
    [("write_file", {"path": "m.py", "content": "def f(x='a', y=\"b\"):\n    return {'k': x}\n"})],
    [("f", {"a": "\\n \\ \t", "b": "漢字 🎉 é"})],
    [("a.b-c", {"x_1": "1"})],
]


@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("content", ["", "Let me look."])
@pytest.mark.parametrize("reasoning", ["", "Hm.\nWell."])
def test_what_is_rendered_is_read_back(calls: list[tuple[str, dict[str, Any]]], content: str, reasoning: str) -> None:
    text = rendered(content, reasoning, calls)
    replies = [feed(text, seed=seed)[1] for seed in range(5)]
    assert all(reply == replies[0] for reply in replies)
    reply = replies[0]
    assert found(reply) == [("ok", name, arguments) for name, arguments in calls]
    assert (reply.content, reply.reasoning, reply.reasoning_complete) == (content, reasoning, True)
    assert not reply.repairs
    assert [c.name for c in TEMPLATE.parse(text).calls] == [name for name, _ in calls]
    again = [(call.name, call.arguments) for call in reply.calls]
    assert rendered(reply.content, reply.reasoning, again) == text


def test_events_come_while_it_is_written() -> None:
    events, reply = feed(rendered("Look.", "Hm.", [("f", {"a": "x"}), ("g", {})]))
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == "Hm."
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Look."
    assert "".join(e.text for e in events if isinstance(e, CallDelta)) == "[f(a='x'), g()]"
    assert [e.call for e in events if isinstance(e, CallEnd)] == list(reply.calls)
    assert [e.index for e in events if isinstance(e, CallEnd)] == [0, 1]
    phases = [e.phase for e in events if isinstance(e, PhaseChange)]
    assert phases == ["reasoning", "content", "call", "content"]


def test_a_call_that_is_cut_is_incomplete() -> None:
    text = rendered("", "", [("write_file", {"path": "a", "content": "long"})])
    for end in range(len("<|tool_call_start|>"), len(text) - len("<|tool_call_end|><|im_end|>") + 1):
        _, reply = feed(text[:end], "length")
        assert [call.status for call in reply.calls] == ["incomplete"]
        assert reply.calls[0].error


def test_a_call_in_reasoning_never_runs() -> None:
    _, reply = feed("<think>I could <|tool_call_start|>[f()]<|tool_call_end|></think>No.<|im_end|>")
    assert not reply.calls
    assert reply.content == "No."
    assert "[f()]" in reply.reasoning


def test_text_that_spells_the_tags_is_text() -> None:
    reader = TEMPLATE.reader(SPECIAL)
    for char in "<|tool_call_start|>[f()]<|tool_call_end|>":
        reader.feed(0, char.encode())
    reply = reader.finish("end")
    assert not reply.calls
    assert reply.content == "<|tool_call_start|>[f()]<|tool_call_end|>"


def test_whole_tags_in_one_token_of_text_and_characters_over_several() -> None:
    """Only a tag's own id is a tag, in content and in a list; bytes of one character come in any number of tokens."""
    ids = {text: token for token, text in SPECIAL.items()}
    start, stop = "<|tool_call_start|>", "<|tool_call_end|>"
    reader = TEMPLATE.reader(SPECIAL)
    for text in (start, "[f()]", stop):
        reader.feed(0, text.encode())
    assert (reader.finish("end").calls, reader.finish("end").content) == ((), f"{start}[f()]{stop}")
    reader = TEMPLATE.reader(SPECIAL)
    reader.feed(ids[start], start.encode())
    for piece in (b"[f(a='", start.encode(), stop.encode(), *(bytes([byte]) for byte in "é🎉漢".encode()), b"')]"):
        reader.feed(0, piece)
    reader.feed(ids[stop], stop.encode())
    (call,) = reader.finish("end").calls
    assert call.arguments == {"a": f"{start}{stop}é🎉漢"}


def test_arguments_are_checked_by_the_schema() -> None:
    for text, status in [
        ("[write_file(path='a')]", "ok"),
        ("[write_file(content='a')]", "invalid_arguments"),
        ("[nothing()]", "unknown_tool"),
    ]:
        _, reply = feed(f"<|tool_call_start|>{text}<|tool_call_end|><|im_end|>", tools=TOOLS)
        assert [call.status for call in reply.calls] == [status]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[f(]",
        "[f(a)]",
        "[f(a=)]",
        "[f(a='x]",
        "[f() g()]",
        "[f(),]",
        "[f()] more",
        "[f(a=[1)]",
        "[f(a={1})]",
        "[f(a=__import__('os'))]",
        "[" * 500,
        "[f(a=" + "[" * 5000 + ")]",
        "[f(a=" + "9" * 5000 + ")]",
    ],
)
def test_what_is_no_list_of_calls_is_refused_with_a_reason(text: str) -> None:
    (call,) = read_calls(text)
    assert call.status == "malformed"
    assert call.error is not None
    assert "could not be read" in call.error
    assert call.raw == text


def test_the_same_argument_twice_counts_once() -> None:
    (call,) = read_calls("[f(a=1, a=1)]")
    assert (call.arguments, call.repairs) == ({"a": 1}, ("duplicate_parameter",))


VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.text('ab \n"\\{}[]é,', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("kq", max_size=2), inner, max_size=3),
    max_leaves=6,
)


def test_the_same_argument_twice_with_two_values_is_refused() -> None:
    (call,) = read_calls("[f(a=1, a=2)]")
    assert (call.status, call.arguments) == ("malformed", {})
    assert "a is there twice" in (call.error or "")


OPTIONAL = [
    {
        "type": "function",
        "function": {
            "name": "run",
            "parameters": {
                "type": "object",
                "properties": {
                    "cmd": {"type": "string"},
                    "n": {"type": "integer"},
                    "note": {"type": "string"},
                    "x": {},
                },
            },
        },
    },
    *TOOLS,
]


@pytest.mark.parametrize("tools", [None, OPTIONAL], ids=["no tools", "tools"])
@pytest.mark.parametrize(
    "text",
    [
        "it's",
        "g('a', n='b')",
        "run(cmd='x', note='y')",
        "[run(cmd='x')]",
        "print('",
        "'",
        "''",
        "'quoted'",
        "don't say 'no', it's late",
        "a = {'k': 'v', 'w': [1, 'z']}\n",
        "x='1', y=2",
        "<|tool_call_start|>[run(cmd='x')]<|tool_call_end|>",
        "<think>no</think>",
        '"""doc"""\nprint("it\'s")\n',
    ],
)
def test_strings_with_quotes_and_tags_are_read_back(text: str, tools: Any) -> None:
    """Whatever stands around them; a string of text in a token stream has its tags as text."""
    for arguments in ({"cmd": text}, {"cmd": text, "note": "it's"}, {"note": "z", "cmd": text}):
        calls = read_calls(f"[{call_text('run', arguments)}]", tools)
        assert [(call.status, call.arguments, call.repairs) for call in calls] == [("ok", arguments, ())]


@pytest.mark.parametrize(
    ("text", "arguments", "repair"),
    [
        ('[run(cmd="it\'s")]', {"cmd": "it's"}, "double_quoted"),
        ('[run(cmd="a \\"b\\"\\n")]', {"cmd": 'a "b"\n'}, "double_quoted"),
        ("[run(cmd=\"say 'no', n=3\")]", {"cmd": "say 'no', n=3"}, "double_quoted"),
        ("[run(cmd='a',n=3)]", {"cmd": "a", "n": 3}, "loose_syntax"),
        ("[ run( cmd = 'a' ) ]", {"cmd": "a"}, "loose_syntax"),
        ("[run(x=true)]", {"x": True}, "loose_syntax"),
        ("[run(x=null)]", {"x": None}, "loose_syntax"),
        ("[run(x=[\"a\", {'b': 1.0}])]", {"x": ["a", {"b": 1.0}]}, "loose_syntax"),
        ("[run(cmd=ls -la)]", {"cmd": "ls -la"}, "unquoted_text"),
        ("[run(cmd=02134)]", {"cmd": "02134"}, "unquoted_text"),
        ("run(cmd='a')", {"cmd": "a"}, "missing_bracket"),
        ("[run(cmd='a')", {"cmd": "a"}, "missing_bracket"),
        ('[{"name": "run", "arguments": {"cmd": "a"}}]', {"cmd": "a"}, "json_style"),
        ('{"name": "run", "parameters": {"n": 1}}', {"n": 1}, "json_style"),
        ("[run(cmd='a', cmd='a')]", {"cmd": "a"}, "duplicate_parameter"),
        ("[run(n='3')]", {"n": 3}, None),
        ("[run(n=3.0)]", {"n": 3}, None),
        ("[run(x='3')]", {"x": "3"}, None),
    ],
)
def test_what_models_write_besides_is_mended_and_flagged(text: str, arguments: Any, repair: str | None) -> None:
    (call,) = read_calls(text, OPTIONAL)
    assert (call.status, call.arguments) == ("ok", arguments)
    assert call.repairs == (() if repair is None else (repair,))


def test_an_undeclared_parameter_is_an_error_and_no_part_of_the_string_before_it() -> None:
    (call,) = read_calls("[write_file(path='a', mode='w')]", OPTIONAL)
    assert call.status == "invalid_arguments"
    assert 'unknown parameter "mode"; declared parameters: path, content' in (call.error or "")


def test_where_two_readings_fit_the_call_is_refused() -> None:
    (call,) = read_calls("[run(cmd='a ' b', note='c', note='d')]", OPTIONAL)
    assert (call.status, call.arguments) == ("malformed", {})
    assert "ambiguous" in (call.error or "")


@pytest.mark.parametrize(
    "text",
    [
        "[run(cmd='" + "', note='" * 20000 + "')]",
        "[run(cmd='" + "'), run(cmd='" * 20000 + "')]",
        "[run(cmd='" + "x' " * 100000 + "')]",
        "[run(x=" + "{'a': " * 50000 + ")]",
        "[run(x=" + "[" * 50000 + "]" * 50000 + ")]",
        "[" * 100000,
        "run(" * 50000,
        "[" + "run(), " * 20000 + "run()]",
        "[run(cmd=" + '"\\' * 50000 + ")]",
    ],
)
def test_hostile_lists_end_and_none_crashes(text: str) -> None:
    for call in read_calls(text, OPTIONAL):
        assert call.status == "ok" or call.error


def test_a_list_in_open_reasoning_with_a_declared_function_ends_it() -> None:
    text = "<think>I do it: <|tool_call_start|>[write_file(path='a')]<|tool_call_end|>"
    for seed in range(5):
        events, reply = feed(text + " Done.<|im_end|>", tools=TOOLS, seed=seed)
        assert found(reply) == [("ok", "write_file", {"path": "a"})]
        assert (reply.reasoning, reply.content, reply.reasoning_complete) == ("I do it:", "Done.", True)
        assert set(reply.repairs) == {"call_in_reasoning", "text_after_call"}
        assert [e.phase for e in events if isinstance(e, PhaseChange)] == ["reasoning", "call", "content"]
    _, unknown = feed(
        "<think>x <|tool_call_start|>[nothing(path='a')]<|tool_call_end|> y</think>z<|im_end|>", tools=TOOLS
    )
    assert not unknown.calls
    assert unknown.reasoning == "x <|tool_call_start|>[nothing(path='a')]<|tool_call_end|> y"


def test_a_list_in_reasoning_that_is_closed_behind_it_was_a_draft() -> None:
    draft = "<|tool_call_start|>[write_file(path='a')]<|tool_call_end|>"
    for seed in range(5):
        _, reply = feed(f"<think>Maybe {draft}? No.</think>Never.<|im_end|>", tools=TOOLS, seed=seed)
        assert not reply.calls
        assert (reply.reasoning, reply.content) == (f"Maybe {draft}? No.", "Never.")
        assert not reply.repairs


def test_a_list_without_its_opening_tag() -> None:
    for seed in range(5):
        _, reply = feed("[write_file(path='a', content='x')]<|im_end|>", tools=TOOLS, seed=seed)
        assert found(reply) == [("ok", "write_file", {"path": "a", "content": "x"})]
        assert reply.repairs == ("missing_opener",)
        for said in ("[1] is a footnote", "[", "[nothing()]", "[write_files()]", "see [write_file(path='a')]"):
            _, text = feed(said + "<|im_end|>", tools=TOOLS, seed=seed)
            assert not text.calls
            assert text.content == said
    assert feed("[write_file(path='a')]<|im_end|>")[1].content == "[write_file(path='a')]"


def test_a_list_whose_closing_tag_is_missing_or_doubled() -> None:
    _, reply = feed("<|tool_call_start|>[f(a=1)]<|im_end|>")
    assert (found(reply), reply.repairs) == ([("ok", "f", {"a": 1})], ("missing_closing",))
    _, reply = feed("<|tool_call_start|>[f(a=1)]<|tool_call_end|><|tool_call_end|><|im_end|>")
    assert [call.status for call in reply.calls] == ["malformed"]
    assert "stray_closing" in reply.repairs


def test_two_lists_and_text_around_them() -> None:
    text = "One.<|tool_call_start|>[f()]<|tool_call_end|>\n<|tool_call_start|>[g(a=1)]<|tool_call_end|>Two.<|im_end|>"
    _, reply = feed(text)
    assert found(reply) == [("ok", "f", {}), ("ok", "g", {"a": 1})]
    assert reply.content.split() == ["One.", "Two."] or reply.content == "One.\nTwo."
    assert reply.repairs == ("text_after_call",)


def test_tags_in_strings_are_told_by_their_nesting_in_text() -> None:
    for inner in ("<|tool_call_end|>", "<|tool_call_start|>[f()]<|tool_call_end|>", "</think>"):
        text = rendered("", "Hm.", [("write_file", {"path": "a", "content": f"see {inner} there"})])
        reply = TEMPLATE.parse(text, TOOLS)
        assert found(reply) == [("ok", "write_file", {"path": "a", "content": f"see {inner} there"})], inner
        assert reply.reasoning == "Hm."


@given(st.dictionaries(st.sampled_from("abc"), VALUE, max_size=3), st.integers(0, 99))
def test_any_values_are_read_back(arguments: dict[str, Any], seed: int) -> None:
    _, reply = feed(rendered("", "", [("f", arguments)]), seed=seed)
    assert found(reply) == [("ok", "f", arguments)]


NOISE = st.sampled_from(
    [*IDS, *"[])(,'{} \nx1é", "write_file(", "path=", "content=", "=", "f(", '"', "🎉", "path='a')]"]
)


@given(st.lists(NOISE))
def test_noise_is_read_the_same_however_it_is_cut(parts: list[str]) -> None:
    text = "".join(parts)
    replies = [feed(text, tools=TOOLS, seed=seed)[1] for seed in range(3)]
    assert replies[0] == replies[1] == replies[2]
    for call in replies[0].calls:
        assert call.status != "ok" or call.name == "write_file"
        assert call.status == "ok" or call.error


@given(st.lists(NOISE))
def test_events_tell_what_the_reply_holds(parts: list[str]) -> None:
    events, reply = feed("<think>" + "".join(parts), "length", tools=TOOLS)
    for index, call in enumerate(reply.calls):
        ends = [e.call for e in events if isinstance(e, CallEnd) and e.index == index]
        assert not ends or ends[-1].name == call.name
    said = "".join(e.text for e in events if isinstance(e, TextDelta))
    assert reply.content.startswith(said)


def test_a_vocabulary_without_tags_of_reasoning_writes_them_as_text() -> None:
    special = {i: text for i, text in SPECIAL.items() if i not in (3, 4)}
    for draft, calls in (("", 1), (" no</think>Never.", 0)):
        reader = TEMPLATE.reader(special, TOOLS)
        reader.feed(0, b"<thi")
        reader.feed(0, b"nk>Hm ")
        reader.feed(1, b"")
        reader.feed(0, b"[write_file(path='\xc3")
        reader.feed(0, b"\xa9')]")
        reader.feed(2, b"")
        reader.feed(0, draft.encode())
        reply = reader.finish("end")
        assert [call.arguments for call in reply.calls] == [{"path": "é"}] * calls
        assert reply.reasoning.startswith("Hm")
        assert reply.content == ("" if calls else "Never.")
