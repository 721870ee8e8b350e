"""Random conversations against the official templates: render, segments, our own Jinja text, the law of continuation.

Texts are put together from what a template may trip over, more than from letters.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentloop.exceptions import TemplateError
from agentloop.templates import Qwen38
from agentloop.templates.base import join
from tests.parity.families import FAMILIES
from tests.parity.oracle import TemplateRefusal, environment, official, official_text
from tests.parity.tools import TOOLS, UNICODE

OWN = environment().from_string(Qwen38.jinja())

PIECES = (
    *("", " ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2028", "\x1c", "\x85", "\u200b", "\ufeff", "\x00"),
    *(
        "x",
        "two words",
        "é",
        "e\u0301",
        "漢字",
        "😀",
        "'",
        '"',
        "\\",
        "\\n",
        "/",
        "{{ x }}",
        "{% raw %}",
        "<b>&amp;</b>",
    ),
    *("<think>", "</think>", "<think>\nno\n</think>\n\n", "<tool_call>", "</tool_call>", "<tool_response>"),
    *("</tool_response>", "</parameter>", "</function>", "<|im_end|>", "<|im_start|>", "<|endoftext|>"),
    *("<|tool_call_start|>", "<|tool_call_end|>", "', a='", "')]", "null", "True", "1.0", "007"),
)
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=5).map("".join)
WORDS = st.sampled_from(("f", "get_weather", "a", "b", "path", "naïve", "x-y", "a_b2"))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(TEXTS, v, max_size=3), max_leaves=6)
CALLS = st.lists(st.tuples(WORDS, st.dictionaries(WORDS, VALUES, max_size=3)), max_size=3)


def _assistant(content: str, reasoning: str | None, calls: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [
            {"id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for i, (name, arguments) in enumerate(calls)
        ]
    return message


USERS = TEXTS.map(lambda text: {"role": "user", "content": text})
RESULTS = TEXTS.map(lambda text: {"role": "tool", "tool_call_id": "call_0", "content": text})
ASSISTANTS = st.builds(_assistant, TEXTS, st.none() | TEXTS, CALLS)
TURNS = st.lists(USERS | RESULTS | ASSISTANTS, max_size=7)
HEADS = st.lists(TEXTS.map(lambda text: {"role": "system", "content": text}), max_size=1)
KNOBS = st.fixed_dictionaries(
    {},
    optional={
        "enable_thinking": st.booleans(),
        "preserve_thinking": st.booleans(),
        "reasoning_effort": st.sampled_from(("xhigh", "medium", "low")),
        "add_generation_prompt": st.booleans(),
    },
)
TOOL_LISTS = st.none() | st.lists(st.sampled_from([*TOOLS, UNICODE]), max_size=3)


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=80, deadline=None)
@given(head=HEADS, turns=TURNS, tools=TOOL_LISTS, knobs=KNOBS)
def test_random_conversations(
    family: str,
    head: list[dict[str, Any]],
    turns: list[dict[str, Any]],
    tools: list[dict[str, Any]] | None,
    knobs: dict[str, Any],
) -> None:
    if official_text(family) is None:
        pytest.skip(f"the official template {family} is not to be had here; test_goldens.py is the oracle of this run")
    messages = [*head, *turns]
    template = FAMILIES[family]
    try:
        text = official(family, messages, tools, knobs) if messages else None
    except TemplateRefusal:
        text = None
    if text is None or not any(message["role"] == "user" for message in messages):
        with pytest.raises(TemplateError):
            template.render(messages, tools, **knobs)
        return
    assert template.render(messages, tools, **knobs) == text
    assert join(template.segments(messages, tools, **knobs)) == text
    if family == "qwen3_8":
        assert OWN.render(messages=messages, tools=tools, **{"add_generation_prompt": True, **knobs}) == text


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=40, deadline=None)
@given(old=TURNS, reply=ASSISTANTS, new=st.lists(RESULTS, max_size=3), asked=st.lists(USERS, max_size=2), knobs=KNOBS)
def test_a_continuation_is_what_the_longer_conversation_has_more(
    family: str,
    old: list[dict[str, Any]],
    reply: dict[str, Any],
    new: list[dict[str, Any]],
    asked: list[dict[str, Any]],
    knobs: dict[str, Any],
) -> None:
    template = FAMILIES[family]
    first: list[dict[str, Any]] = [{"role": "user", "content": "Begin."}, *old, reply]
    knobs = {**knobs, "preserve_thinking": True}
    prompt = knobs.pop("add_generation_prompt", True)
    if family == "qwen3_5_think":
        # It always strips old turns, so the law holds only while nothing is asked anew.
        asked = []
    before = template.render(first, add_generation_prompt=False, **knobs)
    whole = template.render([*first, *new, *asked], add_generation_prompt=prompt, **knobs)
    assert before.endswith("<|im_end|>\n")
    pieces = template.continuation([*new, *asked], ended="complete", add_generation_prompt=prompt, **knobs)
    assert before.removesuffix("\n") + join(pieces) == whole
    closed = template.continuation([*new, *asked], ended=None, add_generation_prompt=prompt, **knobs)
    assert before + join(closed) == whole
