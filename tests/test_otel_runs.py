"""Spans of runs inside runs, and of runs that are stopped: sub-agents, limits, cancels, approvals, compaction."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk (extra `test`)")


from agentloop.agent import Agent, DeferredToolRequests, DeferredToolResults
from agentloop.context import RunContext
from agentloop.conversation import Compaction
from agentloop.engine.seam import CancelToken
from agentloop.exceptions import (
    ApprovalRequired,
    RunCancelled,
    UsageLimitExceeded,
)
from agentloop.limits import UsageLimits
from agentloop.testing import ScriptedEngine, call, say
from agentloop.tools import Tool, ToolApproved, tool
from tests.agent_tools import add, wait
from tests.otel_spans import Spans, error_of, spans

__all__ = ["spans"]


def test_a_run_lies_below_the_callers_span(spans: Spans) -> None:
    agent = Agent(ScriptedEngine([say("a"), say("b")]), instrument=spans.settings())

    async def streamed() -> None:
        async with agent.stream("?") as run:
            async for _ in run:
                pass

    with spans.provider.get_tracer("mine").start_as_current_span("request"):
        agent.run_sync("?")
        anyio.run(streamed)
    chat = f"    chat {agent.engine.name}"
    assert spans.tree() == ["request", "  invoke_agent", chat, "  invoke_agent", chat]


@pytest.mark.parametrize("fork", [False, True])
def test_sub_agents(spans: Spans, fork: bool) -> None:
    """An agent without a say of its own makes spans when a run that does calls it; False makes none."""
    engine = ScriptedEngine([call("helper", task="x"), say("sub"), say("end")])
    helper = Agent(engine, name="helper")
    boss = Agent(engine, name="boss", tools=[helper.as_tool("helper", "Helps.", fork=fork)])
    boss.instrument = spans.settings()
    boss.run_sync("?")
    chat = f"chat {engine.name}"
    assert spans.tree() == [
        "invoke_agent boss",
        f"  {chat}",
        "  execute_tool helper",
        "    invoke_agent helper",
        f"      {chat}",
        f"  {chat}",
    ]
    root = dict(spans.one("invoke_agent boss").attributes or {})
    own = [
        s for s in spans.named(chat) if s.parent and s.parent.span_id == spans.one("invoke_agent boss").context.span_id
    ]
    counted = sum(int((s.attributes or {})["gen_ai.usage.output_tokens"]) for s in own)  # type: ignore[arg-type]
    assert root["gen_ai.usage.output_tokens"] == counted

    spans.exporter.clear()
    silent = Agent(engine, instrument=False)
    engine = ScriptedEngine([call("helper", task="x"), say("sub"), say("end")])
    with silent.override(engine=engine):
        Agent(engine, tools=[silent.as_tool("helper", "Helps.")], instrument=spans.settings()).run_sync("?")
    assert len(spans.named("invoke_agent")) == 1


def test_a_sub_agent_that_a_thread_runs(spans: Spans) -> None:
    engine = ScriptedEngine([call("ask", task="x"), say("sub"), say("end")])
    helper = Agent(engine, name="helper")

    @tool
    def ask(task: str) -> str:
        """Ask the helper."""
        return helper.run_sync(task).output

    Agent(engine, tools=[ask], instrument=spans.settings()).run_sync("?")
    outer = spans.one("execute_tool ask")
    inner = spans.one("invoke_agent helper")
    assert inner.parent is not None
    assert inner.parent.span_id == outer.context.span_id


def test_best_of(spans: Spans) -> None:
    agent = Agent(ScriptedEngine(lambda _: say("4")), name="a", instrument=spans.settings())
    anyio.run(agent.best_of, "2 + 2?", 3)
    workflow = spans.one("invoke_workflow best_of")
    assert (workflow.attributes or {})["gen_ai.request.choice.count"] == 3
    runs = spans.named("invoke_agent a")
    assert [s.parent and s.parent.span_id for s in runs] == [workflow.context.span_id] * 3


def test_limits_and_cancels(spans: Spans) -> None:
    def agent(*replies: Any, **options: Any) -> Agent[Any, str]:
        return Agent(ScriptedEngine(list(replies)), tools=[add, wait], instrument=spans.settings(), **options)

    with pytest.raises(UsageLimitExceeded):
        agent(call("add", a=1, b=1), limits=UsageLimits(request_limit=1)).run_sync("?")
    assert error_of(spans.one("invoke_agent")) == "UsageLimitExceeded"
    assert error_of(spans.one("execute_tool add")) is None
    spans.exporter.clear()

    with pytest.raises(UsageLimitExceeded):
        agent(call("wait", seconds=60, name="x"), limits=UsageLimits(seconds_limit=0.3)).run_sync("?")
    assert error_of(spans.one("invoke_agent")) == "UsageLimitExceeded"
    assert error_of(spans.one("execute_tool wait")) == "cancelled"
    spans.exporter.clear()

    cancel = CancelToken()

    @tool
    def stop() -> str:
        """Cancel the run."""
        cancel.cancel()
        return "stopped"

    with pytest.raises(RunCancelled):
        Agent(
            ScriptedEngine([call("stop") + call("wait", seconds=60, name="x")]),
            tools=[stop, wait],
            instrument=spans.settings(),
        ).run_sync("?", cancel=cancel)
    assert error_of(spans.one("invoke_agent")) == "cancelled"
    assert error_of(spans.one("execute_tool wait")) == "cancelled"


def test_a_cancel_while_the_model_writes(spans: Spans) -> None:
    cancel = CancelToken()

    def script(_: str) -> Any:
        cancel.cancel()
        return say("word " * 400)

    with pytest.raises(RunCancelled):
        Agent(ScriptedEngine(script), instrument=spans.settings()).run_sync("?", cancel=cancel)
    chat = next(s for s in spans.all if s.name.startswith("chat"))
    assert error_of(chat) == "cancelled"
    assert (chat.attributes or {})["gen_ai.response.finish_reasons"] == ("error",)


def test_approvals(spans: Spans) -> None:
    @tool
    def risky(ctx: RunContext[Any], n: int) -> str:
        """Ask while it runs."""
        if not ctx.tool_call_approved:
            raise ApprovalRequired("sure?")
        return str(n)

    guarded = Tool(add.function, name="guarded", requires_approval=True)
    engine = ScriptedEngine([call("risky", n=1) + call("guarded", a=1, b=1), say("done")])
    agent = Agent(engine, tools=[risky, guarded], instrument=spans.settings())
    result = agent.run_sync("?")
    assert isinstance(result.output, DeferredToolRequests)
    told = {s.name: (error_of(s), (s.attributes or {}).get("agentloop.tool.outcome")) for s in spans.all}
    assert told["execute_tool risky"] == told["execute_tool guarded"] == (None, "deferred")
    root = dict(spans.one("invoke_agent").attributes or {})
    assert (root["agentloop.deferred_calls"], root["gen_ai.response.finish_reasons"]) == (2, ("tool_call",))
    spans.exporter.clear()

    decisions = DeferredToolResults({"call_0": ToolApproved({"n": 5}), "call_1": False})
    agent.run_sync(conversation=result.conversation, deferred_tool_results=decisions)
    outcomes = [(s.attributes or {})["agentloop.tool.outcome"] for s in spans.named("execute_tool risky")]
    assert outcomes == ["approval", "ok"]
    denied = spans.one("execute_tool guarded")
    assert (error_of(denied), (denied.attributes or {})["agentloop.tool.outcome"]) == (None, "denied")


def test_compaction(spans: Spans) -> None:
    """The summary is a span of its own; later turns say that the context is a compacted one."""
    engine = ScriptedEngine(lambda _: "Short.", n_ctx=3000)
    agent = Agent(engine, compaction=Compaction(at=0.5, keep=0), thinking=False, instrument=spans.settings())
    result = agent.run_sync("word " * 300)
    for _ in range(6):
        result = agent.run_sync("word " * 60, conversation=result.conversation)
        if spans.named("compact"):
            break
    compact = spans.one("compact")
    assert error_of(compact) is None
    facts = dict(compact.attributes or {})
    assert facts["agentloop.tokens_before"] > facts["agentloop.tokens_after"]  # type: ignore[operator]
    last = max((s for s in spans.all if s.name.startswith("chat")), key=lambda s: s.start_time or 0)
    assert (last.attributes or {})["gen_ai.conversation.compacted"] is True
