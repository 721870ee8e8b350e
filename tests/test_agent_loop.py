"""The loop: turns, calls, results, retries, limits, events."""

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
from agentloop.events import CallReady, Event, ReasoningDelta, Retry, RunEnded, TextDelta, ToolFinished, TurnEnded
from agentloop.exceptions import (
    ContextFull,
    ConversationError,
    ConversationFull,
    InvalidMessage,
    ModelRetry,
    RunError,
    ToolDefinitionError,
    ToolFailed,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
)
from agentloop.limits import Usage, UsageLimits
from agentloop.testing import ScriptedEngine, ScriptedReply, call, say, think
from agentloop.tools import Tool, tool
from tests.agent_tools import add, check_whole, failing, kinds, results, wait


def run(agent: Agent[Any], prompt: str | None = "Go.", **options: Any) -> RunResult[Any]:
    result = agent.run_sync(prompt, **options)
    check_whole(result.conversation)
    assert result.conversation.first_difference() is None
    return result


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
        run(Agent(ScriptedEngine(), tools=[add]), "Stop.", conversation=_with(conversation, say("Ok."))).output == "Ok."
    )


def _with(conversation: Conversation, *replies: Any) -> Conversation:
    """The conversation with other replies to come."""
    engine = conversation.engine
    assert isinstance(engine, ScriptedEngine)
    engine._queue.clear()
    engine.add(*replies)
    return conversation


def test_unknown_tools_are_bounded_by_the_agents_retries() -> None:
    engine = ScriptedEngine([call("nothing", n=i) for i in range(9)])
    with pytest.raises(UnexpectedModelBehavior, match="nothing"):
        Agent(engine, tools=[add], retries=3).run_sync("Go.")
    assert engine.remaining == 5


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


def test_request_limit() -> None:
    engine = ScriptedEngine([call("add", a=i, b=1) for i in range(9)])
    with pytest.raises(UsageLimitExceeded) as caught:
        Agent(engine, tools=[add]).run_sync("Go.", limits=UsageLimits(request_limit=3))
    assert (caught.value.limit, caught.value.value) == ("request_limit", 3)
    conversation = caught.value.conversation
    assert len(conversation.turns) == 3
    done = run(Agent(engine, tools=[add]), None, conversation=_with(conversation, say("Done.")))
    assert done.output == "Done."
    assert len(results(conversation)) == 3


def test_tool_call_limit_leaves_calls_that_can_still_run() -> None:
    engine = ScriptedEngine([call("add", a=1, b=1) + call("add", a=2, b=2), say("Ok.")])
    agent = Agent(engine, tools=[add])
    with pytest.raises(UsageLimitExceeded, match="tool_calls_limit") as caught:
        agent.run_sync("Go.", limits=UsageLimits(tool_calls_limit=1))
    conversation = caught.value.conversation
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
