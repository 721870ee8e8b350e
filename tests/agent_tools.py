"""Tools and helpers that several agent tests share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio

from agentloop.agent import Agent, RunResult
from agentloop.conversation import Conversation
from agentloop.engine.scripted import ScriptedSequence
from agentloop.events import Event
from agentloop.testing import ScriptedEngine
from agentloop.tools import Tool, tool


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def wait(seconds: float, name: str) -> str:
    """Wait, then say a name."""
    await anyio.sleep(seconds)
    return name


def failing(error: BaseException, name: str = "fail", **options: Any) -> Tool:
    """A tool without parameters that always raises `error`."""

    def fail() -> str:
        """Fail."""
        raise error

    return Tool(fail, name=name, **options)


def kinds(events: Sequence[Event]) -> list[str]:
    """The kinds of events in order, runs of the same one as one."""
    out: list[str] = []
    for event in events:
        if out[-1:] != [event.kind]:
            out.append(event.kind)
    return out


def results(conversation: Conversation) -> list[str]:
    """The contents of all tool messages."""
    return [m["content"] for m in conversation.messages if m["role"] == "tool"]


def check_whole(conversation: Conversation) -> None:
    """Invariant 1 for a scripted conversation: the state stands behind the tokens, or one short of them."""
    sequence = conversation.sequence
    assert isinstance(sequence, ScriptedSequence)
    assert sequence.decoded in (sequence.tokens, sequence.tokens[:-1])


def run(agent: Agent[Any], prompt: str | None = "Go.", **options: Any) -> RunResult[Any]:
    """A run after which the state is whole and the conversation's bytes are those of its messages."""
    result = agent.run_sync(prompt, **options)
    check_whole(result.conversation)
    assert result.conversation.first_difference() is None
    return result


def with_replies(conversation: Conversation, *replies: Any) -> Conversation:
    """The conversation with other replies to come."""
    engine = conversation.engine
    assert isinstance(engine, ScriptedEngine)
    engine._queue.clear()
    engine.add(*replies)
    return conversation
