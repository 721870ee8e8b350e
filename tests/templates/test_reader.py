"""The incremental reader: events, cuts, and that neither depends on how the text is cut into tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentloop.templates import Qwen38
from agentloop.templates.reply import (
    CallDelta,
    CallEnd,
    PhaseChange,
    ReasoningDelta,
    Reply,
    ReplyEvent,
    ReplyReader,
    TextDelta,
)

SPECIAL = {1: "<think>", 2: "</think>", 3: "<tool_call>", 4: "</tool_call>", 5: "<|im_end|>", 6: "<|im_start|>"}
IDS = {text: token for token, text in SPECIAL.items()}
SPLIT = re.compile("(" + "|".join(map(re.escape, SPECIAL.values())) + ")")
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer"}}},
        },
    }
    for name in ("f", "g")
]
CALL = "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>"

Fed = tuple[int, bytes]


def tokens(text: str, cuts: Iterable[int] = (), step: int | None = None) -> list[Fed]:
    """Special tokens by id, the bytes between them cut at `cuts` (or every `step` bytes)."""
    out: list[Fed] = []
    for i, part in enumerate(SPLIT.split(text)):
        data = part.encode()
        if i % 2:
            out.append((IDS[part], data))
            continue
        inner = range(step, len(data), step) if step else sorted({c % (len(data) + 1) for c in cuts})
        edges = [0, *inner, len(data)]
        out += [(0, data[a:b]) for a, b in pairwise(edges) if a < b]
    return out


def read(fed: Sequence[Fed], reason: Any = "end", **options: Any) -> tuple[list[ReplyEvent], Reply]:
    reader = ReplyReader(SPECIAL, TOOLS, **options)
    events = [event for token, piece in fed for event in reader.feed(token, piece)]
    reply = reader.finish(reason)
    assert reader.finish("cancelled") is reply
    return events, reply


def joined(events: Sequence[ReplyEvent]) -> list[ReplyEvent]:
    """Neighbouring deltas as one; the name of a call as its last delta knows it."""
    out: list[ReplyEvent] = []
    for event in events:
        last = out[-1] if out else None
        if isinstance(event, TextDelta) and isinstance(last, TextDelta):
            out[-1] = TextDelta(last.text + event.text)
        elif isinstance(event, ReasoningDelta) and isinstance(last, ReasoningDelta):
            out[-1] = ReasoningDelta(last.text + event.text)
        elif isinstance(event, CallDelta) and isinstance(last, CallDelta) and event.index == last.index:
            out[-1] = CallDelta(event.index, event.name, last.text + event.text)
        else:
            out.append(event)
    return out


def shown(events: Sequence[ReplyEvent], kind: type[ReasoningDelta] | type[TextDelta]) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


def test_the_events_of_a_reply() -> None:
    events, reply = read(tokens(f"Hm. So.\n</think>\n\nLook:\n\n{CALL}\n{CALL.replace('=f', '=g')}<|im_end|>", step=3))
    assert joined(events) == [
        ReasoningDelta("Hm. So."),
        PhaseChange("content"),
        TextDelta("Look:"),
        PhaseChange("call"),
        CallDelta(0, "f", CALL),
        PhaseChange("content"),
        CallEnd(0, reply.calls[0]),
        PhaseChange("call"),
        CallDelta(1, "g", CALL.replace("=f", "=g")),
        PhaseChange("content"),
        CallEnd(1, reply.calls[1]),
    ]
    assert [call.status for call in reply.calls] == ["ok", "ok"]


def test_deltas_come_at_once_and_hold_back_only_space() -> None:
    reader = ReplyReader(SPECIAL, TOOLS)
    assert reader.feed(0, b"\n Hm") == [ReasoningDelta("Hm")]
    assert reader.feed(0, b".\n") == [ReasoningDelta(".")]
    assert reader.feed(2, b"</think>") == [PhaseChange("content")]
    assert reader.feed(0, b"\n\n") == []
    assert reader.feed(0, b"a <") == [TextDelta("a")]
    assert reader.feed(0, b" b") == [TextDelta(" < b")]


def test_characters_that_straddle_tokens() -> None:
    data = "漢🎉é".encode()
    events, reply = read([(0, data[i : i + 1]) for i in range(len(data))], thinking=False)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["漢", "🎉", "é"]
    assert reply.content == "漢🎉é"
    reader = ReplyReader(SPECIAL)
    reader.feed(0, data[:2])
    assert not reader.at_boundary
    reader.feed(0, data[2:3])
    assert reader.at_boundary
    _, broken = read([(0, data[:2]), *tokens("</think>\n\nx")])
    assert (broken.reasoning, broken.content) == ("\ufffd", "x")


def test_reasoning_tokens_are_counted() -> None:
    reader = ReplyReader(SPECIAL, TOOLS)
    for token, piece in tokens("abcdef\n</think>\n\nHi", step=2):
        reader.feed(token, piece)
    assert reader.reasoning_tokens == 4
    assert ReplyReader(SPECIAL, thinking=False).reasoning_tokens == 0


def test_tokens_of_a_call_in_open_reasoning_do_not_count_as_reasoning() -> None:
    reader = ReplyReader(SPECIAL, TOOLS)
    for token, piece in tokens("ab\n" + CALL, step=3):
        reader.feed(token, piece)
    assert reader.reasoning_tokens == 1
    assert reader.phase == "content"
    for token, piece in tokens("ab</think>", step=3):
        reader.feed(token, piece)
    assert reader.reasoning_tokens == 1 + len(tokens(CALL, step=3)) + 1
    assert reader.phase == "content"
    assert reader.finish("end").calls == ()


def test_the_phase_follows() -> None:
    reader = ReplyReader(SPECIAL, TOOLS)
    phases = []
    for part in ["Hm\n", "</think>", "\n\nHi\n\n", "<tool_call>", "\n<function=f>\n</function>\n", "</tool_call>"]:
        for token, piece in tokens(part):
            reader.feed(token, piece)
        phases.append(reader.phase)
    assert phases == ["reasoning", "content", "content", "call", "call", "content"]


def test_tokens_behind_the_end_are_ignored() -> None:
    events, reply = read(tokens(f"</think>\n\nHi<|im_end|>\n<|im_start|>user\n{CALL}"))
    assert (reply.content, reply.calls) == ("Hi", ())
    assert shown(events, TextDelta) == "Hi"


def test_other_special_tokens_are_text() -> None:
    _, reply = read(tokens("</think>\n\na<|im_start|>b"))
    assert reply.content == "a<|im_start|>b"


def test_text_that_spells_a_tag_is_text_in_every_phase() -> None:
    """A whole tag in one token of text, as vocabularies have them that merge it: only the tag's own id is a tag."""
    spelled = [(0, tag.encode()) for tag in SPECIAL.values()]
    all_of_them = "".join(SPECIAL.values())
    _, reply = read([*spelled, *tokens("</think>\n\n"), *spelled, (0, CALL.encode())])
    assert (reply.reasoning, reply.content, reply.calls) == (all_of_them, all_of_them + CALL, ())
    opening = [*tokens("</think>\n\n<tool_call>"), (0, b"\n<function=f>\n<parameter=a>\n")]
    closing = [(0, b"\n</parameter>\n</function>\n"), *tokens("</tool_call>")]
    inside = "x\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=f>\n<parameter=a>\ny"
    for value in (all_of_them, inside):
        _, reply = read([*opening, (0, value.encode()), *closing])
        assert [(call.status, call.arguments) for call in reply.calls] == [("ok", {"a": value})]


