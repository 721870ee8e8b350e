"""The loop: turns, calls, results, events, settings."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from agentloop.agent import Agent, RunResult
from agentloop.context import RunContext
from agentloop.conversation import Conversation
from agentloop.engine.seam import Sampling
from agentloop.events import CallReady, Event, ReasoningDelta, RunEnded, TextDelta, ToolFinished, TurnEnded
from agentloop.exceptions import (
    ConversationError,
    InvalidMessage,
    ToolDefinitionError,
)
from agentloop.limits import Usage
from agentloop.testing import ScriptedEngine, ScriptedReply, call, say, think
from agentloop.tools import tool
from tests.agent_tools import add, check_whole, kinds, results, run, wait


def test_an_answer() -> None:
    engine = ScriptedEngine([think("Easy.") + say("Hello!")])
    result = run(Agent(engine, instructions="Be brief."), "Hi")
    assert result.output == "Hello!"
    assert result.reasoning.strip() == "Easy."
    assert result.finish_reason == "end"
    assert [m["role"] for m in result.messages] == ["system", "user", "assistant"]
    assert [m["role"] for m in result.new_messages] == ["user", "assistant"]
    engine.assert_complete()


def test_calls_run_and_their_results_go_back() -> None:
    engine = ScriptedEngine([think("I add.") + call("add", a=2, b=3), say("It is 5.")])
    result = run(Agent(engine, tools=[add]), "2 + 3?")
    assert result.output == "It is 5."
    assert results(result.conversation) == ["5"]
    assert "<tool_response>\n5\n</tool_response>" in engine.prompts[1]
    message = result.messages[1]
    assert message["tool_calls"][0]["function"] == {"name": "add", "arguments": {"a": 2, "b": 3}}
    assert message["tool_calls"][0]["id"] == result.messages[2]["tool_call_id"]
    assert result.usage.tool_calls == 1


def test_only_what_is_appended_is_decoded() -> None:
    """Invariant 3, counted by the sequence itself."""
    engine = ScriptedEngine([call("add", a=1, b=1), call("add", a=2, b=2), say("4"), say("Bye.")])
    agent = Agent(engine, tools=[add])
    first = run(agent, "1 + 1 + 2?")
    second = run(agent, "Thanks.", conversation=first.conversation)
    turns = [*first.usage.turns, *second.usage.turns]
    assert [t.recomputed for t in turns] == [0] * 4
    assert turns[0].reused == 0
    for before, after in itertools.pairwise(turns):
        assert after.reused == before.reused + before.new + before.generated
    tokens = second.conversation.tokens
    assert len(tokens) == turns[-1].reused + turns[-1].new + turns[-1].generated
    assert second.conversation.sequence.stats.evaluated in (len(tokens), len(tokens) - 1)
    assert second.usage.requests == 1
    assert second.conversation is first.conversation


def test_parallel_calls_run_together_and_answer_in_order() -> None:
    async def both() -> RunResult[Any]:
        started = anyio.Event()

        @tool
        async def first() -> str:
            """Wait for the other one."""
            with anyio.fail_after(20):
                await started.wait()
            return "one"

        @tool
        async def second() -> str:
            """Let the other one go on."""
            started.set()
            return "two"

        engine = ScriptedEngine([call("first") + call("second"), say("Done.")])
        return await Agent(engine, tools=[first, second]).run("Go.")

    result = anyio.run(both)
    assert results(result.conversation) == ["one", "two"]
    assert result.conversation.first_difference() is None


def test_events_tell_the_whole_run() -> None:
    engine = ScriptedEngine([think("Hm.") + say("I add.") + call("add", a=1, b=2), say("3")])
    events: list[Event] = []
    result = run(Agent(engine, tools=[add]), on_event=events.append)
    assert kinds(events) == [
        "turn_started",
        "prefill_progress",
        "reasoning_delta",
        "text_delta",
        "call_delta",
        "call_ready",
        "turn_ended",
        "tool_started",
        "tool_finished",
        "turn_started",
        "prefill_progress",
        "text_delta",
        "turn_ended",
        "run_ended",
    ]
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)).strip() == "Hm."
    assert "".join(e.text for e in events if isinstance(e, TextDelta)).replace("\n", "") == "I add.3"
    ready = next(e for e in events if isinstance(e, CallReady))
    finished = next(e for e in events if isinstance(e, ToolFinished))
    assert ready.call.arguments == {"a": 1, "b": 2}
    assert ready.call_id == finished.call_id
    assert (finished.content, finished.outcome) == ("3", "ok")
    assert [e.usage for e in events if isinstance(e, TurnEnded)] == result.usage.turns
    assert isinstance(events[-1], RunEnded)
    assert events[-1].result is result


@dataclass
class Shop:
    name: str
    sold: int = 0


def test_tools_and_instructions_get_the_context() -> None:
    seen: list[RunContext[Shop]] = []
    engine = ScriptedEngine([call("sell", what="tea"), say("Sold.")])
    agent: Agent[Shop] = Agent(engine, instructions=lambda ctx: f"You sell for {ctx.deps.name}.", deps_type=Shop)

    @agent.tool
    def sell(ctx: RunContext[Shop], what: str) -> str:
        """Sell something."""
        seen.append(ctx)
        ctx.deps.sold += 1
        return f"sold {what}"

    @agent.tool_plain(name="price_of")
    def price(what: str) -> int:
        """The price of something."""
        return len(what)

    @agent.instructions
    async def more() -> str:
        return "Be friendly."

    shop = Shop("Ada")
    result = run(agent, deps=shop)
    assert shop.sold == 1
    assert result.messages[0]["content"] == "You sell for Ada.\n\nBe friendly."
    (ctx,) = seen
    assert (ctx.tool_name, ctx.step, ctx.retry, ctx.tool_call_approved) == ("sell", 1, 0, False)
    assert ctx.conversation is result.conversation
    assert ctx.tool_call_id == result.messages[2]["tool_calls"][0]["id"]
    assert "price_of" in engine.prompts[0]
    with pytest.raises(ToolDefinitionError):
        agent.tool_plain(name="sell")(lambda: "x")


def test_override_is_for_the_block_only() -> None:
    agent = Agent(ScriptedEngine([say("real")]), tools=[add], instructions="Real.")
    fake = ScriptedEngine([call("mul", a=2, b=3), say("fake")])

    def mul(a: int, b: int) -> int:
        """Multiply."""
        return a * b

    with agent.override(engine=fake, tools=[mul], instructions="Fake."):
        result = run(agent)
    assert result.output == "fake"
    assert results(result.conversation) == ["6"]
    assert result.messages[0]["content"] == "Fake."
    assert run(agent).output == "real"


def test_nothing_to_do_is_an_error() -> None:
    agent = Agent(ScriptedEngine([say("x")]))
    with pytest.raises(ConversationError, match="nothing to do"):
        agent.run_sync()
    done = run(agent)
    with pytest.raises(ConversationError, match="nothing to do"):
        agent.run_sync(conversation=done.conversation)


def test_one_run_at_a_time_on_a_conversation() -> None:
    async def main() -> None:
        agent = Agent(ScriptedEngine([call("wait", seconds=0.05, name="x"), say("Done.")]), tools=[wait])
        conversation = await agent.conversation()
        async with agent.stream("Go.", conversation=conversation) as first:
            async for event in first:
                if event.kind == "tool_started":
                    with pytest.raises(ConversationError, match="another run"):
                        await agent.run("Me too.", conversation=conversation)
        assert first.result.output == "Done."
        assert [m["content"] for m in conversation.messages if m["role"] == "user"] == ["Go."]

    anyio.run(main)


def test_a_history_that_ends_in_a_call_goes_on_with_it() -> None:
    history = [
        {"role": "user", "content": "1 + 2?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"function": {"name": "add", "arguments": '{"a":1,"b":2}'}}],
        },
    ]
    engine = ScriptedEngine([say("3")])
    conversation = Conversation(engine, messages=history, tools=[add.schema])
    result = run(Agent(engine, tools=[add]), None, conversation=conversation)
    assert result.output == "3"
    assert results(conversation) == ["3"]


def test_usage_can_be_shared_and_sampling_passed_on() -> None:
    total = Usage()
    engine = ScriptedEngine([call("add", a=1, b=2), say("a"), say("b")])
    agent = Agent(engine, tools=[add])
    first = run(agent, usage=total, sampling=Sampling(temperature=0.5, seed=1))
    second = run(agent, usage=total)
    assert (total.requests, total.tool_calls) == (3, 1)
    assert [first.usage.requests, second.usage.requests] == [2, 1]
    assert [first.usage.tool_calls, second.usage.tool_calls] == [1, 0]


def test_tools_that_come_later_are_announced_and_the_head_stays() -> None:
    engine = ScriptedEngine([say("Hi."), call("add", a=1, b=1), say("2")])
    plain = Agent(engine)
    first = run(plain, "Hello")
    head = first.conversation.tokens
    result = run(Agent(engine, tools=[add]), "1 + 1?", conversation=first.conversation)
    assert result.output == "2"
    assert result.conversation.tokens[: len(head)] == head
    assert result.usage.recomputed == 0
    assert '"name": "add"' in engine.prompts[1]
    assert results(result.conversation) == ["2"]


def test_run_sync_on_a_running_loop_says_what_to_do() -> None:
    async def inside() -> None:
        with pytest.raises(Exception, match=r"await agent\.run"):
            Agent(ScriptedEngine([say("x")])).run_sync("Go.")

    anyio.run(inside)


def test_no_thinking() -> None:
    engine = ScriptedEngine([say("Hi.").direct])
    result = run(Agent(engine, thinking=False))
    assert result.output == "Hi."
    assert engine.prompts[0].endswith("<think>\n\n</think>\n\n")


def test_a_watcher_that_raises_ends_no_run(caplog: pytest.LogCaptureFixture) -> None:
    def on_event(_: Event) -> None:
        raise ValueError("mine")

    assert run(Agent(ScriptedEngine([say("Hi.")])), on_event=on_event).output == "Hi."
    assert "the handler of the run's events raised" in caplog.text


def test_an_agent_in_a_sync_tool() -> None:
    engine = ScriptedEngine([call("ask", question="2 + 2?"), say("4"), say("It says 4.")])

    def ask(question: str) -> str:
        """Ask another agent."""
        return str(Agent(engine).run_sync(question).output)

    assert run(Agent(engine, tools=[ask])).output == "It says 4."


def test_a_timeout_of_asyncio_ends_a_run_cleanly() -> None:
    engine = ScriptedEngine([ScriptedReply(say("never"), delay=30), say("Yes.")])
    agent = Agent(engine)

    async def main() -> Conversation:
        conversation = await agent.conversation()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(agent.run("Go.", conversation=conversation), 0.1)
        check_whole(conversation)
        assert (await agent.run("Again.", conversation=conversation)).output == "Yes."
        return conversation

    check_whole(asyncio.run(main()))


def test_a_prompt_that_no_template_reads_is_refused() -> None:
    agent = Agent(ScriptedEngine([say("Hi.")]))
    conversation = anyio.run(agent.conversation)
    with pytest.raises(InvalidMessage):
        agent.run_sync([{"type": "image_url", "image_url": {"url": "x"}}], conversation=conversation)
    assert conversation.pending == []
    assert run(agent, "Hello", conversation=conversation).output == "Hi."
