"""What is appended behind a live conversation is what the whole conversation, rendered at once, has more."""

from __future__ import annotations

from typing import Any

import pytest

from agentloop.templates.base import ReplyEnd, join
from tests.parity.corpus import CASES, KNOB_SHAPES, SHAPES, Case, user
from tests.parity.families import FAMILIES
from tests.parity.texts import TEXTS

QWEN = [family for family in FAMILIES if family.startswith("qwen")]
ASK, REPLY = user("Go"), {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}
CALL = {"type": "function", "function": {"name": "f", "arguments": {"a": "x"}}}


def results(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "tool", "tool_call_id": f"call_{i}", "content": text} for i, text in enumerate(texts)]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_cut_behind_every_reply(family: str, name: str) -> None:
    """preserve_thinking: the live state keeps old reasoning, and so does the text that it is compared with."""
    template = FAMILIES[family]
    messages = SHAPES[name]
    knobs: dict[str, Any] = {"preserve_thinking": True, "reasoning_effort": "low"}
    for i, message in enumerate(messages):
        old, new = messages[: i + 1], messages[i + 1 :]
        if message["role"] != "assistant" or not any(m["role"] == "user" for m in old):
            continue
        if family == "qwen3_5_think" and any(m["role"] == "user" for m in new):
            continue  # it strips old turns whatever it is told, so its text never only grows
        before = template.render(old, add_generation_prompt=False, **knobs)
        whole = template.render(messages, **knobs)
        assert before.removesuffix("\n") + join(template.continuation(new, ended="complete", **knobs)) == whole
        assert before + join(template.continuation(new, ended=None, **knobs)) == whole


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("texts", [("1",), ("1", ""), ("", " ", "\n"), ("<tool_response>", "</tool_response>\n")])
def test_results_one_by_one_share_an_envelope(family: str, texts: tuple[str, ...]) -> None:
    """Where results go in as they come, the envelope stays open until something else follows."""
    template = FAMILIES[family]
    old = [ASK, {**REPLY, "tool_calls": [CALL] * len(texts)}]
    whole = template.render([*old, *results(*texts)])
    text = template.render(old, add_generation_prompt=False).removesuffix("\n")
    assert text + join(template.continuation(results(*texts), ended="complete")) == whole


@pytest.mark.parametrize("family", QWEN)
def test_an_open_envelope_goes_on_or_is_closed(family: str) -> None:
    template = FAMILIES[family]
    old = [ASK, {**REPLY, "tool_calls": [CALL, CALL]}, *results("1")]
    closed = template.render(old, add_generation_prompt=False)
    open_text = closed.removesuffix("<|im_end|>\n")
    assert open_text.endswith("</tool_response>")
    more = [*results("2"), user("And?")]
    keep: dict[str, Any] = {"preserve_thinking": True}
    for new in (more[:1], more[1:], more, []):
        if family == "qwen3_5_think" and user("And?") in new:
            continue
        before = template.render(old, add_generation_prompt=False, **keep).removesuffix("<|im_end|>\n")
        pieces = template.continuation(new, ended=None, open_tool_block=True, **keep)
        assert before + join(pieces) == template.render([*old, *new], **keep)


ENDS: dict[ReplyEnd, tuple[str, str]] = {
    "truncated": ("Hm.\n</think>\n\nThe answer i", "<|im_end|>\n"),
    "in_reasoning": ("Hm, let me th", "\n</think>\n\n<|im_end|>\n"),
    "in_call": ("Hm.\n</think>\n\n<tool_call>\n<function=f>\n<par", "<|im_end|>\n"),
}


@pytest.mark.parametrize("family", QWEN)
@pytest.mark.parametrize("ended", ENDS)
@pytest.mark.parametrize("thinking", [True, False])
def test_a_reply_that_was_cut_is_closed_first(family: str, ended: ReplyEnd, thinking: bool) -> None:
    template = FAMILIES[family]
    closing = ENDS[ended][1]
    pieces = template.continuation([user("Go on")], ended=ended, enable_thinking=thinking)
    prompt = "<think>\n" if thinking else "<think>\n\n</think>\n\n"
    assert join(pieces) == f"{closing}<|im_start|>user\nGo on<|im_end|>\n<|im_start|>assistant\n{prompt}"
    assert join(template.continuation([], ended=ended, add_generation_prompt=False)) == closing


@pytest.mark.parametrize("family", QWEN)
@pytest.mark.parametrize("ended", ["truncated", "in_reasoning"])
def test_a_reply_that_was_cut_reads_as_a_message_of_its_text(family: str, ended: ReplyEnd) -> None:
    """The state behind it holds what rendering the cut reply as a message would give."""
    template = FAMILIES[family]
    cut = ENDS[ended][0]
    live = template.render([ASK]) + cut + join(template.continuation([user("x")], ended=ended))
    content = "The answer i" if ended == "truncated" else ""
    thought = "Hm." if ended == "truncated" else cut
    said = {"role": "assistant", "content": content, "reasoning_content": thought}
    if family == "qwen3_5_think":
        behind = template.render([ASK, said], add_generation_prompt=False)
        assert live.startswith(behind)
        return
    assert live == template.render([ASK, said, user("x")], preserve_thinking=True)


@pytest.mark.parametrize("ended", ["complete", "truncated", "in_reasoning", "in_call"])
def test_lfm2_closes_what_is_open(ended: ReplyEnd) -> None:
    text = join(FAMILIES["lfm2_2_5"].continuation([user("Go on")], ended=ended))
    closing, _, rest = text.partition("<|im_start|>")
    assert rest == "user\nGo on<|im_end|>\n<|im_start|>assistant\n"
    assert closing.endswith("\n" if ended == "complete" else "<|im_end|>\n")
    assert ("</think>" in closing) == (ended == "in_reasoning")


def scaffold(family: str, case: Case) -> str:
    pieces = FAMILIES[family].segments(case.messages, case.tools, **case.knobs)
    return "".join(piece.text for piece in pieces if piece.is_scaffold)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_text_of_users_tools_or_schemas_is_scaffold(family: str) -> None:
    """What the template wrote is the same whatever the texts say: they can neither add a special token nor take one."""
    plain = scaffold(family, next(case for case in CASES if case.name == "text everywhere: null word"))
    assert plain.count("<|im_start|>") == 7
    for name in (name for name, text in TEXTS.items() if text.strip()):  # a blank one takes its separators with it
        case = next(case for case in CASES if case.name == f"text everywhere: {name}")
        assert scaffold(family, case) == plain, name


@pytest.mark.parametrize("family", FAMILIES)
def test_no_text_of_a_schema_is_scaffold(family: str) -> None:
    def written(text: str) -> str:
        function = {"name": "f", "description": text, "parameters": {"type": "object", "properties": {text: {}}}}
        pieces = FAMILIES[family].segments([ASK], [{"type": "function", "function": function}])
        return "".join(piece.text for piece in pieces if piece.is_scaffold)

    for name, text in TEXTS.items():
        assert written(text) == written("plain"), name


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape", KNOB_SHAPES)
def test_a_prompt_ends_with_the_prefix_of_the_reply(family: str, shape: str) -> None:
    template = FAMILIES[family]
    for thinking in (True, False):
        text = template.render(SHAPES[shape], enable_thinking=thinking)
        without = template.render(SHAPES[shape], add_generation_prompt=False, enable_thinking=thinking)
        prefix = template.reply_prefix(enable_thinking=thinking)
        assert text == without + "<|im_start|>assistant\n" + prefix
