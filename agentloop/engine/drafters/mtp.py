"""MTP drafting: the model's own next-token head, chained.

The head reads a token and the hidden row of the token before it (after the target's output norm), and keeps its own
attention KV. Rows of tokens that the target decoded are due: they go in with the first draft of the next step, in one
decode, so that catching up costs no decode of its own. A draft's own rows are cut off again, since the target's hidden
rows replace the head's guesses.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .base import Draft

if TYPE_CHECKING:
    from .._native import NativeContext, NativeModel
    from .._native_draft import DraftContext

__all__ = ["MtpDrafter", "MtpFactory"]

_FEW = 24  # rows that a draft takes along in its own decode
_MOST_DUE = 128  # more rows than this are decoded at once: a prefill must not be paid by the next draft


class MtpDrafter:
    """State: `n` tokens are in the head's KV; then come the due ones; `_hidden` pairs with the token behind those."""

    name = "mtp"

    def __init__(self, factory: MtpFactory, slot: int | None = None) -> None:
        self._factory = factory
        self.depth = factory.depth
        self.caught_up_s = 0.0  # of the last proposal: for tokens that came while others drafted
        self._slot = slot
        self._n = 0
        self._due_ids: list[int] = []
        self._due_rows: list[NDArray[np.float32]] = []
        self._hidden: NDArray[np.float32] = np.zeros(factory.n_embd, np.float32)
        self._blob: bytes | None = None
        self._start = 0  # first position that the head knows; what lies before was never seen

    def peek(self, tokens: Sequence[int]) -> int | None:
        known = self._n + len(self._due_ids)
        return 0 if self._slot is not None and known == len(tokens) - 1 and known > 0 else None

    def propose(self, tokens: Sequence[int], k: int) -> Draft:
        if self.peek(tokens) is None or self._slot is None:
            return Draft([])
        context, slot = self._factory.context, self._slot
        self.caught_up_s = 0.0
        if len(self._due_ids) > _FEW:
            started = time.perf_counter()
            self._catch_up()
            self.caught_up_s = time.perf_counter() - started
        ids = [*self._due_ids, tokens[-1]]
        position = self._n
        context.decode(ids, np.stack([*self._due_rows, self._hidden]), position, slot)
        self._n += len(self._due_ids)
        self._due_ids, self._due_rows = [], []
        drafted = [context.best()]
        for i in range(1, k):
            context.decode(drafted[-1:], context.hidden()[None], self._n + i, slot)
            drafted.append(context.best())
        context.ctx.remove(slot, self._n)
        return Draft(drafted)

    def observe(self, ctx: NativeContext, ids: Sequence[int], start: int, rows: int) -> None:
        known = self._n + len(self._due_ids)
        if start != known:
            self.rewind(min(start, known))
            if start > known:
                self._restart(start)
        hidden = self._factory.rows_of(ctx, rows)
        self._due_ids += ids[:rows]
        self._due_rows += [self._hidden, *hidden[:-1]]
        self._hidden = hidden[-1]
        if len(self._due_ids) > _MOST_DUE:
            self._catch_up()

    def rewind(self, n: int) -> None:
        known = self._n + len(self._due_ids)
        if n >= known:
            return
        if n <= self._start:
            self._restart(n)
            return
        if n >= self._n:
            keep = n - self._n
            # the row that pairs with position n is the one that was due with the token there
            self._hidden = self._due_rows[keep]
            del self._due_ids[keep:], self._due_rows[keep:]
        else:
            self._due_ids, self._due_rows = [], []
            self._n = n
            self._hidden = np.zeros(self._factory.n_embd, np.float32)  # lost; costs one poor guess
            if self._slot is not None:
                self._factory.context.ctx.remove(self._slot, n)

    def move(self, slot: int | None) -> None:
        native = self._factory.context.ctx
        if slot is None and self._slot is not None:
            self._blob = native.save(self._slot) if self._n else None
            native.clear(self._slot)
        elif slot is not None and self._slot is None:
            native.clear(slot)
            if self._n and not (self._blob and native.load(slot, self._blob) and native.position(slot) == self._n):
                native.clear(slot)
                self._restart(self._n + len(self._due_ids))
            self._blob = None
        self._slot = slot

    def fork(self, slot: int | None) -> MtpDrafter:
        twin = MtpDrafter(self._factory, slot)
        twin._start, twin._n = self._start, self._n
        twin._due_ids, twin._due_rows, twin._hidden = list(self._due_ids), list(self._due_rows), self._hidden
        native = self._factory.context.ctx
        if slot is not None:
            native.clear(slot)
            if self._n and self._slot is not None:
                native.copy(self._slot, slot)
        elif self._n:
            twin._blob = native.save(self._slot) if self._slot is not None else self._blob
        return twin

    def save(self) -> bytes:
        native = self._factory.context.ctx
        blob = self._blob if self._slot is None else native.save(self._slot) if self._n else b""
        rows = np.stack([*self._due_rows, self._hidden]).astype("<f4").tobytes()
        ids = np.asarray(self._due_ids, "<i4").tobytes()
        return struct.pack("<III", self._start, self._n, len(self._due_ids)) + ids + rows + (blob or b"")

    def load(self, data: bytes, tokens: Sequence[int]) -> None:
        width = self._factory.n_embd * 4
        try:
            start, n, due = struct.unpack_from("<III", data)
            ids_end = 12 + 4 * due
            rows_end = ids_end + (due + 1) * width
            if len(data) < rows_end or n + due != len(tokens):
                raise ValueError
            rows = np.frombuffer(data[ids_end:rows_end], "<f4").astype(np.float32).reshape(due + 1, -1)
            ids = np.frombuffer(data[12:ids_end], "<i4").tolist()
        except (struct.error, ValueError):
            self._restart(len(tokens))
            return
        self._start, self._n, self._due_ids = start, n, ids
        self._due_rows, self._hidden = list(rows[:-1]), rows[-1]
        self._blob = data[rows_end:] or None

    def _restart(self, n: int) -> None:
        """Begin at position `n` with nothing known before it."""
        if self._slot is not None:
            self._factory.context.ctx.clear(self._slot)
        self._blob = None
        self._n = self._start = n
        self._due_ids, self._due_rows = [], []
        self._hidden = np.zeros(self._factory.n_embd, np.float32)

    def _catch_up(self) -> None:
        """Decode the due rows without a draft."""
        if self._slot is None:
            return
        most = self._factory.context.ctx.n_batch
        while self._due_ids:
            size = min(most, len(self._due_ids))
            rows = np.stack(self._due_rows[:size])
            self._factory.context.decode(self._due_ids[:size], rows, self._n, self._slot)
            self._n += size
            del self._due_ids[:size], self._due_rows[:size]


