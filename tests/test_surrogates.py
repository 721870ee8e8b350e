"""Lone surrogates: JSON can spell one and no token can, so `?` stands for it wherever text comes in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentloop.agent import Agent
from agentloop.arguments import well_formed
from agentloop.conversation import Conversation
from agentloop.engine import Engine
from agentloop.templates import Lfm25
from agentloop.testing import ScriptedEngine, call, say
from agentloop.tools import Tool, tool
from tests.agent_tools import results, run

HALF = "a\ud800b"
SPELLED = '"a\\ud800b"'


@tool
def echo(text: str, more: list[str] | None = None) -> str:
    """Say it again."""
    seen.append([text, more])
    return text


seen: list[Any] = []


def test_values_of_any_depth() -> None:
    assert well_formed({HALF: [HALF, (HALF, 1)], "é🎉": None}) == {"a?b": ["a?b", ("a?b", 1)], "é🎉": None}
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert well_formed(deep) is deep


@pytest.mark.parametrize("prompt", [HALF, [{"type": "text", "text": HALF}]])
def test_what_users_say(prompt: Any) -> None:
    engine = ScriptedEngine([say("Ok.")])
    result = run(Agent(engine, instructions=HALF, tools=[Tool(lambda: 1, name="f", description=HALF)]), prompt)
    assert "ud800" not in ascii(result.messages)
    assert "a?b" in engine.prompts[0]
    assert result.messages[0]["content"] == "a?b"


def test_what_tools_return() -> None:
    def pair() -> dict[str, list[str]]:
        """Two of them."""
        return {HALF: [HALF]}

    engine = ScriptedEngine([call("half") + call("pair"), say("Ok.")])
    agent = Agent(engine, tools=[Tool(lambda: HALF, name="half", description="One."), pair])
    assert results(run(agent).conversation) == ["a?b", '{"a?b": ["a?b"]}']


@pytest.mark.parametrize(
    "spelled",
    [
        f'<tool_call>\n{{"name": "echo", "arguments": {{"text": {SPELLED}, "more": [{SPELLED}]}}}}\n</tool_call>',
        "<tool_call>\n<function=echo>\n<parameter=text>\na?b\n</parameter>\n<parameter=more>\n"
        f"[{SPELLED}]\n</parameter>\n</function>\n</tool_call>",
    ],
)
def test_what_models_write(spelled: str) -> None:
    seen.clear()
    result = Agent(ScriptedEngine([f"</think>\n\n{spelled}", say("Ok.")]), tools=[echo]).run_sync("Go.")
    assert seen == [["a?b", ["a?b"]]]
    assert results(result.conversation) == ["a?b"]
    assert "ud800" not in ascii(result.messages)


def test_what_models_write_in_lists() -> None:
    reply = Lfm25().parse(f"<|tool_call_start|>[echo(text={SPELLED})]<|tool_call_end|>", [echo.schema])
    (found,) = reply.calls
    assert (found.status, "ud800" in ascii(found.arguments)) == ("ok", False)


def test_histories_saved_and_loaded(tmp_path: Path) -> None:
    function = {"name": "echo", "arguments": {"text": HALF}}
    history = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": HALF, "reasoning_content": HALF, "tool_calls": [{"function": function}]},
    ]
    conversation = Conversation(ScriptedEngine([say("Ok.")]), messages=history, tools=[echo.schema])
    conversation.tool_result(conversation.open_calls[0]["id"], HALF)
    conversation.reply()
    assert conversation.first_difference() is None
    conversation.save(tmp_path / "c.json")
    assert "\\ud800" not in (tmp_path / "c.json").read_text()
    assert Conversation.load(tmp_path / "c.json", conversation.engine).messages == conversation.messages


def test_the_real_vocabulary_agrees() -> None:
    with Engine.load(n_ctx=512) as engine:
        assert engine.vocab.decode(engine.vocab.encode(HALF)) == well_formed(HALF).encode()
