"""Spans of runs: their tree, names, attributes and statuses, as the SDK's in-memory exporter gets them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk (extra `test`)")

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from agentloop.agent import Agent, DeferredToolRequests, DeferredToolResults, InstrumentationSettings
from agentloop.context import RunContext
from agentloop.conversation import Compaction
from agentloop.engine import Engine
from agentloop.engine.seam import CancelToken
from agentloop.exceptions import (
    ApprovalRequired,
    ModelRetry,
    RunCancelled,
    ToolFailed,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
)
from agentloop.limits import UsageLimits
from agentloop.testing import ScriptedEngine, call, say, think
from agentloop.tools import Tool, ToolApproved, tool
from tests.agent_tools import add, failing, wait


class Spans:
    """A provider of its own for one test, and the finished spans by name."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def settings(self, *, include_content: bool = False) -> InstrumentationSettings:
        return InstrumentationSettings(tracer_provider=self.provider, include_content=include_content)

    @property
    def all(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span

    def tree(self) -> list[str]:
        """Names, indented by depth, in the order in which they began."""
        ordered = sorted(self.all, key=lambda s: s.start_time or 0)

        def below(parent: int | None, depth: int) -> Iterator[str]:
            for span in ordered:
                if (span.parent.span_id if span.parent else None) == parent:
                    yield "  " * depth + span.name
                    yield from below(span.context.span_id, depth + 1)

        return list(below(None, 0))

    def text(self) -> str:
        return "\n".join(span.to_json() for span in self.all)


@pytest.fixture
def spans() -> Spans:
    return Spans()


def error_of(span: ReadableSpan) -> Any:
    """error.type, checked against the status."""
    kind = dict(span.attributes or {}).get("error.type")
    assert (span.status.status_code is StatusCode.ERROR) == (kind is not None)
    return kind


def test_a_run_with_a_tool(spans: Spans) -> None:
    engine = ScriptedEngine([think("Sum.") + call("add", a=2, b=2), say("It is 4.")])
    agent = Agent(engine, name="adder", tools=[add], max_tokens=100, instrument=spans.settings())
    result = agent.run_sync("2 + 2?")
    model = engine.name
    tree = ["invoke_agent adder", f"  chat {model}", "  execute_tool add", f"  chat {model}"]
    assert spans.tree() == tree
    assert {span.kind for span in spans.all} == {SpanKind.INTERNAL}
    assert [error_of(span) for span in spans.all] == [None] * 4
    first, second = spans.named(f"chat {model}")
    turn = result.usage.turns[0]
    got = dict(first.attributes or {})
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "agentloop",
        "gen_ai.request.model": model,
        "gen_ai.response.model": model,
        "gen_ai.agent.name": "adder",
        "gen_ai.output.type": "text",
        "gen_ai.request.max_tokens": 100,
        "gen_ai.request.temperature": 0.0,
        "gen_ai.request.reasoning.level": "low",
        "gen_ai.response.finish_reasons": ("tool_call",),
        "gen_ai.usage.input_tokens": turn.reused + turn.new,
        "gen_ai.usage.output_tokens": turn.generated,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.reasoning.output_tokens": turn.reasoning,
        "agentloop.usage.recomputed_tokens": 0,
        "agentloop.step": 1,
    }
    assert {name: got.get(name) for name in expected} == expected
    later = dict(second.attributes or {})
    assert later["gen_ai.response.finish_reasons"] == ("stop",)
    assert later["gen_ai.usage.cache_read.input_tokens"] == result.usage.turns[1].reused > 0
    did = dict(spans.one("execute_tool add").attributes or {})
    assert did == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.call.id": "call_0",
        "gen_ai.tool.type": "function",
        "gen_ai.agent.name": "adder",
        "agentloop.tool.outcome": "ok",
    }
    root = dict(spans.one("invoke_agent adder").attributes or {})
    assert root["gen_ai.usage.output_tokens"] == result.usage.generated
    assert root["gen_ai.usage.input_tokens"] == result.usage.reused + result.usage.new
    assert (root["agentloop.requests"], root["gen_ai.request.model"]) == (2, model)


def test_names_are_those_of_the_conventions(spans: Spans) -> None:
    """Of the package of names that comes with the SDK; the one that is newer than it is named here."""
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

    known = {value for value in vars(gen_ai_attributes).values() if isinstance(value, str)}
    known |= {"gen_ai.request.reasoning.level"}
    agent = Agent(
        ScriptedEngine([call("add", a=1, b=2), say("3")]),
        name="n",
        tools=[add],
        instructions="i",
        instrument=spans.settings(include_content=True),
    )
    agent.run_sync("?")
    names = {name for span in spans.all for name in (span.attributes or {})}
    assert {n for n in names if not n.startswith(("agentloop.", "error."))} <= known
    assert len(names) > 20


SECRET = "s3cret"


@tool
def leak(text: str) -> str:
    """Raise."""
    raise ToolFailed(f"{text} {SECRET}")


def content_run(settings: InstrumentationSettings) -> None:
    replies = [think(SECRET) + say(SECRET) + call("leak", text=SECRET), call("nothing", a=SECRET), think(SECRET)]
    agent = Agent(
        ScriptedEngine(replies), tools=[leak], instructions=SECRET, retries=0, instrument=settings, max_tokens=200
    )
    with pytest.raises(UnexpectedModelBehavior):
        agent.run_sync(SECRET)


def test_no_content_unless_asked_for(spans: Spans) -> None:
    content_run(spans.settings())
    assert len(spans.all) > 3
    assert SECRET not in spans.text()


