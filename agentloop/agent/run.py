"""Run: one run of an agent, and the steps that the loop is made of."""

from __future__ import annotations

import inspect
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import anyio.to_thread

from ..arguments import check_call
from ..calls import Call
from ..context import RunContext
from ..conversation import Compaction, Conversation, TurnReply, in_worker
from ..conversation.compaction import can_compact
from ..engine.seam import CancelToken, Sampling
from ..events import Compacted, Event, Retry, ToolFinished, ToolProgress, ToolStarted, TurnEnded
from ..exceptions import ContextFull, ConversationError, TemplateError, UnexpectedModelBehavior
from ..limits import Usage, UsageLimits
from ..tools import ApprovalRequest, ResultCap, Tool, ToolEvent, ToolResult, run_calls
from ..tools.toolset import Toolset, ToolSource, collect_tools
from .repeats import RepeatGuard
from .result import DeferredCall, DeferredToolRequests, DeferredToolResults, RunResult

__all__ = ["Approve", "Run"]

logger = logging.getLogger(__name__)

Approve = Callable[[ApprovalRequest], Any]
"""Decides on a call that needs approval: True, False, ToolApproved, ToolDenied, or None to defer; sync or async."""

STEER = (
    "\n\nNote: this is the third time in a row that the same call gave the same result. "
    "Do something else, or answer with what you have."
)
STEER_AT, STOP_AT = 3, 4


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
    save_to: str | PathLike[str] | None = None
    started: Conversation | None = None
    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    step: int = 0
    first_message: int = 0

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self._seconds_before = self.usage.seconds
        self._first_turn = len(self.usage.turns)
        self._failures: Counter[str] = Counter()
        self._nudges = 0
        self._repeats = RepeatGuard()

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
        conversation.user(self.prompt)

    async def _collect_tools(self) -> None:
        ctx = RunContext(
            deps=self.deps, usage=self.usage, limits=self.limits, conversation=self.started, step=self.step
        )
        self.tools = {tool.name: tool for tool in await collect_tools(self.sources, ctx)}

    async def _announce_tools(self) -> None:
        """Tools may come while the run goes on; the model is told of those that it does not know."""
        await self._collect_tools()
        known = self.conversation.known_tools
        self.conversation.announce(t.schema for t in self.tools.values() if t.schema not in known)

    async def finish_open_calls(self) -> DeferredToolRequests | None:
        """Run the calls that the conversation waits for: deferred ones, and those that a killed process left."""
        pending = self.conversation.open_calls
        if not pending and not self.conversation.pending:
            raise ConversationError(
                "there is nothing to do: give a prompt, or a conversation that waits for tool results"
            )
        waiting = [call for call in pending if call["id"] not in self.conversation.held]
        if not waiting:
            self._settle({})
            return None
        schemas = [tool.schema for tool in self.tools.values()]
        functions = [call["function"] for call in waiting]
        calls = [check_call(Call(f["name"], dict(f["arguments"]), repairs=("json_style",)), schemas) for f in functions]
        return await self.execute(calls, [call["id"] for call in waiting])

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
            return conversation.reply(
                max_tokens=most,
                max_reasoning=thoughts,
                sampling=self.sampling,
                step=self.step,
                cancel=cancel,
                on_event=on_event,
            )

        try:
            reply = await in_worker(work, cancel=self.cancel, emit=self.emit if self.on_event else None)
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

    async def _compact(self) -> None:
        """Make the history shorter when it fills more of the context than it may."""
        conversation, settings = self.conversation, self.compaction
        if settings is None or not can_compact(conversation, settings):
            return
        used = len(conversation.tokens) + len(conversation.prompt_ids())
        if used <= settings.at * conversation.sequence.n_ctx:
            return
        try:
            done = await in_worker(lambda cancel, _: conversation.compact(settings, cancel=cancel), cancel=self.cancel)
        except ConversationError as error:
            raise UnexpectedModelBehavior("compaction", str(error)) from error
        self.emit(Compacted(done.before, done.after))

    async def execute(self, calls: Sequence[Call], ids: Sequence[str]) -> DeferredToolRequests | None:
        """Run the calls, together where they may, and append their results in order; or hold them, when one of the
        calls waits for a person. Siblings of a call that fails, or of a cancel, keep their results."""
        self.limits.check_before_tools(self.usage, sum(call.status == "ok" for call in calls))
        done: dict[int, ToolResult] = {}

        def on_event(event: ToolEvent) -> None:
            call_id, name = ids[event.call_index], event.call.name
            if event.kind == "started":
                self.usage.tool_calls += 1
                self.emit(ToolStarted(call_id, name, event.call.arguments))
            elif event.kind == "progress":
                self.emit(ToolProgress(call_id, name, event.message))
            elif event.result is not None:
                done[event.call_index] = result = event.result
                self.emit(ToolFinished(call_id, name, result.content, result.outcome, result.seconds))

        def context(index: int, call: Call) -> RunContext[Any]:
            return RunContext(
                deps=self.deps,
                usage=self.usage,
                limits=self.limits,
                conversation=self.conversation,
                tool_call_id=ids[index],
                tool_name=call.name,
                retry=self._failures[call.name],
                step=self.step,
            )

        async def approve(request: ApprovalRequest) -> Any:
            decision: Any = self.decisions.approvals.get(ids[request.call_index])
            if decision is None and self.approve is not None:
                if inspect.iscoroutinefunction(self.approve):
                    return await self.approve(request)
                decision = await anyio.to_thread.run_sync(self.approve, request, abandon_on_cancel=True)
                return await decision if inspect.isawaitable(decision) else decision
            return decision

        try:
            results = await run_calls(
                calls,
                self.tools,
                context,
                approve=approve,
                on_event=on_event,
                cap=self._cap(len(calls)),
                timeout=self.tool_timeout,
            )
        except BaseException:
            cut = {i: "Error: the call was cancelled before it ended." for i in range(len(calls)) if i not in done}
            texts = cut | {i: result.content or "Error: the call was cancelled." for i, result in done.items()}
            self._settle({ids[i]: text for i, text in texts.items()})
            raise
        self.clock()
        return await self._conclude(calls, ids, results)

    async def _conclude(
        self, calls: Sequence[Call], ids: Sequence[str], results: Sequence[ToolResult]
    ) -> DeferredToolRequests | None:
        texts = {ids[r.call_index]: r.content for r in results if r.outcome != "deferred"}
        deferred = [r for r in results if r.outcome == "deferred"]
        if deferred:
            self.conversation.held.update(texts)
            await self.save()
            waiting = (DeferredCall(ids[r.call_index], r.call, r.reason, r.metadata) for r in deferred)
            return DeferredToolRequests(tuple(waiting))
        times = self._repeats.add(calls, [r.content for r in results])
        if times == STEER_AT and results:
            texts[ids[-1]] += STEER
            self.emit(Retry("repeated_call", STEER.strip(), times, STOP_AT))
        self._settle(texts)
        await self.save()
        for result in results:
            self._count_failure(result)
        if times >= STOP_AT:
            message = f"the model made the same call of {calls[-1].name} {times} times in a row, with the same result"
            raise UnexpectedModelBehavior("repeated_call", message)
        return None

    def _settle(self, texts: Mapping[str, str]) -> None:
        """Append the results of all open calls, in the order of the calls."""
        texts = {**self.conversation.held, **texts}
        self.conversation.held.clear()
        for call in self.conversation.open_calls:
            text = texts.get(call["id"], "Error: this call was not run.")
            self.conversation.tool_result(call["id"], text, call["function"]["name"])

    def _count_failure(self, result: ToolResult) -> None:
        name = result.call.name
        if result.outcome != "retry":
            del self._failures[name]
            return
        self._failures[name] += 1
        allowed = self.tools[name].max_retries if name in self.tools else self.retries
        if self._failures[name] > allowed:
            what = f"{name!r} failed {self._failures[name]} times in a row; the last error: {result.content}"
            raise UnexpectedModelBehavior("tool_retries", what)
        reason = result.call.status if result.call.status != "ok" else "model_retry"
        self.emit(Retry(reason, result.content, self._failures[name], allowed))

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

    def result(self, output: object, reply: TurnReply | None = None) -> RunResult[object]:
        """The run's result."""
        self.clock()
        own = Usage(self.usage.turns[self._first_turn :], self.usage.tool_calls, self.clock())
        finish, thoughts = ("deferred", "") if reply is None else (reply.finish, reply.reasoning)
        return RunResult(output, own, self.conversation, finish, thoughts, self.first_message)

    async def save(self) -> None:
        """Write the conversation down, if the run was asked to do so after every step."""
        if self.save_to is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.conversation.save, self.save_to)

    def _cap(self, calls: int) -> ResultCap:
        """A bound on results in real tokens: what was asked for, and no more than the context still holds."""
        conversation = self.conversation
        cap = self.result_cap
        asked = cap.limit if isinstance(cap, ResultCap) else cap or max(1, conversation.sequence.n_ctx // 4)
        share = (conversation.room * 3 // 4) // max(1, calls)
        limit = max(1, min(asked, share))
        if isinstance(cap, ResultCap):
            return ResultCap(limit, cap.count_tokens, cap.folder, shown_from=cap.shown_from)
        vocab = conversation.engine.vocab
        return ResultCap(limit, lambda text: len(vocab.encode(text)))
