"""Block drafting: a small model that reads the target's hidden layers and guesses a whole block in one decode.

DFlash fills the block [last token, mask, mask, ...] in one pass without causal order. DFlash2 gives a few candidates a
position and scores for every pair of neighbours (a lattice), through which the best path is walked here. DSpark
conditions each guess on the one before inside its graph (a Markov head) and says how sure it is of each.

The drafter's KV holds no tokens but target features: for every token that the target decoded, the inputs of a few of
its layers are injected at the token's position. Rejected rows never get in. A block's own rows are cut off again.
Layouts as in llama.cpp's common/speculative.cpp and src/models/dflash.cpp.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .base import Draft
from .block_plan import BlockPlan

if TYPE_CHECKING:
    from .._native import NativeContext, NativeModel
    from .._native_block import BlockContext

__all__ = ["BlockDrafter", "BlockFactory"]

_MOST_DUE = 24  # more rows than this are injected at once: a prefill must not be paid by the next draft
_LEAST_CHANCE = 0.1  # a DSpark draft ends where its own confidence that all of it is right falls below


class BlockDrafter:
    """State: `n` positions are injected, of which those before `_start` were never seen; then come the due rows."""

    name = "block"

    def __init__(self, factory: BlockFactory, slot: int | None = None) -> None:
        self._factory = factory
        self.depth = factory.depth
        self._slot = slot
        self._start = self._n = 0
        self._due: NDArray[np.float32] = factory.no_rows
        self._blob: bytes | None = None

    @property
    def _known(self) -> int:
        return self._n + len(self._due)

    def peek(self, tokens: Sequence[int]) -> int | None:
        ready = self._slot is not None and self._start < self._known == len(tokens) - 1
        return 0 if ready else None

    def propose(self, tokens: Sequence[int], k: int) -> Draft:
        if self.peek(tokens) is None or self._slot is None or not self._inject():
            return Draft([])
        factory, context, slot = self._factory, self._factory.context, self._slot
        plan = factory.plan
        k = min(k, self.depth)
        block = [tokens[-1], *[factory.mask] * (k + plan.first - 1)]
        code = context.noise(block, self._n, slot, outputs=plan.kind != "dflash2")
        try:
            if code == 1:  # no free cells
                return Draft([])
            if code != 0:
                raise RuntimeError(f"the drafter's decode failed with code {code}")
            return Draft(self._read(len(block)))
        finally:
            context.ctx.remove(slot, self._n)

    def _read(self, rows: int) -> list[int]:
        """The drafted ids of the block that was just decoded."""
        context, plan = self._factory.context, self._factory.plan
        if plan.kind == "dflash2":
            return walk_lattice(context.hidden(rows)[1:], plan.top_k)
        ids = context.best(plan.first, rows)
        if plan.confidence:
            chances = np.cumprod(context.hidden(rows)[plan.first :, 0])
            ids = ids[: max(1, int((chances >= _LEAST_CHANCE).sum()))]
        return ids

    def observe(self, ctx: NativeContext, ids: Sequence[int], start: int, rows: int) -> None:
        if start < self._known:
            self.rewind(start)
        elif start > self._known:
            self._restart(start)
        self._due = np.concatenate([self._due, self._factory.rows_of(ctx, rows)])
        if len(self._due) > _MOST_DUE:
            self._inject()

    def rewind(self, n: int) -> None:
        if n >= self._known:
            return
        if n <= self._start:
            self._restart(n)
        elif n >= self._n:
            self._due = self._due[: n - self._n]
        else:
            self._due = self._factory.no_rows
            self._n = n
            if self._slot is not None:
                self._factory.context.ctx.remove(self._slot, n)

    def move(self, slot: int | None) -> None:
        native = self._factory.context.ctx
        if slot is None and self._slot is not None:
            self._blob = native.save(self._slot) if self._n > self._start else None
            native.clear(self._slot)
        elif slot is not None and self._slot is None:
            native.clear(slot)
            if self._n > self._start:
                restored = self._blob is not None and native.load(slot, self._blob)
                if restored:
                    native.remove(slot, self._n)  # it may have been rewound while it was parked
                if not restored or native.position(slot) != self._n:
                    native.clear(slot)
                    self._restart(self._n + len(self._due))
            self._blob = None
        self._slot = slot

    def fork(self, slot: int | None) -> BlockDrafter:
        twin = BlockDrafter(self._factory, slot)
        twin._start, twin._n, twin._due = self._start, self._n, self._due
        native = self._factory.context.ctx
        if slot is not None:
            native.clear(slot)
            if self._n > self._start and self._slot is not None:
                native.copy(self._slot, slot)
        elif self._n > self._start:
            twin._blob = native.save(self._slot) if self._slot is not None else self._blob
        return twin

    def save(self) -> bytes:
        native = self._factory.context.ctx
        blob = self._blob if self._slot is None else native.save(self._slot) if self._n > self._start else b""
        head = struct.pack("<16sIII", self._factory.tag, self._start, self._n, len(self._due))
        return head + self._due.astype("<f4").tobytes() + (blob or b"")

    def load(self, data: bytes, tokens: Sequence[int]) -> None:
        width = self._factory.context.width
        self._restart(len(tokens))
        try:
            tag, start, n, due = struct.unpack_from("<16sIII", data)
        except struct.error:
            return
        end = 28 + due * width * 4
        if tag != self._factory.tag or len(data) < end or n + due != len(tokens) or start > n:
            return
        self._start, self._n = start, n
        self._due = np.frombuffer(data[28:end], "<f4").astype(np.float32).reshape(due, width)
        self._blob = data[end:] or None

    def _restart(self, n: int) -> None:
        """Begin at position `n` with nothing known before it."""
        if self._slot is not None:
            self._factory.context.ctx.clear(self._slot)
        self._blob = None
        self._start = self._n = n
        self._due = self._factory.no_rows

    def _inject(self) -> bool:
        """Bring the due rows into the KV. False: there was no room, and what was known is forgotten."""
        if self._slot is None:
            return False
        if len(self._due):
            code = self._factory.context.inject(self._due, self._n, self._slot)
            if code == 1:
                self._restart(self._known)
                return False
            if code != 0:
                raise RuntimeError(f"the drafter's injection failed with code {code}")
            self._n = self._known
            self._due = self._factory.no_rows
        return True


class BlockFactory:
    """Holds the draft model and its context. RuntimeError when the library cannot draft blocks or refuses the context;
    ModelLoadError when the file and the target do not fit, see `BlockPlan`. On success the factory owns `model`."""

    name = "block"

    def __init__(
        self,
        plan: BlockPlan,
        model: NativeModel,
        target_model: NativeModel,
        target: NativeContext,
        depth: int,
        settings: dict[str, int | bool],
        tag: bytes,
    ) -> None:
        from .._native_block import BlockContext, mask_token, selector_top_k, tap_layers

        if selector_top_k(model) != plan.top_k:
            raise RuntimeError("llama.cpp reads the drafter's selector differently")
        self.mask = mask_token(model)
        if not 0 <= self.mask < model.n_vocab:
            raise RuntimeError("the drafter's vocabulary has no mask token")
        self.plan, self.tag, self.model = plan, tag[:16].ljust(16, b"\0"), model
        self.n_embd = target_model.n_embd
        # Anchor and masks go in one call, which must fit a micro-batch.
        self.depth = max(1, min(depth, plan.depth, int(settings["n_ubatch"]) - 1))
        settings = {
            **settings,
            # The block's own rows come on top of what the target's context holds.
            "n_ctx": int(settings["n_ctx"]) + 256,
            "n_outputs_max": max(int(settings["n_seq_max"]), self.depth + 1),
        }
        self.context: BlockContext = BlockContext(
            model,
            target,
            width=len(plan.taps) * self.n_embd,
            causal=plan.causal,
            hidden=plan.confidence or plan.kind == "dflash2",
            all_hidden=plan.kind == "dflash2",
            settings=settings,
        )
        self.no_rows: NDArray[np.float32] = np.zeros((0, self.context.width), np.float32)
        tap_layers(target, plan.taps)

    def rows_of(self, ctx: NativeContext, n: int) -> NDArray[np.float32]:
        """The target's features of the first `n` tokens of its last batch."""
        from .._native_block import tapped_rows

        return tapped_rows(ctx, self.plan.taps, n, self.n_embd)

    def create(self) -> BlockDrafter:
        return BlockDrafter(self)

    def close(self) -> None:
        self.context.close()
        self.model.close()


def walk_lattice(rows: NDArray[np.float32], top_k: int) -> list[int]:
    """The greedy path through a lattice, float32 [n, at least top_k * (top_k + 1)]. A row holds `top_k` candidate ids
    and then their scores behind each candidate of the row before, [predecessor, candidate]; the first row has one
    predecessor, the anchor, in every line."""
    ids: list[int] = []
    at = 0
    for row in rows:
        scores = row[top_k : top_k * (top_k + 1)].reshape(top_k, top_k)
        at = int(scores[at].argmax())
        ids.append(int(row[at]))
    return ids
