"""Sequence: a token list and the live state that has decoded it."""

from __future__ import annotations

import operator
from collections.abc import Sequence as SequenceOf

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ContextFull
from .checkpoints import Checkpoint
from .generation import Generation
from .seam import CancelToken, Progress, Sampling, SequenceStats, Steering, Truncation
from .sequence_core import SequenceCore
from .snapshots import Snapshot

__all__ = ["Sequence"]


class Sequence(SequenceCore):
    """Made by `Engine.sequence`, `fork` and `Engine.restore`. One thread at a time may use it; several sequences of one
    engine may be used from several threads, which take turns batch by batch."""

    def __len__(self) -> int:
        return len(self._tokens)

    def __repr__(self) -> str:
        waiting = len(self._tokens) - self._state.n
        return f"<Sequence of {len(self._tokens)} tokens, {waiting} waiting>"

    @property
    def tokens(self) -> tuple[int, ...]:
        """Every token of the sequence, in order: the truth."""
        return tuple(self._tokens)

    @property
    def n_ctx(self) -> int:
        """How many tokens this sequence can hold."""
        return self._engine.n_ctx

    @property
    def n_decoded(self) -> int:
        """How many tokens the state holds: `len(self)`, or one less while a sampled token waits."""
        return self._state.n

    @property
    def stats(self) -> SequenceStats:
        """Counters since the sequence was made; subtract two to get what happened between."""
        return self._counters.frozen(self._checkpoints)

    @property
    def drafting_s(self) -> float:
        """`stats.draft_s` alone: cheap enough to be read after each step."""
        return self._counters.draft_s

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The checkpoints held now, by position."""
        return tuple(self._checkpoints)

    def extend(
        self, ids: SequenceOf[int], *, cancel: CancelToken | None = None, progress: Progress | None = None
    ) -> None:
        """Append `ids` and decode them, a waiting token first. On return the state stands exactly behind `tokens`.

        A long prefill leaves checkpoints 512 and 64 tokens before its end. `progress(done, total)` is called between
        batches. Raises ContextFull before anything is decoded; after DecodeCancelled or DecodeError `tokens` holds
        what was decoded and the sequence can go on.
        """
        new = self._engine.check_ids(ids)
        with self._exclusive():
            start = len(self._tokens)
            if start + len(new) > self.n_ctx:
                raise ContextFull(len(new), self.n_ctx - start, self.n_ctx)
            if not new and self._state.n == start:
                return
            self._epoch += 1
            self._tokens += new
            try:
                self._catch_up(cancel, progress, marks=_prefill_marks(start, len(self._tokens)))
            except BaseException:
                del self._tokens[max(self._state.n, start) :]
                self._seen = min(self._seen, len(self._tokens))
                self._forget_behind_state()
                raise

    def logits(self) -> NDArray[np.float32]:
        """A copy, float32 [n_vocab], of the logits behind the last token; a waiting token is decoded first.
        ValueError when there are no tokens."""
        with self._exclusive():
            self._catch_up()
            with self._engine.lock:
                row: NDArray[np.float32] = self._behind().copy()
                return row

    def generate(
        self,
        max_tokens: int,
        sampling: Sampling | None = None,
        steering: Steering | None = None,
        *,
        cancel: CancelToken | None = None,
    ) -> Generation:
        """Sample up to `max_tokens` tokens (greedy by default). Nothing happens before the first `next`.

        The last token waits undecoded. An end-of-generation token is the last one. Stopping early, or closing the
        iterator, leaves the sequence consistent; a cancel raises DecodeCancelled between two tokens.
        """
        if max_tokens < 0:
            raise ValueError(f"max_tokens must be >= 0, not {max_tokens}")
        self._check_open()
        return Generation(self, max_tokens, sampling or Sampling(), steering, cancel)

    def truncate(self, n: int) -> Truncation:
        """Keep the first `n` tokens and bring the state there, exactly and in the cheapest way; says which.

        "none": only a waiting token went. "ring" and "trim": the last kept token waits and is decoded with the next
        batch. "checkpoint" and "start": what lies behind the checkpoint was decoded again. ValueError unless
        0 <= n <= len(self). When a decode fails on the way, DecodeError, and the tokens are cut all the same.
        """
        n = operator.index(n)
        with self._exclusive():
            if not 0 <= n <= len(self._tokens):
                raise ValueError(f"cannot keep {n} of {len(self._tokens)} tokens")
            if n == len(self._tokens):
                return "none"
            self._epoch += 1
            with self._engine.lock:
                how = self._rewind(n)
            del self._tokens[n:]
            self._seen = min(self._seen, n)
            self._drop_checkpoints(n)
            self._forget_behind_state()
            if self._state.n < n - 1:
                self._catch_up()
            return how

    def replace_tail(
        self,
        n: int,
        ids: SequenceOf[int],
        *,
        cancel: CancelToken | None = None,
        progress: Progress | None = None,
    ) -> Truncation:
        """`truncate(n)` and `extend(ids)` in one: what lies behind the restored state goes in with the new tokens, in
        the same batches. Says how it went back; raises as the two do. When a decode fails or is cancelled, the tokens
        behind `n` that were not decoded are gone."""
        new, n = self._engine.check_ids(ids), operator.index(n)
        with self._exclusive():
            if not 0 <= n <= len(self._tokens):
                raise ValueError(f"cannot keep {n} of {len(self._tokens)} tokens")
            if n + len(new) > self.n_ctx:
                raise ContextFull(len(new), self.n_ctx - n, self.n_ctx)
            self._epoch += 1
            with self._engine.lock:
                how = self._rewind(n)
            del self._tokens[n:]
            self._seen = min(self._seen, n)
            self._drop_checkpoints(n)
            self._forget_behind_state()
            self._tokens += new
            try:
                self._catch_up(cancel, progress, marks=_prefill_marks(n, len(self._tokens)))
            except BaseException:
                del self._tokens[max(self._state.n, n) :]
                self._forget_behind_state()
                raise
            return how

    def checkpoint(self, *, label: str = "", pinned: bool = False) -> None:
        """Keep the state behind the current tokens for a later truncate; a waiting token is decoded first.

        `label` says what the place is ("system", "turn", "tool", ...) and how long it stays when bytes run out; a
        pinned one stays as long as the sequence. One checkpoint a position; without tokens there is nothing to keep.
        """
        with self._exclusive():
            self._catch_up()
            if self._tokens:
                with self._engine.lock:
                    self._engine.activate(self)
                    self._keep_checkpoint(label, pinned)

    def fork(self) -> Sequence:
        """A second sequence at the same point; both go on independently. Nothing is decoded, except a waiting token
        while a rollback is pending. Checkpoints are shared."""
        with self._exclusive():
            self._commit()
            child = Sequence(self._engine)
            with self._engine.lock:
                self._row = self._known_row()
                self._engine.place_copy(self, child)
            child._tokens = list(self._tokens)
            child._row = self._row
            child._seen = self._seen
            child._checkpoints = list(self._checkpoints)
            return child

    def snapshot(self, extra: dict[str, bytes] | None = None) -> Snapshot:
        """Everything needed to go on elsewhere: tokens, state, logits, pinned checkpoints, and the caller's `extra`
        bytes by name. Nothing is decoded; the sequence goes on as it is."""
        with self._exclusive(), self._engine.lock:
            return self._engine.take_snapshot(self, extra or {})

    def close(self) -> None:
        """Give back slot, cells and checkpoints. Further use raises ClosedError. Closing twice is allowed."""
        with self._busy, self._engine.lock:
            if not self._closed:
                self._closed = True
                self._drop_checkpoints(-1)
                self._engine.forget(self)


def _prefill_marks(start: int, end: int) -> tuple[int, ...]:
    """Where a long prefill keeps checkpoints: another question about the same document then costs the question."""
    if end - start < 768:
        return ()
    return (end - 512, end - 64)
