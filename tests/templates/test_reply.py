"""Whole replies: what is read, what is mended, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from agentloop.engine.bytevocab import ByteVocab
from agentloop.templates.reply import Reply, parse_reply

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "write",
            "description": "Write a file.",
            "parameters": {
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "content": {"type": "string"},
                    "mode": {"type": "integer"},
                },
                "required": ["content"],
            },
        },
    },
    {"type": "function", "function": {"name": "now", "description": "The time."}},
]
THOUGHT = "Hm.\n</think>\n\n"


def spell(name: str, **values: str) -> str:
    inside = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    return f"<tool_call>\n<function={name}>\n{inside}</function>\n</tool_call>"


def read(calls: str, tools: list[dict[str, Any]] | None = TOOLS) -> Reply:
    return parse_reply(THOUGHT + calls + "<|im_end|>", tools)


def only(reply: Reply) -> dict[str, Any]:
    (call,) = reply.calls
    assert call.status == "ok", call.error
    return call.arguments


def refused(reply: Reply, status: str = "malformed") -> str:
    (call,) = reply.calls
    assert call.status == status
    assert call.error
    return call.error


def test_a_canonical_reply() -> None:
    reply = read("Look:\n\n" + spell("write", path="a.py", content="x = 1", mode="7") + "\n" + spell("now"))
    assert (reply.reasoning, reply.content, reply.reasoning_complete, reply.repairs) == ("Hm.", "Look:", True, ())
    assert [(c.name, c.arguments, c.status) for c in reply.calls] == [
        ("write", {"path": "a.py", "content": "x = 1", "mode": 7}, "ok"),
        ("now", {}, "ok"),
    ]
    assert reply.calls[0].raw == spell("write", path="a.py", content="x = 1", mode="7")


def test_an_answer_without_calls() -> None:
    reply = parse_reply("Hm.\n</think>\n\n  The answer.\n\n<|im_end|>")
    assert (reply.reasoning, reply.content, reply.calls) == ("Hm.", "The answer.", ())
    assert not reply.is_empty
    assert parse_reply("Hi", thinking=False) == Reply(content="Hi")


def test_an_empty_reply_says_so() -> None:
    assert read("").is_empty
    assert parse_reply("only thoughts").is_empty
    assert not parse_reply("only thoughts").reasoning_complete


def test_the_message_has_calls_with_mappings() -> None:
    message = read("Text.\n\n" + spell("write", content="1")).to_message()
    assert message == {
        "role": "assistant",
        "content": "Text.",
        "reasoning_content": "Hm.",
        "tool_calls": [{"type": "function", "function": {"name": "write", "arguments": {"content": "1"}}}],
    }
    assert parse_reply("Hi", thinking=False).to_message() == {"role": "assistant", "content": "Hi"}


def test_without_tools_values_stay_text() -> None:
    assert only(read(spell("anything", a="1", b="[1, 2]"), None)) == {"a": "1", "b": "[1, 2]"}


# -- values


@pytest.mark.parametrize(
    "value",
    [
        "",
        "\n",
        "\n\n",
        " ",
        "\tx\n",
        "\nx",
        "a </parameter> b",
        "a\n</parameter>\nb",
        "a\n</function>\nb",
        "a\n</function>\n</tool_call>\nb",
        "<parameter=x>",
        "<parameter=x>\n1\n</parameter>",
        "a\n<parameter=x>\nb",
        "see\n<parameter=other>\n1\n</parameter>\nend",
        spell("write", path="p", content="c"),
        "first:\n" + spell("now") + "\nsecond:\n" + spell("write", path="p", content="c") + "\nend",
        spell("now") + "\n" + spell("now"),
        "<tool_call>\n<function=write>\n<parameter=x>",
        "</think>",
        "<think>\n\n</think>",
        "null",
        "02134",
        '{"a": 1}',
        "naïve 🎉 漢字\r\nx",
    ],
)
def test_values_keep_every_byte(value: str) -> None:
    assert only(read(spell("write", path="a", content=value))) == {"path": "a", "content": value}
    assert only(read(spell("write", content=value, path="a")))["content"] == value


@pytest.mark.parametrize(
    "calls",
    [
        spell("write", content="x\n</parameter>"),  # or a doubled closing tag
        spell("write", content="x\n<parameter=path>\ny"),  # or a missing one
        spell("write", content="<parameter=path>\n1\n</parameter>"),
        spell("write", content="</parameter>"),
        spell("write", content="\n</parameter>\n<parameter=content>", mode="0"),  # or the same one twice, and empty
        spell("write", content="<tool_call>\n<function=write>\n<parameter=content>", path="p"),
        spell("write", content="a") + "\nand\n" + spell("write", content="b"),
        "<tool_call>\n<function=write>\n<parameter=content>\na</parameter> b</parameter>\n</function>\n</tool_call>",
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(calls: str) -> None:
    assert refused(read(calls))


def test_calls_before_an_ambiguous_one_hold() -> None:
    reply = read(spell("now") + "\n" + spell("write", content="x\n</parameter>"))
    assert [(call.name, call.status) for call in reply.calls] == [("now", "ok"), ("write", "malformed")]
    assert reply.calls[1].raw == spell("write", content="x\n</parameter>")


def test_schemas_decide_between_readings() -> None:
    # The value of an integer cannot hold a tag, and `content` is required: one reading is left.
    calls = spell("write", mode="7\n</parameter>\n<parameter=content>\nx")
    assert only(read(calls)) == {"mode": 7, "content": "x"}
    # "seven" is no integer, so it is not the mode: it stands in the content.
    whole = "see <parameter=x>\n</parameter>\n<parameter=mode>\nseven"
    assert only(read(spell("write", content=whole))) == {"content": whole}
    missing = "<tool_call>\n<function=write>\n<parameter=mode>\n7\n<parameter=content>\nx\n</parameter>\n</function>\n"
    reply = read(missing + "</tool_call>")
    assert only(reply) == {"mode": 7, "content": "x"}
    assert reply.repairs == ("missing_closing",)


# -- repairs


BARE = "<function=write>\n<parameter=content>\nx\n</parameter>\n</function>"


@pytest.mark.parametrize(
    ("calls", "repair"),
    [
        (BARE, "missing_opener"),
        (BARE + "\n</tool_call>", "missing_opener"),
        (f"<tool_call>\n{BARE}", "missing_closing"),
        (f"<tool_call>\n{BARE.removesuffix('</function>')}</tool_call>", "missing_closing"),
        (f"<tool_call>\n{BARE.removesuffix('</function>')}", "missing_closing"),
        (f"<tool_call>\n{BARE.replace('</parameter>', '').replace('x', 'x', 1)}\n</tool_call>", "missing_closing"),
        (f"<tool_call>\n{BARE}\n</function>\n</tool_call>", "doubled_closing"),
        (f"<tool_call>\n{BARE}\n</tool_call>\n</tool_call>", "doubled_closing"),
        (f"<tool_call>\n<tool_call>\n{BARE}\n</tool_call>", "doubled_opener"),
        (f"<tool_call>{BARE}</tool_call>", "whitespace"),
        (f"<tool_call>\n{BARE.replace(chr(10), '')}\n</tool_call>", "whitespace"),
        (f"<tool_call>\n{BARE}\n</tool_call>\n\nDone.", "text_after_call"),
        ('<tool_call>\n{"name": "write", "arguments": {"content": "x"}}\n</tool_call>', "json_style"),
        ('<tool_call>\n{"name": "write", "arguments": "{\\"content\\": \\"x\\"}"}\n</tool_call>', "json_style"),
        ('<tool_call>\n{"name": "write", "parameters": {"content": "x"}}', "json_style"),
        ('<tool_call>\n<function=write>\n{"content": "x"}\n</function>\n</tool_call>', "json_style"),
        (
            '<tool_call>\n<function="write">\n<parameter="content">\nx\n</parameter>\n</function>\n</tool_call>',
            "quoted_name",
        ),
        (
            spell("write", content="x").replace("</function>", "<parameter=content>\nx\n</parameter>\n</function>"),
            "duplicate_parameter",
        ),
    ],
)
def test_what_models_write_is_mended_and_flagged(calls: str, repair: str) -> None:
    reply = read(calls)
    assert only(reply)["content"].strip() == "x"
    assert repair in reply.repairs
    assert repair in reply.calls[0].repairs


def test_a_doubled_closing_tag_of_a_parameter() -> None:
    """Mended where the schema leaves no doubt; in a string it could be the value's."""
    function = {"name": "wait", "parameters": {"type": "object", "properties": {"seconds": {"type": "integer"}}}}
    reply = read(spell("wait", seconds="7\n</parameter>"), [{"type": "function", "function": function}])
    assert only(reply) == {"seconds": 7}
    assert reply.repairs == ("doubled_closing",)
    reply = read(spell("write", content="x").replace("</parameter>", "</parameter></parameter>"))
    assert only(reply) == {"content": "x"}
    assert "doubled_closing" in reply.repairs


