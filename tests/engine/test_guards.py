"""The proof has teeth: with any one guard taken out, the random programs find a wrong state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentloop.engine import Engine, Sequence
from agentloop.engine.state import LiveState
from tests.engine.test_state_machine import run_programs


def ring_without_count(patch: pytest.MonkeyPatch) -> None:
    """Trust llama.cpp's True: every rollback up to the ring's depth is taken."""
    decode = LiveState.decode

    def generous(self: LiveState, ctx: Any, ids: Any, **how: Any) -> int:
        code = decode(self, ctx, ids, **how)
        self.ring_room = ctx.n_ring
        return code

    patch.setattr(LiveState, "decode", generous)


def whole_batch(patch: pytest.MonkeyPatch) -> None:
    """Allow one row too many: the whole last batch."""
    decode = LiveState.decode

    def generous(self: LiveState, ctx: Any, ids: Any, **how: Any) -> int:
        code = decode(self, ctx, ids, **how)
        if code == 0:
            self.ring_room = min(ctx.n_ring, len(ids))
        return code

    patch.setattr(LiveState, "decode", generous)


def no_kv_trim(patch: pytest.MonkeyPatch) -> None:
    """Restore the recurrent part and leave the attention KV as it is."""

    def restore(self: LiveState, ctx: Any, n: int, data: bytes) -> bool:
        if not ctx.load(self.live(), data, 1):
            return False
        self.n, self.ring_room, self.pending = n, 0, False
        return True

    patch.setattr(LiveState, "restore_recurrent", restore)


def no_recurrent_restore(patch: pytest.MonkeyPatch) -> None:
    """Cut the attention KV at the checkpoint and keep the recurrent state that is there."""

    def restore(self: LiveState, ctx: Any, n: int, data: bytes) -> bool:
        whole = ctx.save(self.live(), 1)
        ctx.load(self.live(), data, 1)
        ctx.remove(self.live(), n)
        at = data[:20] + whole[20:]  # positions of the checkpoint, content of now
        ctx.load(self.live(), at, 1)
        self.n, self.ring_room, self.pending = n, 0, False
        return True

    patch.setattr(LiveState, "restore_recurrent", restore)


def no_repair(patch: pytest.MonkeyPatch) -> None:
    """Believe the positions after an aborted decode."""

    def nothing(self: Sequence, n: int, guard: bytes | None) -> None:
        self._state.n = self._engine.context.position(self._state.live())

    patch.setattr(Sequence, "_repair", nothing)


def fork_with_a_pending_rollback(patch: pytest.MonkeyPatch) -> None:
    """Copy a state whose rollback no decode has committed."""
    copy_from = LiveState.copy_from

    def eager(self: LiveState, ctx: Any, source: LiveState, slot: int) -> None:
        source.pending = False
        copy_from(self, ctx, source, slot)

    patch.setattr(LiveState, "copy_from", eager)
    patch.setattr(Sequence, "_commit", lambda self: None)


def stale_logits(patch: pytest.MonkeyPatch) -> None:
    """Keep the logits row over a rollback to a checkpoint."""
    to_checkpoint = Sequence._to_checkpoint

    def keep(self: Sequence, n: int) -> Any:
        row = self._known_row()
        how = to_checkpoint(self, n)
        if self._state.n:
            self._row = row
        return how

    patch.setattr(Sequence, "_to_checkpoint", keep)


@pytest.mark.parametrize(
    "sabotage",
    [
        ring_without_count,
        whole_batch,
        no_kv_trim,
        no_recurrent_restore,
        no_repair,
        fork_with_a_pending_rollback,
        stale_logits,
    ],
)
def test_a_missing_guard_is_found(
    hybrid: Engine, monkeypatch: pytest.MonkeyPatch, sabotage: Callable[[pytest.MonkeyPatch], None]
) -> None:
    sabotage(monkeypatch)
    with pytest.raises(AssertionError):
        run_programs(hybrid, 6000)