def test_content_when_asked_for(spans: Spans) -> None:
    content_run(spans.settings(include_content=True))
    chat = next(span for span in spans.all if span.name.startswith("chat"))
    got = dict(chat.attributes or {})
    assert json.loads(str(got["gen_ai.system_instructions"])) == [{"type": "text", "content": SECRET}]
    asked = [{"role": "user", "parts": [{"type": "text", "content": SECRET}]}]
    assert json.loads(str(got["gen_ai.input.messages"])) == asked
    (said,) = json.loads(str(got["gen_ai.output.messages"]))
    assert said["finish_reason"] == "tool_call"
    kinds = [part["type"] for part in said["parts"]]
    assert kinds == ["reasoning", "text", "tool_call"]
    assert said["parts"][2]["arguments"] == {"text": SECRET}
    (definition,) = json.loads(str(got["gen_ai.tool.definitions"]))
    assert (definition["type"], definition["name"]) == ("function", "leak")
    did = spans.one("execute_tool leak")
    attributes = dict(did.attributes or {})
    assert json.loads(str(attributes["gen_ai.tool.call.arguments"])) == {"text": SECRET}
    assert SECRET in str(attributes["gen_ai.tool.call.result"])
    assert SECRET in str(did.status.description)


def test_outcomes_of_tools(spans: Spans) -> None:
    tools = [
        failing(ToolFailed("no"), "failed"),
        failing(ModelRetry("again"), "again"),
        failing(ValueError("bug"), "bug"),
        Tool(wait.function, name="slow", timeout=0.01),
    ]
    calls = call("failed") + call("again") + call("bug") + call("slow", seconds=5, name="x") + call("none")
    engine = ScriptedEngine([calls, say("done")])
    Agent(engine, tools=tools, instrument=spans.settings()).run_sync("?")
    told = {s.name: (error_of(s), (s.attributes or {}).get("agentloop.tool.outcome")) for s in spans.all}
    assert told["execute_tool failed"] == ("ToolFailed", "failed")
    assert told["execute_tool again"] == ("ModelRetry", "retry")
    assert told["execute_tool bug"] == ("ValueError", "error")
    assert told["execute_tool slow"] == ("timeout", "timeout")
    assert told["execute_tool none"] == ("unknown_tool", "retry")
    assert told["invoke_agent"] == (None, None)


def test_parallel_tools_and_what_they_do(spans: Spans) -> None:
    """A span that a tool makes lies below its own call, in threads and tasks."""
    tracer = spans.provider.get_tracer("mine")

    @tool
    def in_thread(name: str) -> str:
        """Work."""
        with tracer.start_as_current_span(f"inner {name}"):
            return name

    @tool
    async def in_task(name: str) -> str:
        """Work."""
        with tracer.start_as_current_span(f"inner {name}"):
            await anyio.sleep(0.01)
            return name

    calls = call("in_thread", name="a") + call("in_task", name="b") + call("in_thread", name="c")
    agent = Agent(ScriptedEngine([calls, say("ok")]), tools=[in_thread, in_task], instrument=spans.settings())
    agent.run_sync("?")
    ids = {}
    for name in "abc":
        inner = spans.one(f"inner {name}")
        (outer,) = [s for s in spans.all if inner.parent and s.context.span_id == inner.parent.span_id]
        ids[name] = (outer.name, (outer.attributes or {})["gen_ai.tool.call.id"])
    assert ids == {
        "a": ("execute_tool in_thread", "call_0"),
        "b": ("execute_tool in_task", "call_1"),
        "c": ("execute_tool in_thread", "call_2"),
    }
    assert not get_current_span().get_span_context().is_valid


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


def test_the_embedded_model(spans: Spans, embedded: Engine) -> None:
    from agentloop.tools.samples import calculator

    agent = Agent(embedded, tools=[calculator], instrument=spans.settings())
    result = agent.run_sync("What is 12 * 7?")
    result.conversation.close()
    chats = spans.named(f"chat {embedded.name}")
    assert len(chats) == result.usage.requests >= 2
    assert [int((s.attributes or {})["gen_ai.usage.output_tokens"]) for s in chats] == [  # type: ignore[arg-type]
        turn.generated for turn in result.usage.turns
    ]
    seconds = [float((s.attributes or {})["agentloop.decode_seconds"]) for s in chats]  # type: ignore[arg-type]
    assert min(seconds) > 0
    assert spans.named("execute_tool calculator")


@pytest.fixture(scope="module")
def embedded() -> Iterator[Engine]:
    with Engine.load(n_ctx=2048, threads=1) as engine:
        yield engine


def test_off_is_off() -> None:
    """Without `instrument` nothing of OpenTelemetry is imported; without the package, asking for it says what to do."""
    code = (
        "import sys\n"
        "from agentloop import Agent\n"
        "from agentloop.testing import ScriptedEngine, say\n"
        "Agent(ScriptedEngine([say('a')])).run_sync('?')\n"
        "assert not [m for m in sys.modules if m.startswith('opentelemetry')]\n"
        "sys.modules['opentelemetry'] = None\n"
        "from agentloop.exceptions import MissingExtra\n"
        "try:\n    Agent(instrument=True)\n"
        "except MissingExtra as error:\n    print(error.extra, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        'otel instrument needs packages that are not installed; run: pip install "agentloop[otel]"\n'
    )


def test_true_is_the_global_provider() -> None:
    assert isinstance(Agent(instrument=True).instrument, InstrumentationSettings)
    assert repr(InstrumentationSettings()) == "InstrumentationSettings(include_content=False)"
