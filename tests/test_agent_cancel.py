"""A cancel, wherever it comes from and whatever it meets, leaves a conversation that can go on (invariant 11)."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import anyio
import pytest

from agentloop.agent import Agent
from agentloop.conversation import Conversation
from agentloop.engine.scripted import ScriptedSequence
from agentloop.engine.seam import CancelToken
from agentloop.events import Event, PrefillProgress, ReasoningDelta, ToolFinished, TurnStarted
from agentloop.exceptions import DecodeError, RunCancelled
from agentloop.testing import ScriptedEngine, ScriptedReply, call, say, think
from tests.agent_tools import add, check_whole, results, wait

SLOW = ScriptedReply(think("Let me think about it for a while.") + say("x"), delay=0.02)
PLACES: dict[str, tuple[Any, type[Event]]] = {
    "prefill": (say("never"), PrefillProgress),
    "decode": (SLOW, ReasoningDelta),
    "tool": (call("wait", seconds=60, name="a") + call("add", a=1, b=2), ToolFinished),
}


def engine_for(place: str, *more: Any) -> ScriptedEngine:
    """An engine whose first reply is slow at `place`."""
    return ScriptedEngine([PLACES[place][0], *more], n_batch=32, prefill_delay=0.01 if place == "prefill" else 0.0)


def go_on(conversation: Conversation, place: str) -> None:
    """The conversation answers another prompt, and a cold sequence agrees with it."""
    engine = conversation.engine
    assert isinstance(engine, ScriptedEngine)
    check_whole(conversation)
    engine._queue.clear()
    engine.add(say("Going on."))
    engine.prefill_delay = 0.0
    result = Agent(engine, tools=[add, wait]).run_sync("Go on.", conversation=conversation)
    assert result.output == "Going on."
    check_whole(conversation)
    if place != "decode":  # a reply that was cut has no canonical form
        assert conversation.first_difference() is None
    if place == "tool":
        assert results(conversation) == ["Error: the call was cancelled before it ended.", "3"]
    live = conversation.sequence
    cold = engine.sequence()
    cold.extend(conversation.tokens)
    assert isinstance(live, ScriptedSequence)
    assert (cold.logits() == live.logits()).all()


@pytest.mark.parametrize("place", PLACES)
def test_from_a_thread(place: str) -> None:
    cancel = CancelToken()

    def on_event(event: Event) -> None:
        if isinstance(event, PLACES[place][1]):
            threading.Thread(target=cancel.cancel).start()

    with pytest.raises(RunCancelled) as caught:
        Agent(engine_for(place), tools=[add, wait]).run_sync("Go.", cancel=cancel, on_event=on_event)
    conversation = caught.value.conversation
    assert isinstance(conversation, Conversation)
    go_on(conversation, place)


@pytest.mark.parametrize("place", PLACES)
def test_from_another_task(place: str) -> None:
    async def main() -> Conversation:
        agent = Agent(engine_for(place), tools=[add, wait])
        conversation = await agent.conversation()
        reached = anyio.Event()

        def on_event(event: Event) -> None:
            if isinstance(event, PLACES[place][1]):
                reached.set()

        async def work() -> None:
            await agent.run("Go.", conversation=conversation, on_event=on_event)
            pytest.fail("the run ended")

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(work)
                await reached.wait()
                group.cancel_scope.cancel()
        return conversation

    go_on(anyio.run(main), place)


@pytest.mark.parametrize("place", PLACES)
def test_from_the_handle_of_a_stream(place: str) -> None:
    async def main() -> Conversation:
        async with Agent(engine_for(place), tools=[add, wait]).stream("Go.") as run:

            async def watch() -> None:
                async for event in run:
                    if isinstance(event, PLACES[place][1]):
                        run.cancel()

            with pytest.raises(RunCancelled) as caught:
                await watch()
            with pytest.raises(RunCancelled):
                _ = run.result
        assert caught.value.conversation is run.conversation
        assert run.conversation is not None
        return run.conversation

    go_on(anyio.run(main), place)


@pytest.mark.parametrize("place", PLACES)
def test_by_leaving_the_stream(place: str) -> None:
    async def main() -> Conversation:
        async with Agent(engine_for(place), tools=[add, wait]).stream("Go.") as run:
            async for event in run:
                if isinstance(event, PLACES[place][1]):
                    break
        assert run.conversation is not None
        return run.conversation

    go_on(anyio.run(main), place)


@pytest.mark.parametrize("place", PLACES)
def test_by_ctrl_c(place: str) -> None:
    sent: list[bool] = []

    def on_event(event: Event) -> None:
        if isinstance(event, PLACES[place][1]) and not sent:
            sent.append(True)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(RunCancelled) as caught:
        Agent(engine_for(place), tools=[add, wait]).run_sync("Go.", on_event=on_event)
    conversation = caught.value.conversation
    assert isinstance(conversation, Conversation)
    go_on(conversation, place)


def test_before_the_run_begins() -> None:
    cancel = CancelToken()
    cancel.cancel()
    engine = ScriptedEngine([say("x")])
    with pytest.raises(RunCancelled):
        Agent(engine).run_sync("Go.", cancel=cancel)
    assert engine.remaining == 1


def test_an_error_in_the_block_of_a_stream_comes_out_as_it_is() -> None:
    async def main() -> None:
        async with Agent(ScriptedEngine([SLOW])).stream("Go.") as run:
            async for _ in run:
                raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        anyio.run(main)


def test_a_stream_ends_with_the_result() -> None:
    async def main() -> None:
        async with Agent(ScriptedEngine([say("Hi.")])).stream("Go.") as run:
            events = [event async for event in run]
        assert isinstance(events[0], TurnStarted)
        assert events[-1].kind == "run_ended"
        assert run.result.output == "Hi."
        assert run.usage.requests == 1

    anyio.run(main)


@pytest.mark.parametrize("at", ["start", "middle"])
def test_a_failed_decode_leaves_a_conversation_that_can_go_on(at: str) -> None:
    failure = DecodeError(-3, 7, "broken")
    reply = failure if at == "start" else ScriptedReply(think("Half a thou"), error=failure)
    engine = ScriptedEngine([reply, say("Better.")])
    agent = Agent(engine)

    async def main() -> Conversation:
        conversation = await agent.conversation()
        with pytest.raises(DecodeError):
            await agent.run("Go.", conversation=conversation)
        return conversation

    conversation = anyio.run(main)
    check_whole(conversation)
    result = agent.run_sync("Once more.", conversation=conversation)
    assert result.output == "Better."
    check_whole(conversation)


def test_a_cancelled_prefill_is_not_decoded_twice() -> None:
    engine = ScriptedEngine([say("Ok.")], n_batch=64)
    agent = Agent(engine)
    cancel = CancelToken()

    def on_event(event: Event) -> None:
        if isinstance(event, PrefillProgress) and event.done >= 500:
            cancel.cancel()

    engine.prefill_delay = 0.005
    with pytest.raises(RunCancelled) as caught:
        agent.run_sync("word " * 1000, cancel=cancel, on_event=on_event)
    conversation = caught.value.conversation
    decoded = len(conversation.tokens)
    assert 500 <= decoded < 5000
    engine.prefill_delay = 0.0
    result = agent.run_sync(conversation=conversation)
    assert result.output == "Ok."
    assert result.usage.turns[0].reused == decoded
    assert result.usage.recomputed == 0
    assert conversation.first_difference() is None
