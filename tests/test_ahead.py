"""Decoding ahead while tools run: a result costs only itself, and nothing is decoded twice."""

from __future__ import annotations

import numpy as np
import pytest

from agentloop import Agent, Conversation, Engine
from agentloop.tools.samples import calculator


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.load(n_ctx=8192, drafters="none", threads=1)


def ask(engine: Engine) -> Conversation:
    conversation = Conversation(engine, tools=[calculator.schema])
    conversation.user("What is 12 plus 30?")
    reply = conversation.reply()
    assert [call.name for call in reply.calls] == ["calculator"]
    return conversation


def test_a_result_costs_only_itself(engine: Engine) -> None:
    conversation, plain = ask(engine), ask(engine)
    before = conversation.sequence.stats
    ahead = conversation.decode_ahead()
    vocab = engine.vocab
    assert vocab.decode(conversation.tokens[-ahead:]).decode() == "\n<|im_start|>user\n<tool_response>"
    assert (conversation.sequence.stats - before).evaluated == ahead + 1  # and the end of the reply, which waited
    assert conversation.decode_ahead() == 0  # once is enough
    turns = []
    for c in (conversation, plain):
        before = c.sequence.stats
        c.tool_result(c.open_calls[0]["id"], "42")
        c.reply()
        turns.append((c.sequence.stats - before, c.usage.turns[-1]))
    (spent, usage), (spent_plain, usage_plain) = turns
    assert spent_plain.evaluated - spent.evaluated == ahead + 1
    assert (usage.reused, usage.new, usage.recomputed) == (usage_plain.reused, usage_plain.new, 0)
    assert conversation.tokens == plain.tokens
    assert conversation.first_difference() is None
    for c in (conversation, plain):
        c.close()


def test_another_message_than_a_result_is_no_harm(engine: Engine) -> None:
    conversation = ask(engine)
    conversation.decode_ahead()
    conversation.tool_result(conversation.open_calls[0]["id"], "")
    conversation.user("Never mind. Hello!")
    conversation.reply()
    cold = engine.sequence()
    cold.extend(conversation.tokens)
    live, truth = conversation.sequence.logits(), cold.logits()
    assert np.abs(live - truth).max() <= 3e-3 * np.ptp(truth)
    cold.close()
    conversation.close()


def test_there_is_nothing_to_decode_without_open_calls(engine: Engine) -> None:
    conversation = Conversation(engine, tools=[calculator.schema])
    assert conversation.decode_ahead() == 0
    conversation.user("Hello!")
    assert conversation.decode_ahead() == 0
    conversation.reply()
    assert conversation.decode_ahead() == 0
    conversation.close()


def test_an_agent_decodes_ahead_while_its_tools_run(engine: Engine) -> None:
    agent: Agent[None] = Agent(engine)
    seen: list[str] = []

    @agent.tool
    async def calculator(ctx: object, expression: str) -> str:
        """Evaluate an arithmetic expression.

        Args:
            expression: The expression, for example 2 + 3.
        """
        import anyio

        for _ in range(200):
            seen.append(engine.vocab.decode(ctx.conversation.tokens[-1:]).decode())  # type: ignore[attr-defined]
            if seen[-1] == "<tool_response>":
                break
            await anyio.sleep(0.01)
        return "42"

    result = agent.run_sync("What is 12 plus 30?")
    assert seen[-1] == "<tool_response>"
    assert result.usage.recomputed == 0
    assert result.output == "12 + 30 = 42."


def test_a_cut_reply_is_made_again_without_a_prompt(engine: Engine) -> None:
    from agentloop import CancelToken, RunCancelled
    from agentloop.events import ReasoningDelta

    agent: Agent[None] = Agent(engine, tools=[calculator])
    whole = agent.run_sync("What is 12 plus 30?")
    cancel = CancelToken()
    with pytest.raises(RunCancelled) as caught:
        agent.run_sync(
            "What is 12 plus 30?",
            cancel=cancel,
            on_event=lambda event: cancel.cancel() if isinstance(event, ReasoningDelta) else None,
        )
    result = agent.run_sync(conversation=caught.value.conversation)
    assert result.output == whole.output
    assert result.conversation.tokens == whole.conversation.tokens
    assert result.usage.recomputed == 0
