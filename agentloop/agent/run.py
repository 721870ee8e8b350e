"""Run: one run of an agent, and the steps that the loop is made of."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from typing import Any

import anyio.to_thread

from ..context import RunContext
from ..conversation import Compaction, Conversation, TurnReply, in_worker
from ..conversation.compaction import can_compact
from ..engine.seam import CancelToken, Sampling
from ..events import Compacted, Event, Retry, TurnEnded
from ..exceptions import (
    ConstraintError,
    ContextFull,
    ConversationError,
    ModelRetry,
    TemplateError,
    UnexpectedModelBehavior,
)
from ..limits import Usage, UsageLimits
from ..templates import StrictCalls
from ..tools import ApprovalRequest, ResultCap, Tool
from ..tools.toolset import Toolset, ToolSource, collect_tools
from .output import OutputSpec, OutputValidator, checked
from .repeats import RepeatGuard
from .result import DeferredToolResults, RunResult
from .telemetry import RunSpans, chat_span, compact_span

__all__ = ["Approve", "Run"]

logger = logging.getLogger(__name__)

Approve = Callable[[ApprovalRequest], Any]
"""Decides on a call that needs approval: True, False, ToolApproved, ToolDenied, or None to defer; sync or async."""


@dataclass(frozen=True)
class Accepted:
    """An answer that is what was asked for; None may be one."""

    value: Any


@dataclass
class Run:
    """The settings of one run and what it has done so far. `start` makes the conversation when the run begins."""

    start: Callable[[Run], Awaitable[Conversation]]
    prompt: str | list[Any] | None
    sources: Sequence[ToolSource]
    deps: Any = None
    limits: UsageLimits = field(default_factory=UsageLimits)
    usage: Usage = field(default_factory=Usage)
    cancel: CancelToken = field(default_factory=CancelToken)
    on_event: Callable[[Event], None] | None = None
    sampling: Sampling | None = None
    max_tokens: int | None = None
    retries: int = 2
    approve: Approve | None = None
    decisions: DeferredToolResults = field(default_factory=DeferredToolResults)
    result_cap: ResultCap | int | None = None
    tool_timeout: float | None = None
    compaction: Compaction | None = None
    strict: bool = False
    output: OutputSpec | None = None
    validators: Sequence[OutputValidator] = ()
    save_to: str | PathLike[str] | None = None
    started: Conversation | None = None
    spans: RunSpans | None = None
    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    step: int = 0
    first_message: int = 0

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self._seconds_before = self.usage.seconds
        self._first_turn = len(self.usage.turns)
        self._calls_before = self.usage.tool_calls
        self.failures: Counter[str] = Counter()  # in a row, by tool
        self.strangers = 0  # turns in a row with calls of what is no tool
        self._nudges = 0
        self._rejected = 0
        self._free = False  # no grammar can hold the schema of answers
        self.repeats = RepeatGuard()

    @property
    def conversation(self) -> Conversation:
        """The run's conversation, once it has begun."""
        assert self.started is not None
        return self.started

    def emit(self, event: Event) -> None:
        """Hand an event to whoever watches; called on the event loop's thread. What a watcher raises ends no run."""
        if self.on_event is None:
            return
        try:
            self.on_event(event)
        except Exception:
            logger.exception("the handler of the run's events raised")

    def clock(self) -> float:
        """Seconds since the run began; they go into the usage."""
        seconds = time.monotonic() - self._began
        self.usage.seconds = self._seconds_before + seconds
        return seconds

    @asynccontextmanager
    async def open_toolsets(self) -> AsyncIterator[None]:
        """The toolsets are open inside, servers and all."""
        async with AsyncExitStack() as opened:
            for source in self.sources:
                if isinstance(source, Toolset):
                    await opened.enter_async_context(source)
            yield

    async def make_conversation(self) -> Conversation:
        """Make the conversation, or take the one that was given."""
        await self._collect_tools()
        self.started = await self.start(self)
        return self.started

    def begin(self) -> None:
        """Append the prompt."""
        conversation = self.conversation
        self.first_message = len(conversation.messages)
        if self.prompt is None:
            return
        for call in conversation.open_calls:  # a new prompt goes on without them; the model has to know
            text = conversation.held.get(call["id"], "Error: this call was not run.")
            conversation.tool_result(call["id"], text, call["function"]["name"])
        conversation.held.clear()
        conversation.user(self._asked(conversation))

    def _asked(self, conversation: Conversation) -> str | list[Any]:
        """The prompt, with the words about the answer's type where the conversation's head does not hold them."""
        assert self.prompt is not None
        words = "" if self.output is None else self.output.instructions
        if not words or words in str(conversation.messages[0]["content"] if conversation.messages else ""):
            return self.prompt
        if isinstance(self.prompt, str):
            return f"{self.prompt}\n\n{words}"
        return [*self.prompt, {"type": "text", "text": f"\n\n{words}"}]

    def context(self, call_id: str | None = None, tool: str | None = None) -> RunContext[Any]:
        return RunContext(
            deps=self.deps,
            usage=self.usage,
            limits=self.limits,
            conversation=self.started,
            tool_call_id=call_id,
            tool_name=tool,
            retry=0 if tool is None else self.failures[tool],
            step=self.step,
        )

    async def _collect_tools(self) -> None:
        ctx = self.context()
        self.tools = {tool.name: tool for tool in await collect_tools(self.sources, ctx)}

    async def _announce_tools(self) -> None:
        """Tools may come while the run goes on; the model is told of those that it does not know."""
        await self._collect_tools()
        known = self.conversation.known_tools
        self.conversation.announce(t.schema for t in self.tools.values() if t.schema not in known)

    async def model_turn(self) -> TurnReply:
        """Decode what waits, let the model answer. Raises when a limit is reached before or by this turn."""
        conversation, limits, usage = self.conversation, self.limits, self.usage
        self.clock()
        before = len(conversation.usage.turns)
        await self._announce_tools()
        await self._compact()
        counted = limits.input_tokens_limit is not None or limits.total_tokens_limit is not None
        limits.check_before_request(usage, len(conversation.prompt_ids()) if counted else 0)
        self.step += 1
        room = limits.output_room(usage)
        most = self.max_tokens if room is None else room if self.max_tokens is None else min(room, self.max_tokens)
        thoughts = None if limits.reasoning_tokens_limit is None else limits.reasoning_tokens_limit - usage.reasoning

        def work(cancel: CancelToken, on_event: Callable[[Event], None]) -> TurnReply:
            reply = partial(
                conversation.reply,
                max_tokens=most,
                max_reasoning=thoughts,
                sampling=self.sampling,
                strict=self._strict(),
                step=self.step,
                cancel=cancel,
                on_event=on_event,
            )
            if self.output is None or self._free:
                return reply()
            try:
                return reply(output_schema=self.output.schema)
            except ConstraintError as error:  # raised before anything is decoded; answers are validated all the same
                logger.warning("answers are not held to their schema while they are written: %s", error)
                self._free = True
                return reply()

        try:
            with chat_span(self, most) as replies:
                reply = await in_worker(work, cancel=self.cancel, emit=self.emit if self.on_event else None)
                replies.append(reply)
        except (ContextFull, TemplateError):
            if not any(message["role"] == "tool" for message in conversation.pending):
                conversation.drop_pending()
            raise
        finally:
            for turn in conversation.usage.turns[before:]:
                usage.turns.append(turn)
                self.emit(TurnEnded(self.step, turn))
            self.clock()
        await self.save()
        if reply.finish == "length" and room is not None and most == room:
            limits.check_before_request(usage)
        if reply.finish == "context":
            raise ContextFull(1, 0, conversation.sequence.n_ctx)
        return reply

    def _strict(self) -> bool | frozenset[str]:
        """The tools whose calls are held to their schemas: all, or those that ask for it, where the template can."""
        if self.strict:
            return True
        names = frozenset(name for name, tool in self.tools.items() if tool.strict)
        return names if names and isinstance(self.conversation.template, StrictCalls) else False

    async def _compact(self) -> None:
        """Make the history shorter when it fills more of the context than it may."""
        conversation, settings = self.conversation, self.compaction
        if settings is None or not can_compact(conversation, settings):
            return
        used = len(conversation.tokens) + len(conversation.prompt_ids())
        if used <= settings.at * conversation.sequence.n_ctx:
            return
        try:
            with compact_span(self) as facts:
                done = await in_worker(
                    lambda cancel, _: conversation.compact(settings, cancel=cancel), cancel=self.cancel
                )
                facts |= {"agentloop.tokens_before": done.before, "agentloop.tokens_after": done.after}
        except ConversationError as error:
            raise UnexpectedModelBehavior("compaction", str(error)) from error
        self.emit(Compacted(done.before, done.after))

    def nudge(self, reply: TurnReply) -> str | None:
        """What to tell a model whose reply holds neither an answer nor a call, or goes on without end; None when there
        is an answer."""
        if reply.content.strip() and reply.finish != "stopped":
            self._nudges = 0
            return None
        reason = "loop" if reply.finish == "stopped" else "empty_reply"
        self._nudges += 1
        if self._nudges > self.retries:
            why = reply.stop_reason or f"finish: {reply.finish}"
            message = f"the model gave {self._nudges} replies in a row without an answer or a call ({why})"
            raise UnexpectedModelBehavior(reason, message)
        if reason == "loop":
            text = "Your reply repeated itself and was stopped. Answer again, briefly."
        elif reply.finish == "end":
            text = "Your reply was empty. Answer, or call a function."
        else:
            text = "Your reasoning was cut because it was too long. Answer now, or call a function."
        self.emit(Retry(reason, text, self._nudges, self.retries))
        return text

    async def read_output(self, reply: TurnReply) -> Accepted | None:
        """The answer as the type that was asked for; None when it is not that: the model is told why, and goes on."""
        try:
            value: Any = reply.content if self.output is None else self.output.read(reply.content)
            return Accepted(await checked(value, self.validators, self.context()))
        except ModelRetry as error:
            message = str(error)
        self._rejected += 1
        if self._rejected > self.retries:
            what = f"{self._rejected} answers in a row were not what was asked for; the last error: {message}"
            raise UnexpectedModelBehavior("output", what)
        self.emit(Retry("output", message, self._rejected, self.retries))
        self.conversation.append({"role": "user", "content": message, "note": True})
        return None

    def result(self, output: object, reply: TurnReply | None = None) -> RunResult[object]:
        """The run's result."""
        self.clock()
        own = Usage(self.usage.turns[self._first_turn :], self.usage.tool_calls - self._calls_before, self.clock())
        finish, thoughts = ("deferred", "") if reply is None else (reply.finish, reply.reasoning)
        return RunResult(output, own, self.conversation, finish, thoughts, self.first_message)

    async def save(self) -> None:
        """Write the conversation down, if the run was asked to do so after every step."""
        if self.save_to is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.conversation.save, self.save_to)
