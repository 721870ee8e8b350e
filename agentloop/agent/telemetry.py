"""Spans of runs for OpenTelemetry, by its conventions for generative AI.

    invoke_agent NAME           a run; `invoke_workflow best_of` around the runs of `best_of`
    ├── chat MODEL              a model turn
    ├── compact                 the history was made shorter
    └── execute_tool NAME       a tool; current while it runs, so that what it does, another agent's run too, lies below

Names and attributes follow https://github.com/open-telemetry/semantic-conventions-genai (all kinds are INTERNAL: the
model lives in the process); what they have no word for is under `agentloop.`. Nothing is patched and nothing global is
set: an agent makes spans when its `instrument` says so, or when it has no say of its own and is run by one that does.

What people, models and tools wrote, messages of exceptions included, is recorded with `include_content` only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ..conversation import TurnReply
from ..exceptions import DecodeCancelled, MissingExtra, RunCancelled
from ..limits import TurnUsage
from ..tools import ToolEvent, ToolResult
from .telemetry_content import definitions_json, finish_reason, message_json, messages_json, plain_json, system_json

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

    from .result import RunResult
    from .run import Run

__all__ = [
    "Instrument",
    "InstrumentationSettings",
    "RunSpans",
    "ToolSpans",
    "chat_span",
    "compact_span",
    "settings_for",
    "workflow_span",
]

PROVIDER = "agentloop"

_inherited: ContextVar[InstrumentationSettings | None] = ContextVar("agentloop_instrumentation", default=None)


class InstrumentationSettings:
    """Where spans go and what they hold: `Agent(instrument=InstrumentationSettings(...))`.

    `tracer_provider`: None takes the global one of OpenTelemetry. `include_content` puts prompts, replies, arguments,
    results and messages of exceptions into the spans. Raises MissingExtra where `opentelemetry-api` is not installed.
    """

    def __init__(self, *, tracer_provider: TracerProvider | None = None, include_content: bool = False) -> None:
        try:
            from opentelemetry.trace import get_tracer
        except ImportError as error:
            raise MissingExtra("otel", "instrument") from error
        self.include_content = include_content
        self.tracer = get_tracer("agentloop", tracer_provider=tracer_provider)

    def __repr__(self) -> str:
        return f"InstrumentationSettings(include_content={self.include_content})"


Instrument = InstrumentationSettings | bool | None
"""True for `InstrumentationSettings()`; None: as the run that this one is part of, if it is part of one."""


def settings_for(instrument: Instrument) -> InstrumentationSettings | None:
    """The settings that hold for a run that begins here; None for no spans."""
    if instrument is None:
        return _inherited.get()
    if isinstance(instrument, bool):
        return InstrumentationSettings() if instrument else None
    return instrument


class RunSpans:
    """The spans of one run."""

    def __init__(self, settings: InstrumentationSettings, agent: str | None) -> None:
        self.settings = settings
        self.agent: dict[str, Any] = {} if agent is None else {"gen_ai.agent.name": agent}
        self._turns: list[TurnUsage] = []
        self._compacted = False
        self._root: Span | None = None

    @contextmanager
    def invoke(self, run: Run) -> Iterator[None]:
        """The span of the run; current inside."""
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": PROVIDER,
            **self.agent,
        }
        if run.started is not None:
            attributes["gen_ai.request.model"] = run.started.engine.name
        name = " ".join(["invoke_agent", *self.agent.values()])
        token = _inherited.set(self.settings)
        try:
            with _span(self.settings, name, attributes) as span:
                self._root = span
                try:
                    yield
                finally:
                    self._finish(span, run)
        finally:
            _inherited.reset(token)

    def ended(self, result: RunResult[Any]) -> None:
        """The run has this result."""
        span = self._root
        if span is None or not span.is_recording():
            return
        span.set_attribute("gen_ai.response.finish_reasons", [finish_reason(result.finish_reason, False)])
        if result.deferred is not None:
            span.set_attribute("agentloop.deferred_calls", len(result.deferred.approvals))
        elif self.settings.include_content and result.messages:
            span.set_attribute("gen_ai.output.messages", messages_json(result.messages[-1:]))

    def _finish(self, span: Span, run: Run) -> None:
        if not span.is_recording():
            return
        span.set_attributes(_usage(self._turns))
        span.set_attributes({"agentloop.requests": len(self._turns), "agentloop.steps": run.step})
        if run.started is None:
            return
        span.set_attribute("gen_ai.request.model", run.started.engine.name)
        if self.settings.include_content:
            span.set_attributes(system_json(run.started.messages))
            if run.prompt is not None:
                span.set_attribute("gen_ai.input.messages", message_json("user", run.prompt))

    @contextmanager
    def chat(self, run: Run, max_tokens: int | None) -> Iterator[list[TurnReply]]:
        """The span of a model turn; the caller puts the reply into the list that it gets."""
        conversation = run.conversation
        turns = conversation.usage.turns
        before, model = len(turns), conversation.engine.name
        sampling, thinking = run.sampling or conversation.sampling, conversation.thinking
        asked = {
            "gen_ai.request.max_tokens": max_tokens,
            "gen_ai.request.temperature": float(sampling.temperature),
            "gen_ai.request.top_p": sampling.top_p if sampling.top_p < 1 else None,
            "gen_ai.request.top_k": sampling.top_k or None,
            "gen_ai.request.seed": sampling.seed,
            "gen_ai.request.presence_penalty": sampling.presence_penalty or None,
            "gen_ai.request.frequency_penalty": sampling.frequency_penalty or None,
            "gen_ai.request.reasoning.level": thinking.effort if thinking.enabled else "none",
            "gen_ai.conversation.compacted": self._compacted or None,
        }
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.request.model": model,
            "gen_ai.response.model": model,
            "gen_ai.output.type": "text" if run.output is None else "json",
            **self.agent,
            **{name: value for name, value in asked.items() if value is not None},
            "agentloop.step": run.step,
        }
        replies: list[TurnReply] = []
        with _span(self.settings, f"chat {model}", attributes) as span:
            if self.settings.include_content and span.is_recording():
                span.set_attributes(system_json(conversation.messages))
                span.set_attribute("gen_ai.input.messages", messages_json(conversation.messages))
                span.set_attribute("gen_ai.tool.definitions", definitions_json(conversation.known_tools))
            try:
                yield replies
            finally:
                spent = turns[before:]
                self._turns += spent
                if span.is_recording() and spent:
                    reply = replies[0] if replies else None
                    self._told(span, spent, reply)

    def _told(self, span: Span, spent: Sequence[TurnUsage], reply: TurnReply | None) -> None:
        last = spent[-1]
        span.set_attributes(_usage(spent))
        reason = finish_reason(last.finish_reason, reply is not None and bool(reply.calls))
        span.set_attribute("gen_ai.response.finish_reasons", [reason])
        span.set_attributes(
            {
                "agentloop.prefill_seconds": sum(t.prefill_s for t in spent),
                "agentloop.draft_seconds": sum(t.draft_s for t in spent),
                "agentloop.decode_seconds": sum(t.decode_s for t in spent),
                "agentloop.tokens_per_second": last.tokens_per_second,
            }
        )
        if reply is not None and self.settings.include_content:
            span.set_attribute("gen_ai.output.messages", messages_json([reply.message], reason))

    @contextmanager
    def compaction(self) -> Iterator[dict[str, Any]]:
        """The span of a compaction; the caller fills in attributes."""
        facts: dict[str, Any] = {}
        with _span(self.settings, "compact", self.agent) as span:
            yield facts
            self._compacted = True
            span.set_attributes(facts)


class ToolSpans:
    """The spans of the calls of one reply. `heard` is called in the task of the call that an event is about: a span is
    current in that task while its tool runs."""

    def __init__(self, spans: RunSpans, run: Run, ids: Sequence[str]) -> None:
        self._spans = spans
        self._run = run
        self._ids = ids
        self._open: dict[int, tuple[Span, Any]] = {}

    def heard(self, event: ToolEvent) -> None:
        """Begin or end the span of a call."""
        from opentelemetry import context, trace

        index = event.call_index
        if event.kind == "started":
            if index in self._open:  # it asked for a person's approval while it ran, and got it
                self._end(index, {"agentloop.tool.outcome": "approval"})
            span = self._start(event)
            self._open[index] = span, context.attach(trace.set_span_in_context(span))
        elif event.kind == "finished" and event.result is not None:
            if index not in self._open:  # it was not run: a span without length says why
                self._open[index] = self._start(event), None
            self._finished(index, event.result)

    def cut(self) -> None:
        """End what is still open: the run was cancelled, or failed."""
        for index in list(self._open):
            span, _ = self._open.pop(index)
            _fail(span, "cancelled")
            span.end()

    def _start(self, event: ToolEvent) -> Span:
        tool = self._run.tools.get(event.call.name)
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": event.call.name,
            "gen_ai.tool.call.id": self._ids[event.call_index],
            "gen_ai.tool.type": "function",
            **self._spans.agent,
        }
        if self._spans.settings.include_content:
            attributes["gen_ai.tool.call.arguments"] = plain_json(event.call.arguments)
            if tool is not None:
                attributes["gen_ai.tool.description"] = tool.description
        name = f"execute_tool {event.call.name}"
        return self._spans.settings.tracer.start_span(name, attributes=attributes)

    def _finished(self, index: int, result: ToolResult) -> None:
        span = self._open[index][0]
        if result.outcome in ("retry", "failed", "error", "timeout"):
            kind: str = "timeout" if result.outcome == "timeout" else result.call.status
            if kind == "ok":
                kind = "error" if result.exception is None else _name_of(result.exception)
            _fail(span, kind, result.exception, result.content if self._spans.settings.include_content else None)
        attributes: dict[str, Any] = {"agentloop.tool.outcome": result.outcome}
        if self._spans.settings.include_content and result.outcome != "deferred":
            attributes["gen_ai.tool.call.result"] = result.content
        self._end(index, attributes)

    def _end(self, index: int, attributes: Mapping[str, Any]) -> None:
        from opentelemetry import context

        span, token = self._open.pop(index)
        if token is not None:
            context.detach(token)
        span.set_attributes(dict(attributes))
        span.end()


def chat_span(run: Run, max_tokens: int | None) -> AbstractContextManager[list[TurnReply]]:
    """The span of a model turn of `run`, or nothing; the caller puts the reply into the list."""
    return nullcontext([]) if run.spans is None else run.spans.chat(run, max_tokens)


def compact_span(run: Run) -> AbstractContextManager[dict[str, Any]]:
    """The span of a compaction, or nothing; the caller fills in attributes."""
    return nullcontext({}) if run.spans is None else run.spans.compaction()


def workflow_span(instrument: Instrument, name: str, agent: str | None, n: int) -> AbstractContextManager[Any]:
    """The span around `n` runs for one answer, current inside; nothing without settings."""
    settings = settings_for(instrument)
    if settings is None:
        return nullcontext()
    attributes: dict[str, Any] = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.request.choice.count": n}
    if agent is not None:
        attributes["gen_ai.agent.name"] = agent
    return _span(settings, f"invoke_workflow {name}", attributes)


@contextmanager
def _span(settings: InstrumentationSettings, name: str, attributes: Mapping[str, Any]) -> Iterator[Span]:
    """A span that is current inside and has the status of how the block is left."""
    from opentelemetry.trace import use_span

    span = settings.tracer.start_span(name, attributes=dict(attributes))
    try:
        with use_span(span, record_exception=False, set_status_on_exception=False):
            yield span
    except BaseException as error:
        if not isinstance(error, GeneratorExit):
            text = str(error) if settings.include_content else None
            _fail(span, _name_of(error), error, text)
        raise
    finally:
        span.end()


def _name_of(error: BaseException) -> str:
    if isinstance(error, (RunCancelled, DecodeCancelled, KeyboardInterrupt, asyncio.CancelledError)):
        return "cancelled"
    return type(error).__name__


def _fail(span: Span, kind: str, error: BaseException | None = None, text: str | None = None) -> None:
    """Status and error.type; the words of an error are content."""
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, text))
    if error is not None:
        attributes = {"exception.type": type(error).__name__}
        if text is not None:
            attributes["exception.message"] = text
        span.add_event("exception", attributes)


def _usage(turns: Sequence[TurnUsage]) -> dict[str, int]:
    """Input tokens are the whole prompt, those in the live state included, as the conventions have it."""
    sums = {name: sum(getattr(t, name) for t in turns) for name in ("reused", "new", "recomputed", "generated")}
    drafted = sum(sum(t.drafted.values()) for t in turns)
    accepted = sum(sum(t.accepted.values()) for t in turns)
    return {
        "gen_ai.usage.input_tokens": sums["reused"] + sums["new"],
        "gen_ai.usage.output_tokens": sums["generated"],
        "gen_ai.usage.cache_read.input_tokens": sums["reused"],
        "gen_ai.usage.reasoning.output_tokens": sum(t.reasoning for t in turns),
        "agentloop.usage.new_tokens": sums["new"],
        "agentloop.usage.recomputed_tokens": sums["recomputed"],
        "agentloop.usage.drafted_tokens": drafted,
        "agentloop.usage.accepted_tokens": accepted,
    }
