"""Approvals: an inline handler, or stop and go on with decisions, also in a new process."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from agentloop.agent import Agent, DeferredToolRequests, DeferredToolResults
from agentloop.context import RunContext
from agentloop.conversation import Conversation
from agentloop.exceptions import ApprovalRequired
from agentloop.testing import ScriptedEngine, call, say
from agentloop.tools import ApprovalRequest, Tool, ToolApproved, ToolDenied, tool
from tests.agent_tools import add, check_whole, results


class Files:
    """Tools that count what they did."""

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.copied: list[str] = []

    def tools(self) -> list[Tool]:
        def delete(path: str) -> str:
            """Delete a file."""
            self.deleted.append(path)
            return f"deleted {path}"

        def copy(path: str) -> str:
            """Copy a file."""
            self.copied.append(path)
            return f"copied {path}"

        return [Tool(delete, requires_approval=True), Tool(copy)]


TWO = call("copy", path="a") + call("delete", path="b")


def test_a_handler_decides_at_once() -> None:
    files = Files()
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    agent = Agent(ScriptedEngine([TWO, say("Done.")]), tools=files.tools(), approve=approve)
    result = agent.run_sync("Go.")
    assert result.output == "Done."
    assert [request.call.arguments for request in asked] == [{"path": "b"}]
    assert results(result.conversation) == ["copied a", "deleted b"]


@pytest.mark.parametrize(
    ("decision", "result", "deleted"),
    [
        (True, "deleted b", ["b"]),
        (ToolApproved(override_args={"path": "c"}), "deleted c", ["c"]),
        (False, "The user denied this call.", []),
        (ToolDenied("Use the trash."), "Use the trash.", []),
    ],
)
def test_a_run_stops_and_goes_on_with_the_decision(decision: Any, result: str, deleted: list[str]) -> None:
    files = Files()
    engine = ScriptedEngine([TWO, say("Done.")])
    agent = Agent(engine, tools=files.tools())
    stopped = agent.run_sync("Go.")
    requests = stopped.deferred
    assert isinstance(requests, DeferredToolRequests)
    assert stopped.finish_reason == "deferred"
    (waiting,) = requests.approvals
    assert (waiting.name, waiting.arguments) == ("delete", {"path": "b"})
    assert files.deleted == []
    decisions = DeferredToolResults({waiting.call_id: decision})
    done = agent.run_sync(conversation=stopped.conversation, deferred_tool_results=decisions)
    assert done.output == "Done."
    assert files.copied == ["a"]
    assert files.deleted == deleted
    assert results(done.conversation) == ["copied a", result]
    assert done.usage.recomputed == 0
    assert done.conversation.first_difference() is None
    check_whole(done.conversation)


def test_a_call_without_a_decision_stays_deferred() -> None:
    files = Files()
    agent = Agent(
        ScriptedEngine([call("delete", path="a") + call("delete", path="b"), say("Done.")]), tools=files.tools()
    )
    first = agent.run_sync("Go.")
    assert first.deferred is not None
    one, two = first.deferred.approvals
    second = agent.run_sync(
        conversation=first.conversation, deferred_tool_results=DeferredToolResults({two.call_id: True})
    )
    assert second.deferred is not None
    assert [request.call_id for request in second.deferred.approvals] == [one.call_id]
    third = agent.run_sync(
        conversation=first.conversation, deferred_tool_results=DeferredToolResults({one.call_id: True})
    )
    assert third.output == "Done."
    assert results(third.conversation) == ["deleted a", "deleted b"]
    assert files.deleted == ["b", "a"]


def test_a_new_prompt_goes_on_without_the_call() -> None:
    files = Files()
    agent = Agent(ScriptedEngine([TWO, say("Fine.")]), tools=files.tools())
    stopped = agent.run_sync("Go.")
    done = agent.run_sync("Never mind.", conversation=stopped.conversation)
    assert done.output == "Fine."
    assert results(done.conversation) == ["copied a", "Error: this call was not run."]
    assert files.deleted == []


def test_a_tool_may_ask_by_itself() -> None:
    @tool
    def pay(ctx: RunContext[None], amount: int) -> str:
        """Pay."""
        if amount > 10 and not ctx.tool_call_approved:
            raise ApprovalRequired("that is much", {"amount": amount})
        return f"paid {amount}"

    agent = Agent(ScriptedEngine([call("pay", amount=5) + call("pay", amount=50), say("Paid.")]), tools=[pay])
    stopped = agent.run_sync("Go.")
    assert stopped.deferred is not None
    (waiting,) = stopped.deferred.approvals
    assert (waiting.reason, waiting.metadata) == ("that is much", {"amount": 50})
    done = agent.run_sync(
        conversation=stopped.conversation, deferred_tool_results=DeferredToolResults({waiting.call_id: True})
    )
    assert results(done.conversation) == ["paid 5", "paid 50"]


def test_after_save_a_new_process_and_load(tmp_path: Path) -> None:
    files = Files()
    stopped = Agent(ScriptedEngine([TWO]), tools=files.tools()).run_sync("Go.", save_to=tmp_path / "talk.json")
    assert stopped.deferred is not None
    call_id = stopped.deferred.approvals[0].call_id
    code = f"""
        from agentloop.agent import Agent, DeferredToolResults
        from agentloop.conversation import Conversation
        from agentloop.testing import ScriptedEngine, say
        from agentloop.tools import Tool

        def delete(path: str) -> str:
            "Delete a file."
            return "deleted " + path

        engine = ScriptedEngine([say("Done.")])
        conversation = Conversation.load({str(tmp_path / "talk.json")!r}, engine)
        agent = Agent(engine, tools=[Tool(delete, requires_approval=True)])
        decisions = DeferredToolResults({{{call_id!r}: True}})
        result = agent.run_sync(conversation=conversation, deferred_tool_results=decisions)
        print(result.output, [m["content"] for m in result.messages if m["role"] == "tool"])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stderr, done.stdout) == ("", "Done. ['copied a', 'deleted b']\n")


def test_calls_that_a_killed_process_left_are_run(tmp_path: Path) -> None:
    """The file that is written before the tools run is all that such a process leaves."""
    path = tmp_path / "talk.json"
    engine = ScriptedEngine([call("add", a=1, b=2)])
    seen: list[str] = []

    def look(a: int, b: int) -> int:
        """Add, and look at the file."""
        seen.append(path.read_text())
        return a + b

    killed = Agent(engine, tools=[Tool(look, name="add")])
    with pytest.raises(AssertionError, match="no reply number 2"):
        killed.run_sync("Go.", save_to=path)
    path.write_text(seen[0])
    fresh = ScriptedEngine([say("3")])
    loaded = Conversation.load(path, fresh)
    assert len(loaded.open_calls) == 1
    result = Agent(fresh, tools=[add]).run_sync(conversation=loaded)
    assert result.output == "3"
    assert results(loaded) == ["3"]
