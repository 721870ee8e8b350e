"""Blocking work in one worker thread, its events on the event loop, and a cancel that waits until it has stopped."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from ..engine.seam import CancelToken
from ..events import Event

__all__ = ["Relay", "in_worker"]

T = TypeVar("T")

PAUSE = 0.004
"""Seconds between two wakes of the loop."""


class Relay:
    """Hands events from a worker thread to `emit` on the loop's thread, in order, without waiting for it. The loop is
    woken at most every few milliseconds, since a wake costs as much as reading several tokens."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._items: deque[Event] = deque()
        self._scheduled = False

    def __call__(self, event: Event) -> None:
        """Called in the worker thread."""
        self._items.append(event)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon_threadsafe(self._loop.call_later, PAUSE, self.flush)

    def flush(self) -> None:
        """Called on the loop's thread: hand over everything that came so far."""
        self._scheduled = False
        while self._items:
            self._emit(self._items.popleft())


async def in_worker(
    work: Callable[[CancelToken, Callable[[Event], None]], T],
    *,
    cancel: CancelToken | None = None,
    emit: Callable[[Event], None] | None = None,
) -> T:
    """Run `work(cancel, on_event)` in a worker thread and return what it returns.

    A cancel of this task, or of `cancel` from anywhere, reaches the work through the token that it is given; this
    function comes back only when the work has ended, so that nothing is still being decoded then.
    """
    relay = None if emit is None else Relay(emit)
    own = CancelToken()
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work(own, relay or _ignore))
        except BaseException as error:
            failure.append(error)

    async def job() -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(run)
        ended.set()

    ended = anyio.Event()
    with (cancel or CancelToken()).watched_by(own.cancel):
        if cancel is not None and cancel.cancelled:
            own.cancel()
        try:
            # A task of its own waits for the thread: a shield here would not hold against asyncio's own cancel, which
            # is what Ctrl-C becomes.
            async with anyio.create_task_group() as group:
                group.start_soon(job)
                try:
                    await ended.wait()
                except BaseException:
                    own.cancel()
                    raise
        finally:
            if relay is not None:
                relay.flush()
    await anyio.lowlevel.checkpoint_if_cancelled()
    if failure:
        raise failure[0]
    return outcome[0]


def _ignore(_: Any) -> None:
    return None
