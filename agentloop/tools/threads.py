"""Run a sync function beside the event loop, in a thread that may be left behind.

The thread is a daemon: a tool that never returns, or an `input()` that nobody answers, does not keep the process alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

import anyio.to_thread

__all__ = ["run_in_thread"]

T = TypeVar("T")


async def run_in_thread(function: Callable[[], T], name: str = "tool") -> T:
    """Call `function` in a thread of its own, with a copy of the context variables; returns or raises what it does.

    When the caller is cancelled it goes on at once; the thread runs to its end and what it returns is dropped. At most
    as many threads run at once as anyio's default limiter allows, those left behind not counted.
    """
    loop = asyncio.get_running_loop()
    context = contextvars.copy_context()
    future: asyncio.Future[T] = loop.create_future()

    def deliver(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)  # type: ignore[arg-type]
        elif isinstance(error, StopIteration):  # a future cannot hold one
            future.set_exception(RuntimeError("the function raised StopIteration"))
        else:
            future.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            result = context.run(function)
        except BaseException as exc:
            error = exc
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(deliver, result, error)

    async with anyio.to_thread.current_default_thread_limiter():
        threading.Thread(target=work, name=name, daemon=True).start()
        return await future
