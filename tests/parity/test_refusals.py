"""What a template would refuse, or drop without a word, is refused before rendering: which message, and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from agentloop.exceptions import InvalidKnob, InvalidMessage, TemplateError
from tests.parity.families import FAMILIES
from tests.parity.oracle import TemplateRefusal, official, official_text

Message = dict[str, Any]
HI: Message = {"role": "user", "content": "Hi"}
YES: Message = {"role": "assistant", "content": "Yes"}


def calls(*entries: Any) -> Message:
    return {"role": "assistant", "content": "", "tool_calls": list(entries)}


def call(name: Any, arguments: Any) -> Message:
    return {"id": "call_0", "type": "function", "function": {"name": name, "arguments": arguments}}


REFUSED: dict[str, tuple[list[Any], int | None, str]] = {
    "no messages": ([], None, "start with a user message"),
    "system alone": ([{"role": "system", "content": "S"}], None, "no user message"),
    "no user": ([YES], None, "no user message"),
    "late system": ([HI, YES, {"role": "system", "content": "S"}], 2, "must stand at the beginning"),
    "late developer": ([HI, {"role": "developer", "content": "S"}], 1, "must stand at the beginning"),
    "unknown role": ([HI, {"role": "function", "content": "x"}], 1, "unknown role 'function'; use one of system"),
    "no role": ([HI, {"content": "x"}], 1, "unknown role None"),
    "no mapping": ([HI, "x"], 1, "must be a mapping"),
    "a number as content": ([HI, {"role": "user", "content": 3}], 1, "content must be a string"),
    "bytes as content": ([HI, {"role": "user", "content": b"x"}], 1, "content must be a string"),
    "a mapping as content": ([HI, {"role": "user", "content": {"text": "x"}}], 1, "content must be a string"),
    "an image": (
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
        0,
        "reads text alone",
    ),
    "an image in a result": ([HI, {"role": "tool", "content": [{"type": "image", "image": "x"}]}], 1, "text alone"),
    "a video": ([HI, {"role": "user", "content": [{"video": "x"}]}], 1, "reads text alone"),
    "audio": ([HI, {"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}], 1, "reads text alone"),
    "a part without text": ([HI, {"role": "user", "content": [{"type": "text"}]}], 1, "without text"),
    "a part that is text": ([HI, {"role": "user", "content": ["x"]}], 1, "must be a mapping"),
    "arguments that are no JSON": ([HI, calls(call("f", "{a: 1}"))], 1, "are not JSON"),
    "arguments that are a list": ([HI, calls(call("f", [1]))], 1, "must be an object"),
    "arguments that are a JSON list": ([HI, calls(call("f", "[1]"))], 1, "must be an object"),
    "arguments by number": ([HI, calls(call("f", {1: 2}))], 1, "must be an object"),
    "a call without a name": ([HI, calls({"type": "function", "function": {"arguments": {}}})], 1, "name its function"),
    "a call with an empty name": ([HI, calls(call("", {}))], 1, "name its function"),
    "a call by number": ([HI, calls(call(7, {}))], 1, "name its function"),
    "a call that is text": ([HI, calls("f()")], 1, "name its function"),
    "calls that are a mapping": ([HI, {**YES, "tool_calls": call("f", {})}], 1, "must be a list"),
    "reasoning by number": ([HI, {**YES, "reasoning_content": 3}], 1, "reasoning_content must be a string"),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_the_message_and_the_way_out(family: str, name: str) -> None:
    messages, index, words = REFUSED[name]
    for write in (FAMILIES[family].render, FAMILIES[family].segments):
        with pytest.raises(InvalidMessage, match=words) as caught:
            write(messages)
        assert caught.value.index == index
        assert index is None or str(caught.value).startswith(f"message {index}: ")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("messages", ["Hi", b"Hi", {"role": "user", "content": "Hi"}])
def test_one_message_is_no_list_of_messages(family: str, messages: Any) -> None:
    with pytest.raises(InvalidMessage, match="must be a list"):
        FAMILIES[family].render(messages)


@pytest.mark.parametrize("name", ["no messages", "system alone", "no user", "late system", "unknown role", "no role"])
def test_the_official_text_refuses_it_too(name: str) -> None:
    if official_text("qwen3_8") is None:
        pytest.skip("the official template is not to be had here")
    with pytest.raises(TemplateRefusal):
        official("qwen3_8", REFUSED[name][0])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_late_system_message_is_refused_in_a_continuation(family: str, role: str) -> None:
    with pytest.raises(InvalidMessage, match="beginning") as caught:
        FAMILIES[family].continuation([HI, {"role": role, "content": "S"}], ended="complete")
    assert caught.value.index == 1
    with pytest.raises(InvalidMessage, match="beginning"):
        FAMILIES[family].continuation([{"role": role, "content": "S"}, HI], ended="complete")


@pytest.mark.parametrize("effort", ["high", "", "XHIGH", "none", 3, True])
def test_other_efforts_are_refused_with_the_three_that_there_are(effort: Any) -> None:
    for write in (FAMILIES["qwen3_8"].render, FAMILIES["qwen3_8"].segments):
        with pytest.raises(InvalidKnob, match="use one of 'xhigh', 'medium', 'low'") as caught:
            write([HI], reasoning_effort=effort)
        assert (caught.value.knob, caught.value.value) == ("reasoning_effort", effort)
        assert caught.value.allowed == ("xhigh", "medium", "low")
    with pytest.raises(InvalidKnob):
        FAMILIES["qwen3_8"].continuation([HI], ended="complete", reasoning_effort=effort)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("knobs", [{"enable_thinking": "yes"}, {"preserve_thinking": 1}, {"effort": "low"}])
def test_knobs_of_other_types_and_names_are_refused(family: str, knobs: dict[str, Any]) -> None:
    with pytest.raises(InvalidKnob, match="use one of"):
        FAMILIES[family].render([HI], **knobs)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_knob_that_is_none_is_not_given(family: str) -> None:
    knobs: dict[str, Any] = {"reasoning_effort": None, "enable_thinking": None, "preserve_thinking": None}
    assert FAMILIES[family].render([HI], **knobs) == FAMILIES[family].render([HI])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_schema_that_is_no_json_is_an_error_of_the_template(family: str) -> None:
    with pytest.raises(TemplateError, match="a tool schema cannot be written as JSON"):
        FAMILIES[family].render([HI], [{"type": "function", "function": {"name": "f", "default": {1, 2}}}])


@pytest.mark.parametrize("family", FAMILIES)
def test_openai_shapes_become_one(family: str) -> None:
    """Arguments as JSON text, the developer role and several system messages write the same as their plain forms."""
    template = FAMILIES[family]
    plain: list[Message] = [
        {"role": "system", "content": "One.\n\nTwo."},
        HI,
        {"role": "assistant", "content": "", "tool_calls": [call("f", {"a": 1, "é": "x"})]},
        {"role": "tool", "content": "3", "tool_call_id": "call_0"},
    ]
    loose: list[Message] = [
        {"role": "developer", "content": "One.\n"},
        {"role": "system", "content": ""},
        {"role": "system", "content": [{"type": "text", "text": "Two."}]},
        {"role": "user", "content": [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]},
        {"role": "assistant", "content": None, "tool_calls": [call("f", '{"a": 1, "\\u00e9": "x"}')]},
        {"role": "tool", "content": [{"text": "3"}]},
    ]
    assert template.render(loose) == template.render(plain)
    nothing: Any
    for nothing in ("", "{}", None, {}, "  "):
        assert template.render([HI, calls(call("f", nothing))]) == template.render([HI, calls(call("f", {}))])
