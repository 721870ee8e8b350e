"""Agent: a model, its tools and its instructions, ready to be run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Generic, Union, cast, overload

import anyio
import anyio.to_thread
from typing_extensions import TypeVar, Unpack

from ..context import RunContext
from ..conversation import Compaction, Conversation, Thinking, in_worker
from ..engine.seam import EngineLike, Sampling
from ..exceptions import AgentLoopError, RunCancelled, ToolDefinitionError
from ..limits import Usage, UsageLimits
from ..templates import Template
from ..tools import ResultCap, Tool
from ..tools.toolset import Toolset, ToolSource
from .checks import OF_AGENTS, check_conversation, check_engine, check_prompt, check_run, check_settings, tool_list
from .default_engine import default_engine
from .loop import drive
from .options import CallOptions, RunOptions, ToolOptions
from .output import OutputSpec, OutputValidator
from .result import DeferredToolResults, RunResult
from .run import Approve, Run
from .stream import AgentRun, open_run
from .team import BestOf, Score, agent_tool, answers_from, pick
from .telemetry import Instrument, InstrumentationSettings, RunSpans, settings_for, workflow_span

__all__ = ["Agent"]

Deps = TypeVar("Deps", default=Any)
Output = TypeVar("Output", default=str)

Instructions = Union[str, Callable[[RunContext[Any]], Any], None]  # noqa: UP007
"""Text, or a function of the run's context that returns it, sync or async."""


