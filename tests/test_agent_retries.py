"""What goes wrong and is tried again: calls that fail, calls that repeat, replies that are empty or cut."""

from __future__ import annotations

import pytest

from agentloop.agent import Agent
from agentloop.context import RunContext
from agentloop.conversation import Conversation
from agentloop.events import Event, Retry
from agentloop.exceptions import (
    ModelRetry,
    ToolFailed,
    UnexpectedModelBehavior,
)
from agentloop.testing import ScriptedEngine, call, say
from agentloop.tools import Tool, tool
from tests.agent_tools import add, check_whole, failing, results, run, with_replies


def test_invalid_calls_go_back_as_precise_errors_and_siblings_run() -> None:
    engine = ScriptedEngine(
        [call("add", a="x", b=1) + call("add", a=1, b=1) + call("subtract", a=1), say("Sorry.")],
    )
    result = run(Agent(engine, tools=[add]))
    first, second, third = results(result.conversation)
    assert first.startswith("Error:")
    assert "a" in first
    assert "integer" in first
    assert second == "2"
    assert "subtract" in third
    assert "add" in third
    assert result.usage.tool_calls == 1


def test_a_call_that_fails_too_often_ends_the_run() -> None:
    engine = ScriptedEngine([call("add", a="x", b=1)] * 5)
    events: list[Event] = []
    with pytest.raises(UnexpectedModelBehavior) as caught:
        Agent(engine, tools=[add]).run_sync("Go.", on_event=events.append)
    assert caught.value.reason == "tool_retries"
    assert len([e for e in events if isinstance(e, Retry)]) == 1
    conversation = caught.value.conversation
    assert isinstance(conversation, Conversation)
    assert conversation.open_calls == []
    assert (
        run(Agent(ScriptedEngine(), tools=[add]), "Stop.", conversation=with_replies(conversation, say("Ok."))).output
        == "Ok."
    )


def test_unknown_tools_are_bounded_by_the_agents_retries() -> None:
    engine = ScriptedEngine([call("nothing", n=i) for i in range(9)])
    with pytest.raises(UnexpectedModelBehavior, match="nothing"):
        Agent(engine, tools=[add], retries=3).run_sync("Go.")
    assert engine.remaining == 5


def test_invented_names_count_together() -> None:
    engine = ScriptedEngine([call(f"nothing_{i}", n=i) for i in range(60)])
    events: list[Event] = []
    with pytest.raises(UnexpectedModelBehavior, match="3 turns in a row held calls of what is no tool") as caught:
        Agent(engine, tools=[add]).run_sync("Go.", on_event=events.append)
    assert caught.value.reason == "tool_retries"
    assert engine.remaining == 57
    assert [e.reason for e in events if isinstance(e, Retry)] == ["unknown_tool"] * 2
    assert caught.value.conversation.open_calls == []


def test_invented_names_of_one_turn_count_once_and_a_turn_without_any_forgives() -> None:
    several = call("one") + call("two") + call("three") + call("four")
    engine = ScriptedEngine([several, several, call("add", a=1, b=1), several, several, say("Done.")])
    assert run(Agent(engine, tools=[add])).output == "Done."
    engine = ScriptedEngine([call("add", a=i, b=1) + call(f"other_{i}") for i in range(9)])
    with pytest.raises(UnexpectedModelBehavior, match="no tool"):
        Agent(engine, tools=[add]).run_sync("Go.")
    assert engine.remaining == 6


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad thing"), "Error: bad thing"),
        (ToolFailed("no disk"), "Error: no disk"),
        (ModelRetry("try 7"), "Error: try 7"),
    ],
)
def test_what_a_tool_raises_is_one_short_line(error: BaseException, text: str) -> None:
    engine = ScriptedEngine([call("fail"), say("Ok.")])
    result = run(Agent(engine, tools=[failing(error)]))
    assert results(result.conversation) == [text]


def test_model_retry_counts_and_success_forgives() -> None:
    tries: list[int] = []

    def pick(ctx: RunContext[None], n: int) -> str:
        """Pick a number."""
        tries.append(ctx.retry)
        if n < 3:
            raise ModelRetry("a larger one")
        return "picked"

    engine = ScriptedEngine([call("pick", n=n) for n in (1, 2, 3, 1, 2)] + [say("Done.")])
    result = run(Agent(engine, tools=[Tool(pick, max_retries=2)]))
    assert tries == [0, 1, 2, 0, 1]
    assert result.output == "Done."


def test_the_same_call_and_result_are_steered_then_stopped() -> None:
    engine = ScriptedEngine([call("add", a=1, b=1)] * 9)
    events: list[Event] = []
    with pytest.raises(UnexpectedModelBehavior) as caught:
        Agent(engine, tools=[add]).run_sync("Go.", on_event=events.append)
    assert caught.value.reason == "repeated_call"
    assert engine.remaining == 5
    texts = results(caught.value.conversation)
    assert texts[:2] == ["2", "2"]
    assert "third time" in texts[2]
    assert [e.reason for e in events if isinstance(e, Retry)] == ["repeated_call"]


def test_a_cycle_of_two_calls_is_a_repeat_too() -> None:
    engine = ScriptedEngine([call("add", a=i % 2, b=1) for i in range(20)])
    with pytest.raises(UnexpectedModelBehavior, match="in a row"):
        Agent(engine, tools=[add]).run_sync("Go.")
    assert engine.remaining == 12


def test_polling_with_new_results_is_no_repeat() -> None:
    count = iter(range(100))

    @tool
    def poll() -> int:
        """Look again."""
        return next(count)

    engine = ScriptedEngine([call("poll")] * 8 + [say("Done.")])
    assert run(Agent(engine, tools=[poll])).output == "Done."


def test_empty_replies_are_continued_and_bounded() -> None:
    assert run(Agent(ScriptedEngine([say(""), say("Here.")]))).output == "Here."
    with pytest.raises(UnexpectedModelBehavior) as caught:
        Agent(ScriptedEngine([say("")] * 9), retries=1).run_sync("Go.")
    assert caught.value.reason == "empty_reply"
    assert len(caught.value.conversation.turns) == 2


def test_a_reply_cut_in_reasoning_is_asked_to_answer() -> None:
    engine = ScriptedEngine(["I think and think and think", say("42")])
    result = run(Agent(engine, max_tokens=10))
    assert result.output == "42"
    assert result.conversation.turns[0].ended == "in_reasoning"
    assert "cut" in engine.prompts[1]


def test_a_reply_cut_in_a_call_runs_nothing_and_says_so() -> None:
    engine = ScriptedEngine([call("add", a=1, b=2), say("Ok.")])
    agent = Agent(engine, tools=[add])
    result = agent.run_sync("Go.", max_tokens=70)
    assert result.usage.tool_calls == 0
    assert result.conversation.turns[0].ended == "in_call"
    (text,) = results(result.conversation)
    assert text.startswith("Error:")
    assert result.output == "Ok."
    check_whole(result.conversation)


def test_an_answer_cut_by_max_tokens_says_so() -> None:
    result = Agent(ScriptedEngine([say("A long answer.")])).run_sync("Go.", max_tokens=10)
    assert result.finish_reason == "length"
    assert "A long answer.".startswith(result.output)
