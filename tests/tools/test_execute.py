"""Many calls at once: order, barriers, timeouts, approvals, and that no sibling is ever lost."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest

from agentloop.calls import Call
from agentloop.context import RunContext
from agentloop.exceptions import ApprovalRequired, ModelRetry, ToolFailed, ToolPathError
from agentloop.tools import (
    ApprovalRequest,
    ResultCap,
    Tool,
    ToolApproved,
    ToolDenied,
    ToolEvent,
    ToolResult,
    run_calls,
    tool,
)


def run(calls: Sequence[Call], tools: Sequence[Tool], **options: Any) -> list[ToolResult]:
    async def main() -> list[ToolResult]:
        return await run_calls(calls, tools, lambda index, call: RunContext(deps=None), **options)

    return anyio.run(main)


@tool
def add(a: int, b: int) -> int:
    return a + b


def raising(error: BaseException) -> Tool:
    def fail() -> None:
        raise error

    return Tool(fail)


ADD = Call("add", {"a": 1, "b": 2})


@pytest.mark.parametrize(
    ("error", "outcome", "content"),
    [
        (ModelRetry("use a date"), "retry", "Error: use a date"),
        (ToolFailed("file not found: a.py."), "failed", "Error: file not found: a.py."),
        (ToolPathError("outside"), "failed", "Error: outside"),
        (ValueError("two\n  lines"), "error", "Error: two lines"),
        (KeyError("name"), "error", "Error: KeyError: 'name'"),
        (ZeroDivisionError(), "error", "Error: ZeroDivisionError"),
        (SystemExit(3), "error", "Error: SystemExit: 3"),
        (TimeoutError("the server's own"), "error", "Error: the server's own"),
        (ApprovalRequired("sure?"), "deferred", ""),
        (ValueError("x" * 9000), "error", "Error: " + "x" * 497 + "..."),
    ],
)
def test_what_a_tool_raises_becomes_its_result(error: BaseException, outcome: str, content: str) -> None:
    failed, fine = run([Call("fail", {}), ADD], [raising(error), add])
    assert (failed.outcome, failed.content) == (outcome, content)
    assert (fine.outcome, fine.content) == ("ok", "3")
    assert "Traceback" not in failed.content


def test_async_tools_that_fail_leave_their_siblings_alone() -> None:
    finished: list[str] = []

    @tool
    async def fails() -> None:
        raise RuntimeError("at once")

    @tool
    async def cancels_itself() -> None:
        raise asyncio.CancelledError

    @tool
    async def group() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fails.invoke, {})

    @tool
    async def steady() -> str:
        for _ in range(20):
            await anyio.sleep(0.001)
        finished.append("steady")
        return "done"

    names = ["fails", "cancels_itself", "steady", "group"]
    results = run([Call(name, {}) for name in names], [fails, cancels_itself, steady, group])
    assert [r.outcome for r in results] == ["error", "failed", "ok", "error"]
    assert results[3].content == "Error: at once"
    assert finished == ["steady"]


def test_invalid_calls_never_run() -> None:
    ran: list[int] = []

    @tool
    def note(n: int) -> None:
        ran.append(n)

    calls = [
        Call("note", {"n": 1}, status="incomplete", error="the call was cut off"),
        Call("note", {"n": 2}, status="malformed"),
        Call("note", {"n": "x"}),
        Call("nothing", {}),
        Call("note", {"n": 5}),
    ]
    results = run(calls, [note])
    assert [r.outcome for r in results] == ["retry", "retry", "retry", "retry", "ok"]
    assert results[0].content == "Error: the call was cut off"
    assert results[1].content == "Error: the call is malformed"
    assert results[3].content == 'Error: there is no tool "nothing"; declared tools: note'
    assert ran == [5]


def test_calls_run_together_and_answer_in_order() -> None:
    """Each waits for the other two: run one after the other, none would ever end."""
    barrier = threading.Barrier(3)

    @tool(timeout=20)
    def meet(name: str) -> str:
        barrier.wait(10)
        return name

    results = run([Call("meet", {"name": name}) for name in "abc"], [meet])
    assert [(r.content, r.call_index) for r in results] == [("a", 0), ("b", 1), ("c", 2)]


def test_a_sequential_tool_is_a_barrier() -> None:
    log: list[str] = []

    async def step(name: str) -> None:
        log.append(f"{name}+")
        await anyio.sleep(0.005)
        log.append(f"{name}-")

    tools = [Tool(step, name="free"), Tool(step, name="alone", sequential=True)]
    order = [("free", "a"), ("free", "b"), ("alone", "c"), ("alone", "d"), ("free", "e")]
    run([Call(name, {"name": label}) for name, label in order], tools)
    assert sorted(log[:4]) == ["a+", "a-", "b+", "b-"]
    assert log[:2] == ["a+", "b+"]
    assert log[4:] == ["c+", "c-", "d+", "d-", "e+", "e-"]


def test_a_sync_tool_that_hangs_is_left_behind() -> None:
    release = threading.Event()

    @tool(timeout=0.05)
    def hang() -> str:
        release.wait(60)
        return "never"

    async def main() -> list[ToolResult]:
        results = await run_calls([Call("hang", {}), ADD], [hang, add])
        assert not release.is_set()  # the thread still waits while the results are here
        return results

    try:
        hung, fine = anyio.run(main)
    finally:
        release.set()
    assert (hung.outcome, hung.content) == ("timeout", "Error: hang timed out after 0.05 s.")
    assert fine.content == "3"


def test_an_async_tool_that_times_out_is_cancelled() -> None:
    log: list[str] = []

    @tool
    async def wait() -> None:
        try:
            await anyio.sleep(math.inf)
        finally:
            log.append("cleaned up")

    @tool
    async def raises_in_cleanup() -> None:
        try:
            await anyio.sleep(math.inf)
        finally:
            raise ValueError("cleanup failed")

    results = run([Call("wait", {}), Call("raises_in_cleanup", {})], [wait, raises_in_cleanup], timeout=0.05)
    assert [r.outcome for r in results] == ["timeout", "timeout"]
    assert log == ["cleaned up"]


def test_a_cancel_from_outside_ends_all_and_keeps_what_was_done() -> None:
    events: list[ToolEvent] = []
    ended: list[str] = []

    @tool
    async def forever() -> None:
        try:
            await anyio.sleep(math.inf)
        finally:
            ended.append("forever")

    async def main() -> None:
        async with anyio.create_task_group() as group:

            def watch(event: ToolEvent) -> None:
                events.append(event)
                if event.kind == "finished":
                    group.cancel_scope.cancel()

            calls = [Call("forever", {}), ADD]
            await run_calls(calls, [forever, add], on_event=watch)

    anyio.run(main)
    finished = [event.result for event in events if event.kind == "finished"]
    assert [result.content for result in finished if result is not None] == ["3"]
    assert ended == ["forever"]


def test_a_native_cancel_of_the_task() -> None:
    started = []

    @tool
    async def forever() -> None:
        started.append(1)
        await anyio.sleep(math.inf)

    async def main() -> None:
        task = asyncio.create_task(run_calls([Call("forever", {})] * 2, [forever]))
        while len(started) < 2:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_events_come_in_order_also_from_threads() -> None:
    events: list[ToolEvent] = []

    @tool
    def threaded(ctx: RunContext[None]) -> str:
        ctx.progress("one")
        ctx.progress("two")
        return "end"

    run([Call("threaded", {})], [threaded], on_event=events.append)
    assert [(e.kind, e.message) for e in events] == [
        ("started", ""),
        ("progress", "one"),
        ("progress", "two"),
        ("finished", ""),
    ]


def test_a_thread_that_was_left_behind_is_not_heard_any_more() -> None:
    events: list[ToolEvent] = []
    release, ended = threading.Event(), threading.Event()

    @tool(timeout=0.05)
    def hang(ctx: RunContext[None]) -> None:
        ctx.progress("before")
        release.wait(60)
        ctx.progress("after")
        ended.set()

    async def main() -> None:
        await run_calls([Call("hang", {})], [hang], lambda *_: RunContext(deps=None), on_event=events.append)
        release.set()
        while not ended.is_set():
            await anyio.sleep(0.001)
        await anyio.sleep(0)  # what the thread handed to the loop has run now

    anyio.run(main)
    assert [e.message for e in events if e.kind == "progress"] == ["before"]
    assert events[-1].kind == "finished"


def test_a_handler_of_events_that_raises_harms_nobody() -> None:
    def handler(event: ToolEvent) -> None:
        raise RuntimeError("a bug in the caller")

    assert [r.content for r in run([ADD, ADD], [add], on_event=handler)] == ["3", "3"]


def test_a_context_that_cannot_be_made_is_an_error_of_its_call() -> None:
    def make(index: int, call: Call) -> RunContext[None]:
        if index == 0:
            raise LookupError("no deps")
        return RunContext(deps=None)

    async def main() -> list[ToolResult]:
        return await run_calls([ADD, ADD], [add], make)

    assert [r.outcome for r in anyio.run(main)] == ["error", "ok"]


def delete(log: list[str]) -> Tool:
    def delete(path: str) -> str:
        log.append(path)
        return f"deleted {path}"

    return Tool(delete, requires_approval=True)


DELETE = Call("delete", {"path": "a"})


def test_nobody_to_ask_defers() -> None:
    log: list[str] = []
    deferred, fine = run([DELETE, ADD], [delete(log), add])
    assert (deferred.outcome, deferred.content, deferred.arguments) == ("deferred", "", {"path": "a"})
    assert fine.content == "3"
    assert log == []


async def async_yes(request: ApprovalRequest) -> bool:
    return True


@pytest.mark.parametrize(
    ("approve", "outcome", "content", "ran"),
    [
        (lambda r: True, "ok", "deleted a", ["a"]),
        (async_yes, "ok", "deleted a", ["a"]),
        (lambda r: ToolApproved(), "ok", "deleted a", ["a"]),
        (lambda r: ToolApproved({"path": "b"}), "ok", "deleted b", ["b"]),
        (lambda r: ToolApproved({"file": "b"}), "retry", None, []),
        (lambda r: False, "denied", "The user denied this call.", []),
        (lambda r: ToolDenied("not that one"), "denied", "not that one", []),
        (lambda r: None, "deferred", "", []),
        (lambda r: "yes", "error", None, []),
    ],
)
def test_approvals(approve: Callable[..., Any], outcome: str, content: str | None, ran: list[str]) -> None:
    log: list[str] = []
    result, fine = run([DELETE, ADD], [delete(log), add], approve=approve)
    assert result.outcome == outcome
    assert content is None or result.content == content
    assert log == ran
    assert result.call is DELETE
    assert fine.content == "3"


def test_approvals_are_asked_one_at_a_time() -> None:
    asking: list[int] = []
    most: list[int] = []

    async def approve(request: ApprovalRequest) -> bool:
        asking.append(request.call_index)
        await anyio.sleep(0.002)
        most.append(len(asking))
        asking.remove(request.call_index)
        return True

    results = run([DELETE] * 5, [delete([])], approve=approve)
    assert most == [1] * 5
    assert {result.outcome for result in results} == {"ok"}


def test_a_tool_that_asks_while_it_runs() -> None:
    requests: list[ApprovalRequest] = []

    @tool
    def pay(ctx: RunContext[None], amount: int) -> str:
        if amount > 100 and not ctx.tool_call_approved:
            raise ApprovalRequired("a large amount", {"amount": amount})
        return f"paid {amount}"

    def approve(request: ApprovalRequest) -> bool:
        requests.append(request)
        return True

    calls = [Call("pay", {"amount": 5}), Call("pay", {"amount": 500})]
    assert [r.content for r in run(calls, [pay], approve=approve)] == ["paid 5", "paid 500"]
    assert [(r.reason, r.metadata) for r in requests] == [("a large amount", {"amount": 500})]
    deferred = run(calls, [pay])[1]
    assert (deferred.outcome, deferred.reason, deferred.metadata) == ("deferred", "a large amount", {"amount": 500})


def test_a_context_that_is_approved_already_asks_nobody() -> None:
    log: list[str] = []

    async def main() -> list[ToolResult]:
        return await run_calls(
            [DELETE], [delete(log)], lambda index, call: RunContext(deps=None, tool_call_approved=True)
        )

    assert anyio.run(main)[0].outcome == "ok"
    assert log == ["a"]


def test_long_results_are_cut(tmp_path: Any) -> None:
    @tool
    def big() -> str:
        return "\n".join(f"line {n}" for n in range(1000))

    cap = ResultCap(60, lambda text: len(text.split()), tmp_path)
    (result,) = run([Call("big", {})], [big], cap=cap)
    assert result.full_text is not None
    assert result.full_text.read_text().endswith("line 999")
    assert str(result.full_text) in result.content
    assert result.content.startswith("line 0\n")
    assert result.content.endswith("line 999")
    assert len(result.content.split()) <= 60