@pytest.mark.parametrize("reason", ["length", "stopped", "context", "cancelled", "failed"])
def test_a_cut_call_is_incomplete_wherever_it_is_cut(reason: str) -> None:
    first = CALL.replace("=f", "=g")
    whole = tokens(f"</think>\n\n{first}\n{CALL}", step=1)
    begun = len(tokens(f"</think>\n\n{first}\n", step=1))
    for end in range(begun + 1, len(whole)):
        _, reply = read(whole[:end], reason)
        assert [call.status for call in reply.calls] == ["ok", "incomplete"], bytes(b"".join(p for _, p in whole[:end]))
        assert reply.calls[1].error
    assert [call.status for call in read(whole, reason)[1].calls] == ["ok", "ok"]


def test_a_cut_value_that_looks_like_a_whole_call_never_runs() -> None:
    inner = "<tool_call>\n<function=f>\n<parameter=a>\n" + CALL + "\nand more"
    for text in (inner, CALL + "\nand more", inner + "\n</parameter>"):
        _, reply = read(tokens("</think>\n\n" + text), "length")
        assert all(call.status == "incomplete" for call in reply.calls)
        assert reply.calls


def test_cut_json_and_bare_calls() -> None:
    for text in ('<tool_call>\n{"name": "f", "argu', "<function=f>\n<parameter=a>\nx"):
        _, reply = read(tokens("</think>\n\n" + text), "length")
        assert [call.status for call in reply.calls] == ["incomplete"], text
        assert reply.content == ""


