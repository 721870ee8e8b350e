"""Run the calls of one reply: together where they may, each with its own fate.

Whatever happens to a call (an invalid one, a raise, a timeout, a person's no) becomes its result, one short line for
the model; its siblings run on. Only a cancel from outside ends them all.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union

import anyio
import anyio.to_thread

from agentloop.calls import Call
from agentloop.exceptions import ApprovalRequired, ArgumentsError, ModelRetry, ToolFailed, ToolPathError
from agentloop.tools.results import ResultCap
from agentloop.tools.threads import run_in_thread
from agentloop.tools.tool import Tool

if TYPE_CHECKING:
    from agentloop.context import RunContext

__all__ = [
    "ApprovalDecision",
    "ApprovalRequest",
    "ToolApproved",
    "ToolDenied",
    "ToolEvent",
    "ToolOutcome",
    "ToolResult",
    "error_line",
    "run_calls",
]

logger = logging.getLogger(__name__)

ToolOutcome = Literal["ok", "retry", "failed", "error", "timeout", "denied", "deferred"]
"""`ok`: the tool returned. `retry`: the model should call again (a call that is not valid, `ModelRetry`). `failed`:
the tool said so (`ToolFailed`, a path outside the workspace). `error`: it raised something else. `timeout`: it took too
long. `denied`: a person said no. `deferred`: a person has to decide and there is nobody to ask; `content` is empty."""

_LINE = 500  # characters of an error line


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What became of the call at `call_index`. `content` is what the model reads.

    `arguments` are those that the tool ran with (an approval may change them), `seconds` the time it ran. `exception`
    is what it raised, for logs. `metadata` and `reason` come from `ApprovalRequired`. `full_text` is the file that
    holds the whole text when `content` was cut.
    """

    call_index: int
    call: Call
    content: str
    outcome: ToolOutcome
    seconds: float = 0.0
    arguments: dict[str, Any] = field(default_factory=dict)
    exception: BaseException | None = None
    reason: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    full_text: Path | None = None


