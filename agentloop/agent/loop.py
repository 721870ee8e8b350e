"""The loop: append, generate, read the reply, validate, execute, append the results, repeat.

`run_loop` is all of it. Its steps are in `run.py`, what becomes of calls is in `calling.py`; a reply arrives with its
calls read and validated.
"""

from __future__ import annotations

import asyncio
import contextlib
import math

import anyio

from ..events import RunEnded
from ..exceptions import ContextFull, ConversationFull, DecodeCancelled, RunCancelled, RunError, UsageLimitExceeded
from .calling import execute, finish_open_calls
from .result import RunResult
from .run import Run

__all__ = ["drive", "run_loop"]


async def run_loop(run: Run) -> RunResult[object]:
    """Take model turns until there is an answer, or calls that wait for a person."""
    with (await run.make_conversation()).run():
        run.begin()
        deferred = await finish_open_calls(run)
        while deferred is None:
            reply = await run.model_turn()
            if reply.calls:
                deferred = await execute(run, reply.calls, reply.call_ids)
            elif (nudge := run.nudge(reply)) is not None:
                run.conversation.append({"role": "user", "content": nudge, "note": True})
            elif (output := await run.read_output(reply)) is not None:
                return run.result(output.value, reply)
        return run.result(deferred)


async def drive(run: Run) -> RunResult[object]:
    """`run_loop` under the run's wall clock and its cancel; every error that ends a run carries the conversation."""
    if run.spans is None:
        return await _drive(run)
    with run.spans.invoke(run):
        result = await _drive(run)
        run.spans.ended(result)
        return result


async def _drive(run: Run) -> RunResult[object]:
    loop = asyncio.get_running_loop()
    seconds = run.limits.seconds_limit
    scope = anyio.CancelScope(deadline=math.inf if seconds is None else anyio.current_time() + seconds)

    def stop() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the run is over
            loop.call_soon_threadsafe(scope.cancel)

    with run.cancel.watched_by(stop):
        if run.cancel.cancelled:
            scope.cancel()
        with scope:
            try:
                async with run.open_toolsets():
                    result = await run_loop(run)
                run.emit(RunEnded(result))
                return result
            except RunError as error:
                error.conversation = error.conversation or run.started
                raise
            except ContextFull as error:
                raise ConversationFull(error.needed, error.available, error.n_ctx, run.started) from error
            except DecodeCancelled:
                await anyio.lowlevel.checkpoint()
                if not run.cancel.cancelled:
                    raise
    if run.cancel.cancelled:
        if run.started is None:
            raise RunCancelled("the run was cancelled before it had a conversation; nothing was done, run it again")
        raise RunCancelled("the run was cancelled; its conversation can go on", run.started)
    assert seconds is not None
    raise UsageLimitExceeded("seconds_limit", seconds, run.clock(), run.started)