def test_text_behind_a_call_is_kept() -> None:
    reply = read("Before.\n\n" + spell("now") + "\nAfter.")
    assert reply.content == "Before.\n\nAfter."
    assert reply.calls[0].status == "ok"
    assert read("Before.\n" + spell("now") + "\nAfter.").content == "Before.\n\nAfter."


def test_json_values_keep_their_types_and_tags() -> None:
    reply = read(
        '<tool_call>\n{"name": "write", "arguments": {"content": "a</tool_call>b", "mode": 3.0}}\n</tool_call>'
    )
    assert only(reply) == {"content": "a</tool_call>b", "mode": 3}


@pytest.mark.parametrize("close", ["</think>", "\n</think>", "</think>\n\n", "\n</think>\n", "\n\n</think>\n"])
def test_a_close_without_newlines(close: str) -> None:
    reply = parse_reply(f"Hm.{close}Hi", TOOLS)
    assert (reply.reasoning, reply.content, reply.repairs) == ("Hm.", "Hi", ("think_newlines",))
    assert only(parse_reply(f"Hm.{close}" + spell("now"), TOOLS)) == {}


def test_thinking_tags_in_the_wrong_place() -> None:
    assert parse_reply("<think>\nHm.\n</think>\n\nHi").reasoning == "Hm."
    second = parse_reply(THOUGHT + "Hi\n</think>\n\nthere")
    assert (second.content, second.repairs) == ("Hi\n\n\nthere", ("second_think_close",))
    behind = parse_reply(THOUGHT + spell("now") + "\n</think>", TOOLS)
    assert (behind.content, behind.calls[0].status) == ("", "ok")
    assert "second_think_close" in behind.repairs
    again = parse_reply("<think>\nHm.\n</think>\n\nHi", thinking=False)
    assert (again.reasoning, again.content) == ("Hm.", "Hi")