@dataclass(frozen=True, slots=True)
class ToolEvent:
    """`started` when a tool begins to run, `progress` with a `message`, `finished` with the `result` of any call."""

    kind: Literal["started", "progress", "finished"]
    call_index: int
    call: Call
    message: str = ""
    result: ToolResult | None = None


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A call that a person has to decide on. `reason` and `metadata` are what the tool said (`ApprovalRequired`)."""

    call_index: int
    call: Call
    tool: Tool
    reason: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolApproved:
    """Run the call, with `override_args` instead of its arguments if they are given."""

    override_args: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ToolDenied:
    """Do not run the call; the model reads `message`."""

    message: str = "The user denied this call."


ApprovalDecision = Union[bool, ToolApproved, ToolDenied, None]  # noqa: UP007  (evaluated on 3.10)
"""`True` and `False` stand for `ToolApproved()` and `ToolDenied()`; `None` leaves the call deferred."""

Approve = Callable[[ApprovalRequest], "ApprovalDecision | Awaitable[ApprovalDecision]"]
MakeContext = Callable[[int, Call], "RunContext[Any]"]


async def run_calls(
    calls: Sequence[Call],
    tools: Sequence[Tool] | Mapping[str, Tool],
    make_context: MakeContext | None = None,
    *,
    approve: Approve | None = None,
    on_event: Callable[[ToolEvent], None] | None = None,
    cap: ResultCap | None = None,
    timeout: float | None = None,
) -> list[ToolResult]:
    """Run `calls`; returns one result for each, in their order.

    Calls run together, except that a `sequential` tool waits for those before it and those behind it wait for it. Only
    calls with status `ok` run. `make_context(index, call)` makes the context of a call. `approve` is asked, one call at
    a time, where a person has to decide (a sync one in a worker thread); without it such calls are `deferred`.
    `timeout` in seconds holds for tools without one of their own; the time a person takes does not count. `on_event` is
    called on the event loop's thread. `cap` cuts long results.

    Raises nothing of what a tool raises. When it is cancelled, the results so far were told to `on_event`.
    """
    by_name = tools if isinstance(tools, Mapping) else {tool.name: tool for tool in tools}
    runner = _Runner(by_name, make_context, approve, on_event, cap, timeout)
    results: dict[int, ToolResult] = {}

    async def one(index: int) -> None:
        results[index] = await runner.run(index, calls[index])

    for batch in _batches(calls, by_name):
        async with anyio.create_task_group() as group:
            for index in batch:
                group.start_soon(one, index)
    return [results[index] for index in range(len(calls))]


def error_line(error: BaseException) -> str:
    """The one line that the model reads of an exception."""
    while isinstance(inner := getattr(error, "exceptions", None), tuple) and len(inner) == 1:
        error = inner[0]  # a task group with one failure: the failure says more
    text = " ".join(str(error).split())
    if not text or isinstance(error, (KeyError, SystemExit)):  # their text alone says nothing
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    text = text if len(text) <= _LINE else text[: _LINE - 3] + "..."
    return f"Error: {text}"


def _batches(calls: Sequence[Call], tools: Mapping[str, Tool]) -> list[list[int]]:
    batches: list[list[int]] = [[]]
    for index, call in enumerate(calls):
        tool = tools.get(call.name)
        if tool is not None and tool.sequential and call.status == "ok":
            batches += [[index], []]
        else:
            batches[-1].append(index)
    return [batch for batch in batches if batch]


class _Runner:
    def __init__(
        self,
        tools: Mapping[str, Tool],
        make_context: MakeContext | None,
        approve: Approve | None,
        on_event: Callable[[ToolEvent], None] | None,
        cap: ResultCap | None,
        timeout: float | None,
    ) -> None:
        self.tools = tools
        self.make_context = make_context
        self.approve = approve
        self.on_event = on_event
        self.cap = cap
        self.timeout = timeout
        self.asking = anyio.Lock()
        self.finished: set[int] = set()

    async def run(self, index: int, call: Call) -> ToolResult:
        try:
            result = await self._decide_and_execute(index, call)
        except Exception as exc:  # a context or an approval handler that raises must not take the siblings along
            logger.exception("the call of %s could not be run", call.name)
            result = ToolResult(index, call, error_line(exc), "error", exception=exc)
        self.finished.add(index)
        self._emit(ToolEvent("finished", index, call, result=result))
        return result

    async def _decide_and_execute(self, index: int, call: Call) -> ToolResult:
        tool = self.tools.get(call.name)
        if call.status != "ok":
            text = call.error or f"the call is {call.status.replace('_', ' ')}"
            return ToolResult(index, call, error_line(ModelRetry(text)), "retry")
        if tool is None:
            known = ", ".join(self.tools) or "none"
            unknown = ModelRetry(f'there is no tool "{call.name}"; declared tools: {known}')
            return ToolResult(index, call, error_line(unknown), "retry", exception=unknown)
        ctx = None if self.make_context is None else self.make_context(index, call)
        approved = ctx is not None and ctx.tool_call_approved
        ran = call
        if tool.requires_approval and not approved:
            verdict = await self._ask(ApprovalRequest(index, call, tool, f"{tool.name} requires approval"))
            if isinstance(verdict, ToolResult):
                return verdict
            ran, approved = verdict, True
        result = await self._execute(index, call, ran, tool, ctx, approved)
        if isinstance(result.exception, ApprovalRequired) and not approved:
            error = result.exception
            verdict = await self._ask(ApprovalRequest(index, ran, tool, str(error), error.metadata))
            if isinstance(verdict, ToolResult):
                return replace(verdict, call=call)
            result = await self._execute(index, call, verdict, tool, ctx, True)
        return result

    async def _ask(self, request: ApprovalRequest) -> Call | ToolResult:
        """The call to run, or the result of one that must not run (now)."""
        decision: Any = None
        if self.approve is not None:
            async with self.asking:
                if inspect.iscoroutinefunction(self.approve):
                    decision = await self.approve(request)
                else:
                    decision = await run_in_thread(functools.partial(self.approve, request), "approval")
                    decision = await decision if inspect.isawaitable(decision) else decision
        index, call = request.call_index, request.call
        if decision is True:
            return call
        if isinstance(decision, ToolApproved):
            return call if decision.override_args is None else replace(call, arguments=dict(decision.override_args))
        if decision is False:
            decision = ToolDenied()
        if isinstance(decision, ToolDenied):
            return ToolResult(index, call, decision.message, "denied", arguments=call.arguments, reason=request.reason)
        if decision is not None:
            raise TypeError(f"an approval handler returned {decision!r}; return a bool, ToolApproved or ToolDenied")
        return ToolResult(
            index, call, "", "deferred", arguments=call.arguments, reason=request.reason, metadata=request.metadata
        )

    async def _execute(
        self, index: int, call: Call, ran: Call, tool: Tool, ctx: RunContext[Any] | None, approved: bool
    ) -> ToolResult:
        if ctx is not None:
            ctx.tool_call_approved = approved
            if ctx.on_progress is None and self.on_event is not None:
                ctx.on_progress = self._progress(index, call)
        self._emit(ToolEvent("started", index, ran))
        limit = tool.timeout if tool.timeout is not None else self.timeout
        content, file = "", None
        outcome: ToolOutcome = "ok"
        error: BaseException | None = None
        begin = time.perf_counter()
        scope = anyio.move_on_after(limit)
        try:
            with scope:
                content = await tool.call(ran.arguments, ctx)
        except (Exception, SystemExit) as exc:
            error = exc
        except anyio.get_cancelled_exc_class():
            if anyio.current_effective_deadline() == -math.inf:
                raise
            error = ToolFailed(f"{tool.name} cancelled itself")
        seconds = time.perf_counter() - begin
        if scope.cancelled_caught or (error is not None and scope.cancel_called):
            outcome, content = "timeout", f"Error: {tool.name} timed out after {limit:g} s."
        elif error is not None:
            outcome, content = _outcome_of(error, approved), error_line(error)
            if outcome == "error":
                logger.info("tool %s raised", tool.name, exc_info=error)
        if self.cap is not None:
            content, file, _ = await anyio.to_thread.run_sync(self.cap.apply, content, tool.name)
        return ToolResult(
            index, call, content, outcome, seconds, arguments=ran.arguments, exception=error, full_text=file
        )

    def _progress(self, index: int, call: Call) -> Callable[[str], None]:
        loop, home = asyncio.get_running_loop(), threading.get_ident()

        def emit(message: str) -> None:
            if index not in self.finished:  # an abandoned thread may go on talking
                self._emit(ToolEvent("progress", index, call, message))

        def progress(message: str) -> None:
            if threading.get_ident() == home:
                emit(message)
                return
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody watches any more
                loop.call_soon_threadsafe(emit, message)

        return progress

    def _emit(self, event: ToolEvent) -> None:
        if self.on_event is None:
            return
        try:
            self.on_event(event)
        except Exception:
            logger.exception("the handler of tool events raised")


def _outcome_of(error: BaseException, approved: bool) -> ToolOutcome:
    if isinstance(error, (ModelRetry, ArgumentsError)):
        return "retry"
    if isinstance(error, (ToolFailed, ToolPathError)):
        return "failed"
    if isinstance(error, ApprovalRequired) and not approved:
        return "deferred"
    return "error"
