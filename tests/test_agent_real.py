"""The agent on the embedded model: what a cold sequence says of the live one, after every kind of turn."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

from agentloop import (
    Agent,
    CancelToken,
    Conversation,
    Engine,
    RunCancelled,
    RunContext,
    Thinking,
    Usage,
    UsageLimitExceeded,
    UsageLimits,
)
from agentloop.events import Event, PrefillProgress, ReasoningDelta, ToolStarted
from agentloop.tools.samples import calculator, get_weather

TOLERANCE = 3e-3  # logits of batches of other widths, as a share of their range; a stale state is off by 1e-2 and more


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load(n_ctx=16384, threads=1) as loaded:
        yield loaded


@pytest.fixture
def agent(engine: Engine) -> Agent[None]:
    return Agent(engine, tools=[calculator, get_weather], instructions="You are a helpful agent.")


def check(engine: Engine, conversation: Conversation) -> None:
    """Invariants 1 and 2: a cold sequence fed the tokens agrees with the live one."""
    live = conversation.sequence
    assert live.n_decoded in (len(live), len(live) - 1)  # type: ignore[attr-defined]
    cold = engine.sequence()
    try:
        cold.extend(conversation.tokens)
        wanted, found = cold.logits(), live.logits()
    finally:
        cold.close()
    assert np.abs(wanted - found).max() <= TOLERANCE * np.ptp(wanted)


def test_turns_calls_and_another_question(engine: Engine, agent: Agent[None]) -> None:
    first = agent.run_sync("What is 17 plus 25?")
    assert "42" in first.output
    check(engine, first.conversation)
    second = agent.run_sync("What is the weather in Oslo and Madrid?", conversation=first.conversation)
    check(engine, second.conversation)
    turns = second.conversation.usage.turns
    assert sum(turn.recomputed for turn in turns) == 0
    for before, after in zip(turns, turns[1:], strict=False):  # noqa: RUF007
        assert after.reused == before.reused + before.new + before.generated
    assert second.conversation.first_difference() is None
    assert len(second.conversation.tokens) == turns[-1].reused + turns[-1].new + turns[-1].generated


@pytest.mark.parametrize("place", [PrefillProgress, ReasoningDelta, ToolStarted])
def test_a_cancel_leaves_a_conversation_that_goes_on(engine: Engine, agent: Agent[None], place: type[Event]) -> None:
    cancel = CancelToken()

    def on_event(event: Event) -> None:
        if isinstance(event, place):
            cancel.cancel()

    with pytest.raises(RunCancelled) as caught:
        agent.run_sync("What is 3 times 7?", cancel=cancel, on_event=on_event)
    conversation = caught.value.conversation
    check(engine, conversation)
    result = agent.run_sync("What is 17 plus 25?", conversation=conversation)
    assert result.output
    check(engine, conversation)


@pytest.mark.filterwarnings("ignore:effort='xhigh'")
@pytest.mark.parametrize("budget", [0, 1, 2, 6, 20])
def test_a_budget_holds_and_an_answer_follows(engine: Engine, budget: int) -> None:
    thinking = Thinking(effort="xhigh", budget=budget)
    agent = Agent(engine, tools=[calculator], thinking=thinking, limits=UsageLimits(request_limit=6))
    try:
        conversation = agent.run_sync("What is 17 plus 25?").conversation
    except UsageLimitExceeded as error:
        conversation = error.conversation
    end = engine.vocab.token_id("</think>")
    for turn in conversation.turns:
        reply = conversation.tokens[turn.prompt_end : turn.end]
        assert reply.count(end) == 1
        assert reply.index(end) <= budget
        assert turn.usage.reasoning <= budget
        assert turn.finish in ("end", "stopped")  # so small a model may repeat itself without its reasoning
    check(engine, conversation)


def test_forks_and_another_answer(engine: Engine, agent: Agent[None]) -> None:
    conversation = agent.run_sync("Hello!").conversation
    other = conversation.fork()
    one = agent.run_sync("What is 2 plus 2?", conversation=conversation)
    two = agent.run_sync("What is 5 plus 6?", conversation=other)
    assert "4" in one.output
    assert "11" in two.output
    assert two.usage.recomputed == 0
    check(engine, conversation)
    check(engine, other)
    answer = conversation.messages[-1]["content"]
    conversation.rewind(-1, keep_messages=True)
    again = agent.run_sync(conversation=conversation)
    assert again.output == answer
    assert again.usage.turns[0].new == 0
    check(engine, conversation)


def test_saved_and_gone_on_in_a_new_process(engine: Engine, agent: Agent[None], tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    result = agent.run_sync("What is 17 plus 25?", save_to=path)
    assert (tmp_path / "talk.json.state").stat().st_size > 0
    tokens = len(result.conversation.tokens)
    code = f"""
        from agentloop import Agent, Conversation, Engine
        from agentloop.tools.samples import calculator, get_weather
        with Engine.load(n_ctx=16384, threads=1) as engine:
            conversation = Conversation.load({str(path)!r}, engine)
            decoded = conversation.sequence.stats.evaluated
            result = Agent(engine, tools=[calculator, get_weather]).run_sync("Thanks!", conversation=conversation)
            turn = result.usage.turns[0]
            print(decoded, turn.reused, turn.recomputed, conversation.first_difference())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.stderr, done.stdout) == ("", f"0 {tokens} 0 None\n")