# -- refusals


def test_a_wrong_tool_and_wrong_arguments() -> None:
    assert "write" in refused(read(spell("wirte", content="x")), "unknown_tool")
    assert "mode" in refused(read(spell("write", content="x", mode="many")), "invalid_arguments")
    assert "content" in refused(read(spell("write", path="x")), "invalid_arguments")
    assert "declared parameters: path, content, mode" in refused(
        read(spell("write", content="x", file="y")), "invalid_arguments"
    )
    assert refused(parse_reply(spell("now"), [], thinking=False), "unknown_tool")


@pytest.mark.parametrize(
    ("calls", "says"),
    [
        ("<tool_call>\nI will call it\n</tool_call>", "<function=NAME>"),
        ("<tool_call>\n</tool_call>", "<function=NAME>"),
        ("<tool_call>", "<function=NAME>"),
        ('<tool_call>\n{"name": "write", "arguments": {"content": }}\n</tool_call>', "JSON"),
        ('<tool_call>\n{"tool": "write"}\n</tool_call>', '"name"'),
        ("<tool_call>\n<function=write>\n<parameter=content>\nx", "ends inside the parameter content"),
        ("<tool_call>\n<function=write>\ntext\n</function>\n</tool_call>", "not text"),
        ("<tool_call>\n<function=write>\n<parameter=content>\nx\n<tool_call>\n</tool_call>", "not closed"),
        (BARE + "\nis how it is written", "followed by text"),
    ],
)
def test_what_is_no_call_says_why(calls: str, says: str) -> None:
    assert says in refused(read(calls))


