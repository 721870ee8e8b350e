"""Spans of runs: their tree, names, attributes and statuses, as the SDK's in-memory exporter gets them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import anyio
import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk (extra `test`)")

from opentelemetry.trace import SpanKind, get_current_span

from agentloop.agent import Agent, InstrumentationSettings
from agentloop.engine import Engine
from agentloop.exceptions import (
    ModelRetry,
    ToolFailed,
    UnexpectedModelBehavior,
)
from agentloop.testing import ScriptedEngine, call, say, think
from agentloop.tools import Tool, tool
from tests.agent_tools import add, failing, wait
from tests.otel_spans import Spans, error_of, spans

__all__ = ["spans"]


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
        "otel instrument needs packages that are not installed; in agentloop's source folder: pip install '.[otel]'\n"
    )


def test_true_is_the_global_provider() -> None:
    assert isinstance(Agent(instrument=True).instrument, InstrumentationSettings)
    assert repr(InstrumentationSettings()) == "InstrumentationSettings(include_content=False)"