@pytest.mark.parametrize("state", ["missing", "altered"])
def test_without_the_state_the_tokens_are_decoded_again(
    engine: Engine, agent: Agent[None], tmp_path: Path, state: str
) -> None:
    path = tmp_path / "talk.json"
    conversation = agent.run_sync("Hello!").conversation
    conversation.save(path)
    beside = tmp_path / "talk.json.state"
    if state == "missing":
        beside.unlink()
    else:
        data = bytearray(beside.read_bytes())
        data[len(data) // 2] ^= 1
        beside.write_bytes(data)
    loaded = Conversation.load(path, engine)
    assert loaded.tokens == conversation.tokens
    assert loaded.sequence.stats.evaluated == len(loaded.tokens)
    check(engine, loaded)


def test_a_sub_agent_on_a_fork_decodes_nothing_again(engine: Engine) -> None:
    helper = Agent(engine, tools=[calculator])
    tool = helper.as_tool("calculator", "Compute the value of an arithmetic expression.", fork=True)
    conversation = helper.run_sync("What is 2 plus 2?").conversation
    usage = Usage()
    ctx: RunContext[Any] = RunContext(deps=None, usage=usage, conversation=conversation)
    text = anyio.run(tool.call, {"task": "What is 12 plus 13?"}, ctx)
    assert "25" in text
    assert usage.turns[0].reused == len(conversation.tokens)
    assert usage.recomputed == 0
    check(engine, conversation)


def test_several_agents_on_one_engine_at_once(engine: Engine, agent: Agent[None]) -> None:
    questions = {"What is 1 plus 2?": "3", "What is 30 plus 4?": "34", "What is 6 times 7?": "42"}
    answers: dict[str, Any] = {}

    async def ask(question: str) -> None:
        answers[question] = await agent.run(question)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for question in questions:
                group.start_soon(ask, question)

    anyio.run(main)
    for question, answer in questions.items():
        assert answer in answers[question].output
        assert answers[question].usage.recomputed == 0
        check(engine, answers[question].conversation)


def test_the_best_of_several_answers_decodes_the_prompt_once(engine: Engine, agent: Agent[None]) -> None:
    best = anyio.run(agent.best_of, "What is 17 plus 25?", 3)
    assert "42" in best.output
    paid = best.usage.turns[0]
    assert paid.generated == 0
    assert [result.usage.turns[0].new for result in best.results] == [0] * len(best.results)
    assert best.saved == paid.new * (len(best.results) - 1)
    assert best.usage.recomputed == 0
    for result in best.results:
        check(engine, result.conversation)


@pytest.mark.filterwarnings("ignore:effort='xhigh'")
@pytest.mark.parametrize("drafters", ["none", ("suffix", "mtp")])
def test_budgets_hold_with_and_without_drafts(drafters: str | tuple[str, ...]) -> None:
    """Budgets of nothing, of one and two tokens, hit exactly, and larger than the thought."""
    with Engine.load(n_ctx=8192, drafters=drafters) as engine:
        end = engine.vocab.token_id("</think>")
        texts: list[str] = []
        for budget in (0, 1, 2, 5, 11, 12, 40):
            agent: Agent[None] = Agent(engine, tools=[calculator], thinking=Thinking(effort="xhigh", budget=budget))
            result = agent.run_sync("What is 12 plus 30?")
            assert result.usage.recomputed == 0
            for turn in result.conversation.turns:
                reply = result.conversation.tokens[turn.prompt_end : turn.end]
                assert reply.count(end) == 1
                assert reply.index(end) <= budget
            check(engine, result.conversation)
            texts.append(result.output)
        assert texts[2:] == ["12 + 30 = 42."] * 5
