"""Compaction: what stays, what becomes a summary, what it costs."""

from __future__ import annotations

from typing import Any

import pytest

from agentloop.agent import Agent
from agentloop.conversation import Compaction, Conversation
from agentloop.events import Compacted, Event
from agentloop.exceptions import ConversationError
from agentloop.testing import ScriptedEngine, call, say
from agentloop.tools import tool
from tests.agent_tools import check_whole, results


@tool
def read(page: int) -> str:
    """Read a page."""
    return f"Page {page}: " + " ".join(f"word{page * 1000 + i}" for i in range(60))


def pages(n: int) -> list[Any]:
    return [call("read", page=i) for i in range(n)]


def talk(*replies: Any, **options: Any) -> Conversation:
    conversation = Conversation(ScriptedEngine(replies, **options), instructions="Be brief.")
    for i in range(len(replies)):
        conversation.user(f"Question {i} " + "x" * 100)
        conversation.reply()
    return conversation


def test_old_turns_become_a_summary_and_the_head_stays_decoded() -> None:
    conversation = talk(say("One"), say("Two"), say("Three"))
    engine = conversation.engine
    assert isinstance(engine, ScriptedEngine)
    evaluated = conversation.sequence.stats.evaluated
    done = conversation.compact(summary="They talked.")
    assert conversation.sequence.stats.evaluated == evaluated
    assert done.after < done.before
    contents = [m["content"] for m in conversation.messages]
    assert contents[0] == "Be brief."
    assert contents[1].endswith("They talked.")
    assert contents[2].startswith("Question 2")
    assert contents[3] == "Three"
    conversation.user("And now?")
    engine.add(say("Four"))
    conversation.reply()
    assert conversation.usage.turns[-1].reused >= conversation._head > 100
    assert conversation.first_difference() is None
    check_whole(conversation)


def test_the_model_writes_the_summary_on_a_fork() -> None:
    conversation = talk(say("One"), say("Two"))
    engine = conversation.engine
    assert isinstance(engine, ScriptedEngine)
    tokens = len(conversation.tokens)
    engine.add(say("All of it."))
    done = conversation.compact(Compaction(prompt="Sum up."))
    assert done.summary == "All of it."
    assert conversation.usage.turns[-1].reused == tokens
    assert conversation.usage.turns[-1].new < 100
    assert "Sum up." not in conversation.messages[1]["content"]


def test_a_long_run_compacts_and_keeps_calls_with_their_results() -> None:
    def reply(prompt: str) -> Any:
        if "write a summary" in prompt.rsplit("<|im_start|>user", 1)[-1].lower():
            return say("I have read some pages.")
        done = prompt.count("<tool_response>")
        reads.append(done)
        return call("read", page=len(reads)) if len(reads) < 12 else say("I have read them.")

    reads: list[int] = []
    engine = ScriptedEngine(reply, n_ctx=4500)
    events: list[Event] = []
    agent = Agent(engine, tools=[read], instructions="Read.", compaction=Compaction(at=0.7))
    result = agent.run_sync("Read 11 pages.", on_event=events.append)
    assert result.output == "I have read them."
    shorter = [e for e in events if isinstance(e, Compacted)]
    assert len(shorter) >= 2
    assert all(e.after < e.before for e in shorter)
    assert sum(m["content"] == "Read 11 pages." for m in result.messages) == 1
    assert sum("I have read some pages." in m["content"] for m in result.messages) == 1
    calls = [c["id"] for m in result.messages for c in m.get("tool_calls", ())]
    assert calls == [m["tool_call_id"] for m in result.messages if m["role"] == "tool"]
    assert len(results(result.conversation)) >= 2
    assert result.conversation.first_difference() is None
    check_whole(result.conversation)


def test_a_compaction_that_frees_nothing_is_an_error_and_changes_nothing() -> None:
    conversation = talk(say("One"), say("Two"))
    before = conversation.messages
    with pytest.raises(ConversationError, match="free nothing"):
        conversation.compact(summary="long " * 500)
    conversation.engine.add(say(""))  # type: ignore[attr-defined]
    with pytest.raises(ConversationError, match="no summary"):
        conversation.compact()
    assert conversation.messages == before
    with pytest.raises(ConversationError, match="nothing to make shorter"):
        talk(say("One")).compact(summary="x")
    with pytest.raises(ConversationError, match="nobody has asked"):
        Conversation(ScriptedEngine(), instructions="x").compact(summary="x")


def test_announced_tools_stay_announced() -> None:
    conversation = talk(say("One"))
    conversation.announce([read.schema])
    conversation.user("Next " + "y" * 300)
    engine = conversation.engine
    assert isinstance(engine, ScriptedEngine)
    engine.add(say("Two"), say("Three"))
    conversation.reply()
    conversation.user("Last")
    conversation.reply()
    conversation.compact(summary="Short.")
    assert conversation.known_tools == [read.schema]
    assert sum('"name": "read"' in m["content"] for m in conversation.messages) == 1
