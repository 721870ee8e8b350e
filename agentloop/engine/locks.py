"""A lock that serves its waiters in the order in which they came.

`threading.Lock` lets the thread that has just released it take it again at once, so a decode loop would starve every
other sequence of the same engine.
"""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType

from ..exceptions import EngineError

__all__ = ["FairLock"]


class FairLock:
    """First come, first served; not reentrant. Use it as a context manager."""

    __slots__ = ("_guard", "_held", "_owner", "_waiters")

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held = False
        self._owner = 0
        self._waiters: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        me = threading.get_ident()
        if self._owner == me:
            raise EngineError(
                "the engine was called from inside one of its own steps (from steering?); do it afterwards"
            )
        with self._guard:
            if not self._held:
                self._held = True
                self._owner = me
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
        self._owner = me

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._guard:
            self._pass_on()

    def _pass_on(self) -> None:
        self._owner = 0
        if self._waiters:
            self._waiters.popleft().release()  # ownership goes straight to the next in line
        else:
            self._held = False

    @property
    def held(self) -> bool:
        return self._held