class MtpFactory:
    """Holds the head's context. RuntimeError when the library or the model has none."""

    name = "mtp"

    def __init__(self, model: NativeModel, target: NativeContext, depth: int, settings: dict[str, int | bool]) -> None:
        from .._native_draft import DraftContext, has_hidden_rows, want_hidden_rows

        # Without this check llama.cpp aborts the process: it asserts exactly one loaded MTP layer.
        if model.n_layer_nextn != 1 or not model.load_mtp:
            raise RuntimeError("the model has no MTP layer that llama.cpp can run")
        if not has_hidden_rows():
            raise RuntimeError("this llama.cpp library hands out no hidden rows")
        self.depth = depth
        self.n_embd = model.n_embd
        want_hidden_rows(target)
        self.context: DraftContext = DraftContext(model, target, ctx_type=1, n_rs_seq=0, **settings)
        self._cached: tuple[int, NDArray[np.float32]] | None = None

    def rows_of(self, ctx: NativeContext, n: int) -> NDArray[np.float32]:
        """The target's hidden rows of its last batch."""
        from .._native_draft import hidden_rows

        return hidden_rows(ctx, n, self.n_embd)

    def create(self) -> MtpDrafter:
        return MtpDrafter(self)

    def close(self) -> None:
        self.context.close()