def test_different_duplicates_are_refused() -> None:
    twice = spell("write", content="x").replace("</function>", "<parameter=content>\ny\n</parameter>\n</function>")
    assert "twice" in refused(read(twice))


def test_a_bad_call_leaves_the_others_alone() -> None:
    reply = read("<tool_call>\nwhat\n</tool_call>\n" + spell("now") + "\n" + spell("nope"))
    assert [call.status for call in reply.calls] == ["malformed", "ok", "unknown_tool"]


def test_an_open_call_behind_a_whole_one_is_no_text() -> None:
    reply = read(spell("now") + "\n<tool_call>\n<function=write>\n<parameter=content>\nx")
    assert [(call.name, call.status) for call in reply.calls] == [("now", "ok"), ("write", "malformed")]
    assert reply.content == ""


def test_a_fenced_example_is_no_call() -> None:
    example = f"Write it so:\n```\n{BARE}\n```"
    assert read(example).calls == ()
    assert read(example).content == example
    assert read("In prose, <function=write> opens a call.").calls == ()
    assert read("<function=unknown>\n</function>").calls == ()
    assert read("It is written so: " + BARE).calls == ()


# -- open reasoning


def test_a_call_in_open_reasoning_ends_it() -> None:
    reply = parse_reply("I write it.\n" + spell("write", content="x"), TOOLS)
    assert only(reply) == {"content": "x"}
    assert (reply.reasoning, reply.content) == ("I write it.", "")
    assert "call_in_reasoning" in reply.repairs


def test_a_call_drafted_in_closed_reasoning_never_runs() -> None:
    draft = "Maybe " + spell("write", content="x")
    for behind in ("", " or not."):
        reply = parse_reply(f"{draft}{behind}\n</think>\n\nNo.", TOOLS)
        assert reply.calls == ()
        assert (reply.reasoning, reply.content, reply.repairs) == (draft + behind, "No.", ())
    two = parse_reply(f"{draft}\n</think>\n\n{spell('now')}", TOOLS)
    assert [call.name for call in two.calls] == ["now"]


def test_a_call_of_nothing_declared_in_open_reasoning_is_text() -> None:
    text = "Maybe " + spell("nope", content="x") + " <tool_call> or"
    reply = parse_reply(text, TOOLS)
    assert (reply.reasoning, reply.calls, reply.reasoning_complete) == (text, (), False)


# -- ids


def test_ids_decide_what_is_a_tag() -> None:
    vocab = ByteVocab()
    parts = [("Hm </think> <tool_call>\n<function=now>\n", False), ("\n</think>\n\n", True)]
    parts += [("<tool_call>\n<function=now>\n</function>\n</tool_call> is text", False), ("<|im_end|>", True)]
    reply = parse_reply(vocab.encode_parts(parts), TOOLS, vocab=vocab)
    assert reply.reasoning == "Hm </think> <tool_call>\n<function=now>"
    assert reply.content.startswith("<tool_call>")
    assert reply.calls == ()
    with pytest.raises(ValueError, match="vocabulary"):
        parse_reply([1, 2])


def test_the_end_of_turn_ends_the_reply() -> None:
    vocab = ByteVocab()
    ids = vocab.encode("\n</think>\n\nHi<|im_end|>\n<|im_start|>user\nmore", special=True)
    assert parse_reply(ids, vocab=vocab).content == "Hi"
    assert only(read(spell("write", content="a<|im_end|>b"))) == {"content": "a<|im_end|>b"}
