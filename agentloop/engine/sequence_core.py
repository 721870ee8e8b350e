"""What a sequence does inside: decode, roll back, restore, repair, and keep its drafters told.

Invariant, after every call, also one that raised: the state stands behind the tokens, or one token short of it. The
token in between waits; it goes in with the next batch. Only a repair that failed itself may leave the state further
behind; the next call then decodes what is missing first.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from collections.abc import Sequence as SequenceOf
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ClosedError, ContextFull, DecodeCancelled, DecodeError, EngineError
from .checkpoints import Checkpoint
from .counters import Counters
from .drafters import Drafter
from .seam import CancelToken, Progress, Truncation
from .state import FAILED, LiveState

if TYPE_CHECKING:
    from .engine import Engine

__all__ = ["SequenceCore"]

_log = logging.getLogger("agentloop.engine")

_ABORTABLE = 8  # batches above this many tokens can be stopped in the middle, where the backend allows it


class SequenceCore:
    """The part of a sequence that its engine and its generations use. Methods that say so need the engine's lock."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tokens: list[int] = []
        self._state = LiveState(engine.cuttable)
        self._row: NDArray[np.float32] | None = None  # logits behind the state, if kept
        self._row_serial = -1  # else: the decode that left them in the context's buffer
        self._row_index = -1  # which row of that decode
        self._checkpoints: list[Checkpoint] = []  # by position
        self._drafters: list[Drafter] = [factory.create() for factory in engine.drafters]
        self._counters = Counters()
        self._seen = 0  # leading tokens that were decoded once; decoding them again counts as recomputed
        self._epoch = 0  # changes when tokens are cut or appended by anything but the running generation
        self._busy = threading.Lock()
        self._closed = False

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        self._enter()
        try:
            yield
        finally:
            self._busy.release()

    def _enter(self) -> None:
        if not self._busy.acquire(blocking=False):
            raise EngineError("this sequence is in use by another thread (or from its own steering); fork it instead")
        if self._closed or self._engine.closed:
            self._busy.release()
            self._check_open()

    def _check_open(self) -> None:
        if self._closed or self._engine.closed:
            raise ClosedError("the sequence or its engine was closed before; make a new one with engine.sequence()")

    def _commit(self) -> None:
        """Decode what waits if a rollback is pending: a copy made before that decode would be wrong."""
        if self._state.pending or self._state.n < len(self._tokens) - 1:
            self._catch_up()

    def _catch_up(
        self, cancel: CancelToken | None = None, progress: Progress | None = None, marks: SequenceOf[int] = ()
    ) -> None:
        """Decode every token that the state lacks, in batches that end at `marks`, where checkpoints are kept."""
        end, first = len(self._tokens), self._state.n
        if first >= end:
            return
        started = time.perf_counter()
        try:
            while self._state.n < end:
                if cancel is not None and cancel.cancelled:
                    raise DecodeCancelled(f"cancelled after {self._state.n - first} of {end - first} tokens")
                with self._engine.lock:
                    self._engine.activate(self)
                    stop = min([m for m in marks if m > self._state.n], default=end)
                    stop = min(stop, end, self._state.n + self._engine.n_batch)
                    self._decode(self._tokens[self._state.n : stop], cancel)
                    if stop in marks:
                        self._keep_checkpoint("prefill", False)
                    if stop == end:  # before another sequence's decode takes the buffer
                        self._row = self._known_row()
                if progress is not None:
                    progress(self._state.n - first, end - first)
        finally:
            self._counters.prefill_s += time.perf_counter() - started

    def _decode_to(self, end: int, cancel: CancelToken | None = None) -> None:
        """Decode the tokens that the state lacks before position `end`."""
        while self._state.n < end:
            with self._engine.lock:
                self._engine.activate(self)
                self._decode(self._tokens[self._state.n : min(end, self._state.n + self._engine.n_batch)], cancel)

    def _decode_to_locked(self, end: int) -> None:
        """The same with the lock held already; there is something to do only after a repair that failed."""
        while self._state.n < end:
            self._decode(self._tokens[self._state.n : min(end, self._state.n + self._engine.n_batch)])

    def _keep_rows(self, n: int, row_index: int) -> None:
        """After a verified draft: go back to `n` tokens; row `row_index` of the batch has the logits behind them."""
        serial = self._row_serial
        if not self._state.roll_back(self._engine.context, n):
            # The ring did not do what it must; fall back to what is always exact.
            self._to_checkpoint(n)
            self._decode_to_locked(n)
            return
        self._seen = min(self._seen, n)
        self._row, self._row_serial, self._row_index = None, serial, row_index

    def _observe(self, ids: SequenceOf[int], start: int, rows: int) -> None:
        """Tell the drafters what the target decoded; the first `rows` ids stay. One that fails is left out."""
        for drafter in list(self._drafters):
            try:
                drafter.observe(self._engine.context, ids, start, rows)
            except Exception as error:
                self._lose_drafter(drafter, error)

    def _forget_behind_state(self) -> None:
        """Drafters know nothing behind the state: what they saw there was cut, or will be decoded again."""
        with self._engine.lock:
            if not self._engine.closed:  # it may have been closed since the last look, and the drafters with it
                self._rewind_drafters(self._state.n)

    def _rewind_drafters(self, n: int) -> None:
        for drafter in list(self._drafters):
            try:
                drafter.rewind(n)
            except Exception as error:
                self._lose_drafter(drafter, error)

    def _move_drafters(self, slot: int | None) -> None:
        for drafter in list(self._drafters):
            try:
                drafter.move(slot)
            except Exception as error:
                self._lose_drafter(drafter, error)

    def _lose_drafter(self, drafter: Drafter, error: Exception) -> None:
        _log.warning("drafter %s failed and is left out of this sequence: %r", drafter.name, error)
        if drafter in self._drafters:
            self._drafters.remove(drafter)

    def _next_row(self) -> NDArray[np.float32]:
        """Logits for the next token, valid until the next decode; a waiting token is decoded for it. Lock held."""
        engine, state = self._engine, self._state
        n, slot = state.n, state.slot
        # The common case, in as few steps as it can be: every microsecond here is paid for each token.
        if slot is not None and n == len(self._tokens) - 1 >= self._seen and not engine.closed:
            ctx = engine.context
            code = ctx.decode_one(self._tokens[n], n, slot)
            if code == 0:
                state.n = self._seen = n + 1
                state.ring_room, state.pending = 0, False
                self._row, self._row_serial, self._row_index = None, ctx.serial, -1
                self._counters.evaluated += 1
                engine.touch(slot)
                if self._drafters:
                    self._observe(self._tokens[n:], n, 1)
                return ctx.row(0)
            if code in FAILED:  # computed in part: nothing may be decoded behind it
                self._repair(n, None)
                raise DecodeError(code, n, "the batch was not decoded and the state was repaired; try again")
        engine.activate(self)
        n = self._state.n
        if n == len(self._tokens):
            return self._behind()
        self._decode_to_locked(len(self._tokens) - 1)
        self._decode(self._tokens[-1:])
        return self._engine.context.row(-1)

    def _decode(
        self,
        ids: SequenceOf[int],
        cancel: CancelToken | None = None,
        all_outputs: bool = False,
        observe: bool = True,
    ) -> None:
        """One batch, lock held, slot taken. On failure the state is repaired, then DecodeError or DecodeCancelled."""
        ctx, state = self._engine.context, self._state
        before, size = state.n, len(ids)
        abortable = cancel is not None and size > _ABORTABLE
        guard = state.save_recurrent(ctx) if abortable and before else None
        row, self._row = self._row, None
        while True:
            if abortable and cancel is not None:
                ctx.arm()
                with cancel.watched_by(ctx.abort):
                    code = 2 if cancel.cancelled else state.decode(ctx, ids, all_outputs=all_outputs, abortable=True)
            else:
                code = state.decode(ctx, ids, all_outputs=all_outputs)
            if code == 1 and self._engine.park_another(self):
                continue  # cells were freed; llama.cpp left the state as it was
            break
        if code == 0:
            self._row_serial, self._row_index = ctx.serial, -1
            self._counters.evaluated += size
            self._counters.recomputed += max(0, min(self._seen, before + size) - before)
            self._seen = max(self._seen, before + size)
            if observe:
                self._observe(ids, before, size)
            return
        if code in (1, -1):  # refused before anything was computed
            self._row = row
        else:
            self._repair(before, guard)
            if state.n == before:
                self._row = row
        if code == 2:
            raise DecodeCancelled(f"cancelled in the batch at position {before}")
        if code == 1:
            raise ContextFull(size, 0, self._engine.n_ctx)
        raise DecodeError(code, before, "the batch was not decoded and the state was repaired; try again")

    def _repair(self, n: int, guard: bytes | None) -> None:
        """The state is poisoned although its positions look right: back to `n` tokens, or to the best place before."""
        ctx, state = self._engine.context, self._state
        state.n = ctx.position(state.live())
        if state.cuttable:
            ctx.remove(state.live(), n)
            state.n, state.ring_room = ctx.position(state.live()), 0
            return
        if guard is not None and state.restore_recurrent(ctx, n, guard):
            return
        self._to_checkpoint(n)

    def _resync(self) -> None:
        """The context's position is not the state's: trust neither and go back to a place that is sure. What is missing
        then is decoded again."""
        ctx, state = self._engine.context, self._state
        sure = min(state.n, ctx.position(state.live()), len(self._tokens))
        state.n = ctx.position(state.live())
        state.ring_room, state.pending = 0, False
        self._row, self._row_serial = None, -1
        if state.cuttable and sure > 1 and ctx.remove(state.live(), sure - 1):
            state.n = sure - 1
        else:
            self._to_checkpoint(max(0, sure - 1))

    def _rewind(self, n: int) -> Truncation:
        """Bring the state to at most `n` tokens, so that decoding the rest up to `n` gives exactly their state."""
        state = self._state
        if n >= state.n:
            return "none"
        self._engine.activate(self)
        ctx = self._engine.context
        row_at = next((c for c in self._checkpoints if c.position == n and c.row is not None), None)
        if n > 0:
            if row_at is not None and state.cuttable and state.roll_back(ctx, n):
                self._row = row_at.row
                return "trim"
            if (row_at is None or not state.cuttable) and n > 1 and state.roll_back(ctx, n - 1):
                self._row, self._row_serial = None, -1
                return "trim" if state.cuttable else "ring"
        return self._to_checkpoint(n)

    def _to_checkpoint(self, n: int) -> Truncation:
        """Restore the last checkpoint at or before `n` (at `n` only with its logits), else empty the state."""
        self._row, self._row_serial = None, -1
        ctx, state = self._engine.context, self._state
        usable = [c for c in self._checkpoints if c.position < n or (c.position == n and c.row is not None)]
        for checkpoint in reversed(usable):
            if checkpoint.position <= state.n and state.restore_recurrent(ctx, checkpoint.position, checkpoint.state):
                self._row = checkpoint.row
                self._engine.checkpoints.touch(checkpoint)
                return "checkpoint"
        state.clear(ctx)
        return "start"

    def _keep_checkpoint(self, label: str, pinned: bool) -> None:
        """Lock held, slot taken, state behind the last decoded token."""
        engine, n = self._engine, self._state.n
        old = next((c for c in self._checkpoints if c.position == n), None)
        if old is not None:
            label, pinned = label or old.label, pinned or old.pinned
            self._checkpoints.remove(old)
        data = self._state.save_recurrent(engine.context)
        if data is None:
            return  # llama.cpp could not write it; truncate then takes another way
        row = self._known_row()
        checkpoint = Checkpoint(n, data, None if row is None else row.copy(), label, pinned)
        self._checkpoints.append(checkpoint)
        self._checkpoints.sort(key=lambda c: c.position)
        engine.checkpoints.touch(checkpoint)
        engine.checkpoints.thin()

    def _drop_checkpoints(self, after: int) -> None:
        """Let go of the checkpoints behind position `after`: their attention KV is gone."""
        self._checkpoints = [c for c in self._checkpoints if c.position <= after]

    def _known_row(self) -> NDArray[np.float32] | None:
        """Logits behind the state, if they are still to be had. Lock held."""
        ctx = self._engine.context
        if self._row is None and self._row_serial == ctx.serial and not self._engine.closed:
            self._row = ctx.row(self._row_index).copy()
        return self._row

    def _behind(self) -> NDArray[np.float32]:
        """Logits behind the state, made again if they were lost. Lock held, nothing waiting."""
        row = self._known_row()
        if row is not None:
            return row
        n = self._state.n
        if n == 0:
            raise ValueError("there are no logits before the first token; extend the sequence first")
        self._engine.activate(self)
        if not (n > 1 and self._state.roll_back(self._engine.context, n - 1)):
            self._to_checkpoint(n - 1 if n > 1 else 0)
        while self._state.n < n:
            stop = min(n, self._state.n + self._engine.n_batch)
            self._decode(self._tokens[self._state.n : stop])
        row = self._known_row()
        assert row is not None
        return row
