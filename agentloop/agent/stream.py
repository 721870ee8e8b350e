"""AgentRun: a run that is going on, its events as they come, its result at the end."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from ..conversation import Conversation
from ..events import Event
from ..exceptions import RunCancelled
from ..limits import Usage
from .loop import drive
from .result import RunResult
from .run import Run

__all__ = ["AgentRun", "open_run"]


class AgentRun:
    """Iterate over it to get the events, the result last; an error that ends the run is raised there. Made by
    `Agent.stream`."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._send: MemoryObjectSendStream[Event]
        self._receive: MemoryObjectReceiveStream[Event]
        self._send, self._receive = anyio.create_memory_object_stream[Event](math.inf)
        self._result: RunResult[Any] | None = None
        self._error: BaseException | None = None
        run.on_event = self._send.send_nowait

    @property
    def conversation(self) -> Conversation | None:
        """The run's conversation; None before it has begun."""
        return self._run.started

    @property
    def usage(self) -> Usage:
        """What the run used so far."""
        return self._run.usage

    @property
    def result(self) -> RunResult[Any]:
        """The result. Raises the error that ended the run, or RunCancelled when it has not ended."""
        if self._result is not None:
            return self._result
        if self._error is not None:
            raise self._error
        raise RunCancelled("the run has not ended: iterate over its events first", self.conversation)

    def cancel(self) -> None:
        """Stop the run, from any thread: the model at its next token, tools at once. The iterator then raises
        RunCancelled, which carries the conversation."""
        self._run.cancel.cancel()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        try:
            return await self._receive.receive()
        except anyio.EndOfStream:
            if self._error is not None:
                raise self._error from None
            raise StopAsyncIteration from None

    async def _drive(self) -> None:
        try:
            self._result = await drive(self._run)
        except Exception as error:
            self._error = error
        finally:
            self._send.close()


@asynccontextmanager
async def open_run(run: Run) -> AsyncIterator[AgentRun]:
    """Start the run in a task of its own; it ends, cancelled if need be, before the block is left."""
    handle = AgentRun(run)
    failure: BaseException | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(handle._drive)
        try:
            yield handle
        except BaseException as error:  # raised again below: a task group would wrap it
            failure = error
        group.cancel_scope.cancel()
    handle._receive.close()
    if failure is not None:
        raise failure
