"""Running the calls of a reply: results in order, failures counted, repeats noticed, decisions waited for."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import Mapping, Sequence
from typing import Any

import anyio.to_thread

from ..arguments import check_call
from ..calls import Call
from ..context import RunContext
from ..conversation import in_worker
from ..events import Retry, ToolFinished, ToolProgress, ToolStarted
from ..exceptions import AgentLoopError, ConversationError, UnexpectedModelBehavior
from ..tools import ApprovalRequest, ResultCap, ToolEvent, ToolResult, run_calls
from .result import DeferredCall, DeferredToolRequests
from .run import Run
from .telemetry import ToolSpans

__all__ = ["execute", "finish_open_calls"]

STEER = (
    "\n\nNote: this is the third time in a row that the same call gave the same result. "
    "Do something else, or answer with what you have."
)
STEER_AT, STOP_AT = 3, 4


async def finish_open_calls(run: Run) -> DeferredToolRequests | None:
    """Run the calls that the conversation waits for: deferred ones, and those that a killed process left. Where a reply
    was cut by a cancel or an error and nothing waits, it is made again."""
    pending = run.conversation.open_calls
    if not pending and not run.conversation.pending:
        turns = run.conversation.turns
        if turns and turns[-1].finish in ("cancelled", "failed"):
            run.conversation.rewind(-1, keep_messages=True)  # the reply that was cut is made again
            return None
        raise ConversationError("there is nothing to do: no reply was cut and no call waits; give a prompt")
    waiting = [call for call in pending if call["id"] not in run.conversation.held]
    if not waiting:
        _settle(run, {})
        return None
    schemas = [tool.schema for tool in run.tools.values()]
    functions = [call["function"] for call in waiting]
    calls = [check_call(Call(f["name"], dict(f["arguments"]), repairs=("json_style",)), schemas) for f in functions]
    return await execute(run, calls, [call["id"] for call in waiting])


async def execute(run: Run, calls: Sequence[Call], ids: Sequence[str]) -> DeferredToolRequests | None:
    """Run the calls, together where they may, and append their results in order; or hold them, when one of the
    calls waits for a person. Siblings of a call that fails, or of a cancel, keep their results."""
    run.limits.check_before_tools(run.usage, sum(call.status == "ok" for call in calls))
    done: dict[int, ToolResult] = {}
    began: dict[int, float] = {}
    timeline = run.conversation.timeline
    spans = None if run.spans is None else ToolSpans(run.spans, run, ids)

    def on_event(event: ToolEvent) -> None:
        if spans is not None:
            spans.heard(event)
        call_id, name = ids[event.call_index], event.call.name
        if event.kind == "started":
            run.usage.tool_calls += 1
            began[event.call_index] = time.time()
            run.emit(ToolStarted(call_id, name, event.call.arguments))
        elif event.kind == "progress":
            run.emit(ToolProgress(call_id, name, event.message))
        elif event.result is not None:
            done[event.call_index] = result = event.result
            timeline.tool(call_id, name, began.get(event.call_index), result.outcome)
            run.emit(ToolFinished(call_id, name, result.content, result.outcome, result.seconds))

    def context(index: int, call: Call) -> RunContext[Any]:
        return run.context(ids[index], call.name)

    async def approve(request: ApprovalRequest) -> Any:
        decision: Any = run.decisions.approvals.get(ids[request.call_index])
        if decision is None and run.approve is not None:
            if inspect.iscoroutinefunction(run.approve):
                return await run.approve(request)
            decision = await anyio.to_thread.run_sync(run.approve, request, abandon_on_cancel=True)
            return await decision if inspect.isawaitable(decision) else decision
        return decision

    ahead = asyncio.ensure_future(_decode_ahead(run))
    try:
        try:
            results = await run_calls(
                calls,
                run.tools,
                context,
                approve=approve,
                on_event=on_event,
                cap=_cap(run, len(calls)),
                timeout=run.tool_timeout,
            )
        finally:
            # One small batch; nothing is still being decoded when the tools have ended.
            await asyncio.wait({ahead})
    except BaseException:
        if spans is not None:
            spans.cut()
        for i in began.keys() - done.keys():
            timeline.tool(ids[i], calls[i].name, began[i], "cancelled")
        cut = {i: "Error: the call was cancelled before it ended." for i in range(len(calls)) if i not in done}
        texts = cut | {i: result.content or "Error: the call was cancelled." for i, result in done.items()}
        _settle(run, {ids[i]: text for i, text in texts.items()})
        raise
    run.clock()
    return await _conclude(run, calls, ids, results)


async def _decode_ahead(run: Run) -> None:
    """Use the time that the tools take. What fails here is decoded with the results, where its error counts."""
    with contextlib.suppress(AgentLoopError):
        await in_worker(lambda cancel, _: run.conversation.decode_ahead(cancel=cancel), cancel=run.cancel)


async def _conclude(
    run: Run, calls: Sequence[Call], ids: Sequence[str], results: Sequence[ToolResult]
) -> DeferredToolRequests | None:
    texts = {ids[r.call_index]: r.content for r in results if r.outcome != "deferred"}
    deferred = [r for r in results if r.outcome == "deferred"]
    if deferred:
        run.conversation.held.update(texts)
        await run.save()
        waiting = (DeferredCall(ids[r.call_index], r.call, r.reason, r.metadata) for r in deferred)
        return DeferredToolRequests(tuple(waiting))
    times = run.repeats.add(calls, [r.content for r in results])
    if times == STEER_AT and results:
        texts[ids[-1]] += STEER
        run.emit(Retry("repeated_call", STEER.strip(), times, STOP_AT))
    _settle(run, texts)
    await run.save()
    for result in results:
        if result.call.name in run.tools:
            _count_failure(run, result)
    _count_strangers(run, [result for result in results if result.call.name not in run.tools])
    if times >= STOP_AT:
        message = f"the model made the same call of {calls[-1].name} {times} times in a row, with the same result"
        raise UnexpectedModelBehavior("repeated_call", message)
    return None


def _settle(run: Run, texts: Mapping[str, str]) -> None:
    """Append the results of all open calls, in the order of the calls."""
    texts = {**run.conversation.held, **texts}
    run.conversation.held.clear()
    for call in run.conversation.open_calls:
        text = texts.get(call["id"], "Error: this call was not run.")
        run.conversation.tool_result(call["id"], text, call["function"]["name"])


def _count_failure(run: Run, result: ToolResult) -> None:
    name = result.call.name
    if result.outcome != "retry":
        del run.failures[name]
        return
    run.failures[name] += 1
    allowed = run.tools[name].max_retries
    if run.failures[name] > allowed:
        what = f"{name!r} failed {run.failures[name]} times in a row; the last error: {result.content}"
        raise UnexpectedModelBehavior("tool_retries", what)
    reason = result.call.status if result.call.status != "ok" else "model_retry"
    run.emit(Retry(reason, result.content, run.failures[name], allowed))


def _count_strangers(run: Run, results: Sequence[ToolResult]) -> None:
    """Calls of what is no tool count together, whatever names the model invents; a turn without any forgives them."""
    if not results:
        run.strangers = 0
        return
    run.strangers += 1
    last = results[-1]
    if run.strangers > run.retries:
        what = f"{run.strangers} turns in a row held calls of what is no tool; the last error: {last.content}"
        raise UnexpectedModelBehavior("tool_retries", what)
    run.emit(Retry(last.call.status, last.content, run.strangers, run.retries))


def _cap(run: Run, calls: int) -> ResultCap:
    """A bound on results in real tokens: what was asked for, and no more than the context still holds."""
    conversation = run.conversation
    cap = run.result_cap
    asked = cap.limit if isinstance(cap, ResultCap) else cap or max(1, conversation.sequence.n_ctx // 4)
    share = (conversation.room * 3 // 4) // max(1, calls)
    limit = max(1, min(asked, share))
    if isinstance(cap, ResultCap):
        return ResultCap(limit, cap.count_tokens, cap.folder, shown_from=cap.shown_from)
    vocab = conversation.engine.vocab
    return ResultCap(limit, lambda text: len(vocab.encode(text)))
