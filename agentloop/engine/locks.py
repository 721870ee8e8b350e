"""A lock that serves its waiters in the order in which they came.

`threading.Lock` lets the thread that has just released it take it again at once, so a decode loop would starve every
other sequence of the same engine.
"""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType

__all__ = ["FairLock"]


class FairLock:
    """First come, first served; not reentrant. Use it as a context manager."""

    __slots__ = ("_guard", "_held", "_waiters")

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held = False
        self._waiters: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        with self._guard:
            if not self._held:
                self._held = True
                return
            gate = threading.Lock()
            gate.acquire()
            self._waiters.append(gate)
        try:
            gate.acquire()
        except BaseException:  # KeyboardInterrupt while waiting: leave the queue, or pass on what was handed over
            with self._guard:
                try:
                    self._waiters.remove(gate)
                except ValueError:
                    self._pass_on()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._guard:
            self._pass_on()

    def _pass_on(self) -> None:
        if self._waiters:
            self._waiters.popleft().release()  # ownership goes straight to the next in line
        else:
            self._held = False

    @property
    def held(self) -> bool:
        return self._held
