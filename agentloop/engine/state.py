"""The model state of one sequence, and what may be done to it without making it wrong.

A hybrid model's state is attention KV, which can be cut at any position, and a recurrent state, which cannot. llama.cpp
keeps the last few recurrent states of a sequence in a ring of snapshot planes. Its `seq_rm` answers True for
rollbacks that restore a stale plane: the ring holds exactly the rows of the sequence's last micro-batch, and one
rollback of them. `LiveState` keeps count of these rows itself and refuses everything else.

Every method needs the engine's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._native import NativeContext

__all__ = ["FAILED", "LiveState"]

FAILED = frozenset({2, -2, -3})
"""Codes of llama_decode that leave a half-written recurrent state; 1 and -1 leave everything as it was."""

_PARTIAL = 1  # llama.h: LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY


class LiveState:
    """State of `n` decoded tokens. It lives in a slot of the context, or is parked as bytes (`slot` is None)."""

    __slots__ = ("blob", "cuttable", "n", "pending", "ring_room", "slot")

    def __init__(self, cuttable: bool) -> None:
        self.slot: int | None = None
        self.blob: bytes | None = None
        self.n = 0
        self.cuttable = cuttable  # attention only: any position can be cut
        self.ring_room = 0  # how many rows may be rolled back now
        self.pending = False  # a rollback was made and no decode followed it

    def live(self) -> int:
        assert self.slot is not None, "the sequence is parked"
        return self.slot

    def decode(
        self, ctx: NativeContext, ids: Sequence[int], *, all_outputs: bool = False, abortable: bool = False
    ) -> int:
        """Decode one batch behind `n`. Returns llama.cpp's code; only code 0 moves `n`."""
        code = ctx.decode(ids, self.n, self.live(), all_outputs, abortable)
        if code == 0:
            size = len(ids)
            self.n += size
            # The last n_ring + 1 rows of a batch are kept in one micro-batch; row 0 of it must stay.
            self.ring_room = min(ctx.n_ring, size - 1)
            self.pending = False
        return code

    def roll_back(self, ctx: NativeContext, n: int) -> bool:
        """Go back to `n` tokens through the ring (or by a cut, on attention-only models). False: not possible, nothing
        changed."""
        slot = self.live()
        if n > self.n or n < 0:
            return False
        if n == self.n:
            return True
        if n == 0 or not (self.cuttable or self.n - n <= self.ring_room):
            return False
        if not ctx.remove(slot, n):
            return False
        self.n, self.ring_room = n, 0
        self.pending = not self.cuttable
        return True

    def save_recurrent(self, ctx: NativeContext) -> bytes | None:
        """The recurrent part at `n`, or None where the state can be cut anyway. Exact while the KV before `n` lives."""
        if self.cuttable:
            return b""
        data = ctx.save(self.live(), _PARTIAL)
        return data or None

    def restore_recurrent(self, ctx: NativeContext, n: int, data: bytes) -> bool:
        """Go back to `n` tokens with the recurrent part saved there. After False the state is empty."""
        slot = self.live()
        done = n <= self.n and (self.cuttable or ctx.load(slot, data, _PARTIAL)) and ctx.remove(slot, n)
        if not done or ctx.position(slot) != n:
            self.clear(ctx)
            return False
        self.n, self.ring_room, self.pending = n, 0, False
        return True

    def clear(self, ctx: NativeContext) -> None:
        """Back to no tokens."""
        if self.slot is not None:
            ctx.clear(self.slot)
        self.blob = None
        self.n, self.ring_room, self.pending = 0, 0, False

    def copy_from(self, ctx: NativeContext, source: LiveState, slot: int) -> None:
        """Become a second state at the source's point, in the free `slot`. The source must have no pending rollback.

        The two share one recurrent cell until either decodes, so neither has ring room until its own next decode.
        """
        assert not source.pending, "a pending rollback must be committed by a decode before a copy"
        ctx.clear(slot)
        if source.n:
            ctx.copy(source.live(), slot)
        self.slot, self.blob, self.n = slot, None, source.n
        self.ring_room = source.ring_room = 0
        self.pending = False

    def park(self, ctx: NativeContext) -> bool:
        """Give the slot back and keep the state as bytes. False: llama.cpp could not write it; the state is empty."""
        slot = self.live()
        if self.n:
            data = ctx.save(slot)
            kept = bool(data)
            self.blob = data or None
        else:
            kept, self.blob = True, None
        ctx.clear(slot)
        self.slot, self.ring_room, self.pending = None, 0, False
        if not kept:
            self.n = 0
        return kept

    def unpark(self, ctx: NativeContext, slot: int) -> bool:
        """Take `slot` and bring the parked state back. False: it was not accepted (no free cells, or damaged); the slot
        is taken, cleared, and `blob` is kept for another try."""
        ctx.clear(slot)
        self.slot = slot
        self.ring_room, self.pending = 0, False
        if self.blob is None:
            self.n = 0
            return True
        if not ctx.load(slot, self.blob) or ctx.position(slot) != self.n:
            ctx.clear(slot)
            return False
        self.blob = None
        return True
