"""Limits of a run, and contexts that fill up."""

from __future__ import annotations

import pytest

from agentloop.agent import Agent
from agentloop.exceptions import (
    ContextFull,
    ConversationFull,
    RunError,
    UsageLimitExceeded,
)
from agentloop.limits import UsageLimits
from agentloop.testing import ScriptedEngine, ScriptedReply, call, say, think
from agentloop.tools import tool
from tests.agent_tools import add, check_whole, results, run, wait, with_replies


def test_request_limit() -> None:
    engine = ScriptedEngine([call("add", a=i, b=1) for i in range(9)])
    with pytest.raises(UsageLimitExceeded) as caught:
        Agent(engine, tools=[add]).run_sync("Go.", limits=UsageLimits(request_limit=3))
    assert (caught.value.limit, caught.value.value) == ("request_limit", 3)
    assert (caught.value.used, caught.value.more) == (3, 1)
    assert str(caught.value).startswith("request_limit of 3 reached (3 used, the next step needs 1 more). Raise")
    conversation = caught.value.conversation
    assert len(conversation.turns) == 3
    done = run(Agent(engine, tools=[add]), None, conversation=with_replies(conversation, say("Done.")))
    assert done.output == "Done."
    assert len(results(conversation)) == 3


def test_tool_call_limit_leaves_calls_that_can_still_run() -> None:
    engine = ScriptedEngine([call("add", a=1, b=1) + call("add", a=2, b=2), say("Ok.")])
    agent = Agent(engine, tools=[add])
    with pytest.raises(UsageLimitExceeded, match="tool_calls_limit") as caught:
        agent.run_sync("Go.", limits=UsageLimits(tool_calls_limit=1))
    conversation = caught.value.conversation
    assert (caught.value.used, caught.value.more) == (0, 2)
    assert len(conversation.open_calls) == 2
    assert run(agent, None, conversation=conversation).output == "Ok."
    assert results(conversation) == ["2", "4"]


def test_token_limits() -> None:
    with pytest.raises(UsageLimitExceeded, match="input_tokens_limit") as caught:
        Agent(ScriptedEngine([say("x")])).run_sync("Go.", limits=UsageLimits(input_tokens_limit=5))
    assert caught.value.conversation.tokens == ()
    with pytest.raises(UsageLimitExceeded, match="output_tokens_limit") as caught:
        Agent(ScriptedEngine([say("A long answer.")])).run_sync("Go.", limits=UsageLimits(output_tokens_limit=10))
    assert caught.value.conversation.usage.generated == 10
    with pytest.raises(UsageLimitExceeded, match="total_tokens_limit"):
        Agent(ScriptedEngine([say("x")])).run_sync("Go.", limits=UsageLimits(total_tokens_limit=30))


def test_wall_clock_limit_ends_a_tool_and_a_decode() -> None:
    limits = UsageLimits(seconds_limit=0.2)
    engine = ScriptedEngine([call("wait", seconds=60, name="x")])
    with pytest.raises(UsageLimitExceeded, match="seconds_limit") as caught:
        Agent(engine, tools=[wait]).run_sync("Go.", limits=limits)
    assert results(caught.value.conversation) == ["Error: the call was cancelled before it ended."]
    slow = ScriptedEngine([ScriptedReply(say("x"), delay=60)])
    with pytest.raises(UsageLimitExceeded, match="seconds_limit") as caught:
        Agent(slow).run_sync("Go.", limits=limits)
    check_whole(caught.value.conversation)


def test_a_prompt_that_does_not_fit_is_taken_back() -> None:
    engine = ScriptedEngine([say("Hi."), say("Short.")], n_ctx=800)
    agent = Agent(engine, instructions="Be brief.")
    first = run(agent, "Hello")
    with pytest.raises(ConversationFull) as caught:
        agent.run_sync("x" * 2000, conversation=first.conversation)
    assert isinstance(caught.value, ContextFull)
    assert isinstance(caught.value, RunError)
    assert caught.value.conversation is first.conversation
    assert first.conversation.pending == []
    assert run(agent, "Again", conversation=first.conversation).output == "Short."


def test_a_context_that_fills_while_the_model_writes() -> None:
    engine = ScriptedEngine([ScriptedReply(think("long ") + say(" ".join(map(str, range(2000)))))], n_ctx=600)
    with pytest.raises(ConversationFull) as caught:
        Agent(engine).run_sync("Go.")
    conversation = caught.value.conversation
    assert len(conversation.tokens) == 600
    assert conversation.messages[-1]["role"] == "assistant"


def test_long_results_are_cut_to_what_fits() -> None:
    @tool
    def shout() -> str:
        """Return much."""
        return "word " * 5000

    engine = ScriptedEngine([call("shout"), say("Ok.")], n_ctx=4000)
    result = run(Agent(engine, tools=[shout]))
    (text,) = results(result.conversation)
    assert len(text) <= 1000
    assert "left out" in text
    capped = ScriptedEngine([call("shout"), say("Ok.")])
    (text,) = results(run(Agent(capped, tools=[shout], result_cap=200)).conversation)
    assert len(text) <= 200