class Agent(Generic[Deps, Output]):
    """`engine` decodes; None loads the embedded model when it is first needed, once for all agents.

    `tools` are `Tool`s, plain functions, or toolsets. `instructions` become the system message of each conversation
    that the agent starts. `thinking` is a `Thinking`, an effort's name, or False. `limits` bound each run; `max_tokens`
    bounds one reply. `retries`: how often in a row the model may leave a reply empty or call what does not exist; it is
    also the `max_retries` of tools given as plain functions. `approve` decides on calls that need approval; without it
    a run stops with DeferredToolRequests. `result_cap` bounds a tool's result, in tokens; a `ResultCap` with a folder
    keeps the whole text there. `tool_timeout` in seconds holds for tools without one of their own. `compaction`
    lets a run make its history shorter when the context fills up; without it a full context is an error. `output_type`
    is what answers are: text, or a type with a JSON schema, to which they are held while they are written, behind free
    reasoning, and by which they are validated. `strict`: every call is held to its tool's schema while it is written,
    not only those of tools that are `strict` themselves. `instrument`: make spans for OpenTelemetry (True, or an
    `InstrumentationSettings`); None makes them where a run that does calls this agent, False never.
    """

    def __init__(
        self,
        engine: EngineLike | None = None,
        *,
        tools: Iterable[ToolSource] = (),
        instructions: Instructions = None,
        thinking: Thinking | str | bool | None = None,
        sampling: Sampling | None = None,
        limits: UsageLimits | None = None,
        max_tokens: int | None = None,
        retries: int = 2,
        approve: Approve | None = None,
        result_cap: ResultCap | int | None = None,
        tool_timeout: float | None = None,
        compaction: Compaction | None = None,
        template: Template | None = None,
        deps_type: type[Deps] | None = None,
        output_type: type[Output] | None = None,
        strict: bool = False,
        name: str | None = None,
        instrument: Instrument = None,
    ) -> None:
        check_engine(engine)
        self.name = name
        self.instrument: Instrument = InstrumentationSettings() if instrument is True else instrument
        self.thinking = Thinking.of(thinking)
        self.sampling = sampling
        self.limits = UsageLimits() if limits is None else limits
        self.max_tokens = max_tokens
        self.retries = retries
        self.approve = approve
        self.result_cap = result_cap
        self.tool_timeout = tool_timeout
        self.compaction = compaction
        self.template = template
        self.deps_type = deps_type
        self.output_type = output_type
        self.strict = strict
        check_settings({setting: getattr(self, setting) for setting in OF_AGENTS})
        self._output = None if output_type is None or output_type is str else OutputSpec(output_type)
        self._validators: list[OutputValidator] = []
        self._engine = engine
        self._instructions: list[Instructions] = [instructions]
        self._sources: list[ToolSource] = []
        self._overrides: ContextVar[dict[str, Any]] = ContextVar("agentloop_overrides")
        for tool in tool_list(tools):
            self._add(self._made(tool))

    # -- what it is made of

    @property
    def engine(self) -> EngineLike:
        """The engine; the embedded model is loaded when it was given none. Blocks while it loads."""
        engine = self._overridden("engine", self._engine)
        return engine if engine is not None else default_engine()

    @property
    def tools(self) -> list[ToolSource]:
        """The tools and toolsets."""
        return list(self._overridden("tools", self._sources))

    @overload
    def tool(self, function: Callable[..., Any], /) -> Tool: ...

    @overload
    def tool(self, /, **options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], Tool]: ...

    def tool(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Decorator: the function becomes a tool of this agent. Its first parameter receives the RunContext."""
        return self._decorate(function, {"takes_context": True, **options})

    @overload
    def tool_plain(self, function: Callable[..., Any], /) -> Tool: ...

    @overload
    def tool_plain(self, /, **options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], Tool]: ...

    def tool_plain(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Decorator: the function becomes a tool of this agent. It receives no RunContext."""
        return self._decorate(function, {"takes_context": False, **options})

    def instructions(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator: what the function returns is added to the system message of conversations that start from now on.
        It may take the RunContext, and may be async."""
        self._instructions.append(function)
        return function

    def output_validator(self, function: OutputValidator) -> OutputValidator:
        """Decorator: the function gets each answer (or the RunContext and the answer) and returns it, changed or not;
        ModelRetry asks the model for another one. It may be async."""
        self._validators.append(function)
        return function

    @contextmanager
    def override(
        self,
        *,
        engine: EngineLike | None = None,
        tools: Iterable[ToolSource] | None = None,
        deps: Any = None,
        instructions: Instructions = None,
    ) -> Iterator[None]:
        """Inside the block, runs of this agent use these instead of its own: for tests. Other tasks keep theirs."""
        changes: dict[str, Any] = {"engine": engine, "deps": deps, "instructions": instructions}
        if tools is not None:
            changes["tools"] = [self._made(tool) for tool in tool_list(tools)]
        check_engine(engine)
        changes = {name: value for name, value in changes.items() if value is not None}
        token = self._overrides.set({**self._overrides.get({}), **changes})
        try:
            yield
        finally:
            self._overrides.reset(token)

    # -- running

    async def run(
        self, prompt: str | list[Any] | None = None, *, deps: Deps | None = None, **options: Unpack[RunOptions]
    ) -> RunResult[Output]:
        """Run until there is an answer, and return it. See `RunOptions` for what can be set for one run.

        `prompt=None` goes on with a conversation that waits: for tool results, for decisions, or for its answer.
        Raises UsageLimitExceeded, UnexpectedModelBehavior, RunCancelled and ConversationFull, each with the
        conversation, which can go on.
        """
        return cast(RunResult[Output], await drive(self._new_run(prompt, deps, options)))

    def run_sync(
        self, prompt: str | list[Any] | None = None, *, deps: Deps | None = None, **options: Unpack[RunOptions]
    ) -> RunResult[Output]:
        """As `run`, from code that is not async. Ctrl-C ends the run cleanly and raises RunCancelled."""
        run = self._new_run(prompt, deps, options)
        try:
            return cast(RunResult[Output], anyio.run(drive, run))
        except KeyboardInterrupt:
            raise RunCancelled("interrupted from the keyboard", run.started) from None
        except RuntimeError as error:
            if "Already running" in str(error):
                raise AgentLoopError(
                    "run_sync was called on a running event loop; use `await agent.run(...)`"
                ) from None
            raise

    def stream(
        self, prompt: str | list[Any] | None = None, *, deps: Deps | None = None, **options: Unpack[RunOptions]
    ) -> AbstractAsyncContextManager[AgentRun]:
        """`async with agent.stream(prompt) as run: async for event in run: ...`, then `run.result`. Leaving the block
        early cancels the run."""
        return open_run(self._new_run(prompt, deps, options))

    async def best_of(
        self,
        prompt: str | list[Any],
        n: int,
        *,
        score: Score | None = None,
        deps: Deps | None = None,
        conversation: Conversation | None = None,
        sampling: Sampling | None = None,
    ) -> BestOf:
        """`n` answers to one prompt, and the best of them: the one with the largest `score`, or else the one given most
        often. The prompt is decoded once; each answer is a run on a fork, with its own seed, tools included. A run that
        fails is left out, unless all fail. `conversation` stays as it was.
        """
        if n < 1:
            raise ValueError(f"n must be >= 1, not {n}")
        check_conversation(conversation)
        deps = self._overridden("deps", deps)
        if conversation is None:
            start = await self.conversation(deps=deps)
        else:
            start = await anyio.to_thread.run_sync(conversation.fork)
        with workflow_span(self.instrument, "best_of", self.name, n):
            start.user(prompt)
            paid = await in_worker(lambda cancel, emit: start.prefill(cancel=cancel, on_event=emit))
            results = await answers_from(self, start, n, deps=deps, sampling=sampling)
            start.close()
        best, scores = await pick(results, score)
        usage = sum((result.usage for result in results), Usage([paid]))
        return BestOf(results[best], tuple(results), scores, usage, paid.new * (len(results) - 1))

    def as_tool(self, name: str, description: str, *, fork: bool = False, **options: Unpack[CallOptions]) -> Tool:
        """This agent as a tool of another one: the tool's argument `task` is the prompt, the answer its result.

        With `fork`, it starts from the live state of the conversation that calls it, knows all that was said there,
        and decodes nothing of it again (both agents need the same engine); the caller's conversation does not see its
        steps. Its usage is added to the caller's. `options` are those of a tool.
        """
        return agent_tool(self, name, description, fork=fork, **options)

    async def conversation(self, *, deps: Deps | None = None) -> Conversation:
        """A new conversation with this agent's instructions and tools, for runs to come."""
        run = self._new_run(None, deps, {})
        async with run.open_toolsets():
            return await run.make_conversation()

    # -- below

    def _new_run(self, prompt: str | list[Any] | None, deps: Deps | None, options: RunOptions) -> Run:
        check_run(options, RunOptions.__annotations__)
        check_prompt(prompt)
        decisions = options.get("deferred_tool_results") or DeferredToolResults()
        run = Run(
            self._start,
            prompt,
            self.tools,
            deps=self._overridden("deps", deps),
            limits=options.get("limits") or self.limits,
            usage=options.get("usage") or Usage(),
            on_event=options.get("on_event"),
            sampling=options.get("sampling") or self.sampling,
            max_tokens=options.get("max_tokens") or self.max_tokens,
            retries=self.retries,
            approve=options.get("approve") or self.approve,
            decisions=decisions,
            result_cap=self.result_cap,
            tool_timeout=self.tool_timeout,
            compaction=self.compaction,
            strict=self.strict,
            output=self._output,
            validators=tuple(self._validators),
            save_to=options.get("save_to"),
            started=options.get("conversation"),
        )
        if (cancel := options.get("cancel")) is not None:
            run.cancel = cancel
        if (settings := settings_for(self.instrument)) is not None:
            run.spans = RunSpans(settings, self.name)
        return run

    async def _start(self, run: Run) -> Conversation:
        if run.started is not None:
            return run.started
        engine = await anyio.to_thread.run_sync(lambda: self.engine)
        text = await self._system_message(RunContext(deps=run.deps, usage=run.usage, limits=run.limits))
        schemas = [tool.schema for tool in run.tools.values()]
        make = partial(
            Conversation,
            engine,
            instructions=text,
            tools=schemas,
            template=self.template,
            thinking=self.thinking,
            sampling=self.sampling,
        )
        return await anyio.to_thread.run_sync(make)

    async def _system_message(self, ctx: RunContext[Any]) -> str | None:
        parts: list[str] = []
        own = self._overridden("instructions", None)
        for part in self._instructions if own is None else [own]:
            value: Any = part
            if callable(part):
                value = part(ctx) if inspect.signature(part).parameters else part()  # type: ignore[call-arg]
                value = await value if inspect.isawaitable(value) else value
            if value:
                parts.append(str(value))
        if self._output is not None:
            parts.append(self._output.instructions)
        return "\n\n".join(parts) or None

    def _decorate(self, function: Callable[..., Any] | None, options: dict[str, Any]) -> Any:
        if function is None:
            return partial(self._decorate, options=options)
        options.setdefault("max_retries", self.retries)
        return self._add(Tool(function, **options))

    def _made(self, source: ToolSource) -> ToolSource:
        return source if isinstance(source, Tool | Toolset) else Tool(source, max_retries=self.retries)

    def _add(self, source: ToolSource) -> ToolSource:
        names = {tool.name for tool in self._sources if isinstance(tool, Tool)}
        if isinstance(source, Tool) and source.name in names:
            raise ToolDefinitionError(source.name, "the agent has a tool of that name already; pass name=...")
        self._sources.append(source)
        return source

    def _overridden(self, name: str, value: Any) -> Any:
        return self._overrides.get({}).get(name, value)

    def __repr__(self) -> str:
        return f"Agent({self.name or 'unnamed'}, {len(self._sources)} tools and toolsets)"