def test_a_cut_in_reasoning() -> None:
    for text in ("Hm", "Hm <tool_call>", "Hm <tool_call>\n<function="):
        _, reply = read(tokens(text), "length")
        assert reply == Reply(reasoning=text, reasoning_complete=False)


def test_what_may_become_a_call_is_held_and_given_back() -> None:
    events, reply = read(tokens("</think>\n\nx\n<function=f>\n<par is it<|im_end|>", step=1))
    assert reply.content == "x\n<function=f>\n<par is it"
    assert shown(events, TextDelta) == reply.content
    events, reply = read(tokens("</think>\n\nx\n<functio<|im_end|>", step=1))
    assert reply.content == shown(events, TextDelta) == "x\n<functio"


# -- properties

ATOMS = [
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    "<function=f>",
    "<function=g>",
    "<function=h>",
    "</function>",
    "<parameter=a>",
    "<parameter=n>",
    "<parameter=z>",
    "</parameter>",
    "\n",
    "\n\n",
    " ",
    "x",
    "7",
    "é🎉",
    "```",
    '{"name": "f", "arguments": {"a": "',
    '"}}',
    "<",
    "<function",
    CALL,
]
texts = st.lists(st.sampled_from(ATOMS), max_size=14).map("".join)


@given(texts, st.lists(st.integers(0, 400), max_size=8), st.booleans(), st.sampled_from(["end", "length"]))
@example("<function=f>\n</function>\n</think>", [3], False, "end")
def test_the_cut_into_tokens_changes_nothing(text: str, cuts: list[int], thinking: bool, reason: str) -> None:
    whole_events, whole = read(tokens(text), reason, thinking=thinking)
    for fed in (tokens(text, cuts), tokens(text, step=1)):
        events, reply = read(fed, reason, thinking=thinking)
        assert reply == whole
        assert joined(events) == joined(whole_events)
    assert whole.reasoning.startswith(shown(whole_events, ReasoningDelta))
    assert whole.content.startswith(shown(whole_events, TextDelta))


@given(texts, st.booleans())
def test_only_valid_calls_are_ok(text: str, thinking: bool) -> None:
    _, reply = read(tokens(text), thinking=thinking)
    for call in reply.calls:
        if call.status == "ok":
            assert call.name in ("f", "g")
            assert set(call.arguments) <= {"a", "n"}
            assert call.error is None
        else:
            assert call.error
    if reply.calls and not reply.reasoning_complete:
        raise AssertionError("calls of a reply whose reasoning is open")


lines = st.lists(st.sampled_from([*ATOMS, "\n</parameter>\n", "\n<parameter=a>\n", "\n</function>\n"]), max_size=6)
values = lines.map("".join)


@given(
    st.text(max_size=5).map(str.strip),
    st.text(max_size=5).map(str.strip),
    st.lists(st.tuples(st.sampled_from("fg"), values, st.none() | st.integers()), max_size=3),
)
@example("", "", [("f", "\n</parameter>\n<parameter=a>", 0)])
def test_what_the_template_renders_is_read_back_or_refused(
    reasoning: str, content: str, spelled: list[tuple[str, str, int | None]]
) -> None:
    if any(tag in reasoning + content for tag in SPECIAL.values()):
        return
    calls = [
        {"name": name, "arguments": {"a": value} if number is None else {"a": value, "n": number}}
        for name, value, number in spelled
    ]
    message = {
        "role": "assistant",
        "content": content,
        "reasoning_content": reasoning,
        "tool_calls": [{"type": "function", "function": call} for call in calls],
    }
    template, start = Qwen38(), [{"role": "user", "content": "q"}]
    text = template.render([*start, message], TOOLS, add_generation_prompt=False)
    text = text[len(template.render(start, TOOLS)) :].removesuffix("\n")
    _, reply = read(tokens(text, step=4))
    assert reply.reasoning == reasoning
    if any(call.status == "malformed" for call in reply.calls):
        assert any("<" in value for _, value, _ in spelled)
        return
    assert [{"name": c.name, "arguments": c.arguments} for c in reply.calls] == calls
    assert reply.content == content
    assert reply.repairs == ()


def test_reading_does_not_grow_with_the_length() -> None:
    """No list or text of the reader is copied per token: the bytes handled are counted, not the seconds."""
    events, _ = read(tokens("word " * 20_000 + "</think>\n\n" + "word " * 20_000, step=5))
    sizes = list(accumulate(len(event.text) for event in events if isinstance(event, (ReasoningDelta, TextDelta))))
    assert sizes[-1] == 2 * (5 * 20_000 - 1)
