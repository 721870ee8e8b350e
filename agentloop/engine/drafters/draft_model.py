"""Drafting with a smaller model of the same vocabulary: chained greedy guesses.

It keeps a state of its own over the same tokens. Tokens that the target accepted are decoded together with the waiting
one, whose logits give the first guess. An attention-only model keeps what it guessed, since guesses that were accepted
need not be decoded again. A hybrid cannot be cut: its recurrent part is saved before the chain and restored behind it;
the last few of these saves also take it back when tokens of the conversation are cut.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..state import LiveState
from .base import Draft

if TYPE_CHECKING:
    from .._native import NativeContext, NativeModel

__all__ = ["DraftModelDrafter", "DraftModelFactory"]

_MOST_DUE = 24  # more tokens than this are decoded at once: a prefill must not be paid by the next draft
_MARKS = 2  # saves that are kept of each sort: behind long inputs, and behind the last steps


class _Mark(NamedTuple):
    """The recurrent part behind `n` tokens."""

    n: int
    data: bytes
    long: bool


class DraftModelDrafter:
    """State: `_ids` are the known tokens of the sequence, the first `_n` of which are decoded; on an attention-only
    model the guesses `_ahead` are decoded behind them."""

    name = "draft_model"

    def __init__(self, factory: DraftModelFactory, slot: int | None = None) -> None:
        self._factory = factory
        self.depth = factory.depth
        self._state = LiveState(factory.cuttable)
        self._state.slot = slot
        self._ids: list[int] = []
        self._n = 0
        self._ahead: list[int] = []
        self._first: int | None = None  # the guess behind the first `_n` tokens, if the last decode ended there
        self._marks: list[_Mark] = []

    def peek(self, tokens: Sequence[int]) -> int | None:
        return 0 if self._state.slot is not None and len(tokens) < self._factory.context.n_ctx else None

    def propose(self, tokens: Sequence[int], k: int) -> Draft:
        if self._state.slot is None or not tokens:
            return Draft([])
        known = len(self._ids)
        if known > len(tokens):
            self.rewind(len(tokens))
        self._ids += tokens[known:]
        self._settle()
        if self._n == len(self._ids) and self._first is None:
            self._back(self._n - 1)  # its logits were not kept
        if not self._catch_up(long=True):
            return Draft([])
        assert self._first is not None
        drafted = [self._first]
        if k > 1:
            if not self._factory.cuttable:
                self._mark(long=False)
            while len(drafted) < k and self._decode(drafted[-1:]):
                drafted.append(self._best())
            if self._factory.cuttable:
                self._ahead = drafted[: self._state.n - self._n]
            elif not self._restore(self._marks[-1]):
                raise RuntimeError("the draft model's state could not be restored")
            else:
                self._first = drafted[0]
        return Draft(drafted)

    def observe(self, ctx: NativeContext, ids: Sequence[int], start: int, rows: int) -> None:
        if start > len(self._ids):
            return  # it lags: the next proposal is told all tokens
        new = list(ids[:rows])
        known = self._ids[start : start + rows]
        same = next((i for i, (a, b) in enumerate(zip(known, new, strict=False)) if a != b), len(known))
        if same < len(known):
            self.rewind(start + same)
        self._ids += new[same:]
        self._settle()
        if len(self._ids) - self._n > _MOST_DUE:
            # A reply that was decoded without drafts comes token by token; it must not push out the input before it.
            self._catch_up(long=rows > _MOST_DUE)

    def rewind(self, n: int) -> None:
        del self._ids[n:]
        if n < self._n:
            self._back(n)

    def move(self, slot: int | None) -> None:
        native, state = self._factory.context, self._state
        if slot is None and state.slot is not None:
            self._cut()
            if not state.park(native):
                self._forget()
        elif slot is not None and state.slot is None:
            if not state.unpark(native, slot):
                self._forget()
            self._cut()  # tokens may have been cut while it was parked

    def fork(self, slot: int | None) -> DraftModelDrafter:
        self._cut()
        twin = DraftModelDrafter(self._factory)
        twin._ids, twin._n, twin._first, twin._marks = list(self._ids), self._n, self._first, list(self._marks)
        native, state = self._factory.context, self._state
        if slot is not None and state.slot is not None:
            twin._state.copy_from(native, state, slot)
        else:
            twin._state.n = state.n
            twin._state.blob = state.blob if state.slot is None else native.save(state.slot) if state.n else None
            if slot is not None:
                twin.move(slot)
        return twin

    def save(self) -> bytes:
        self._cut()
        state = self._state
        blob = state.blob if state.slot is None else self._factory.context.save(state.slot) if state.n else b""
        return struct.pack("<16sII", self._factory.tag, self._n, state.n) + (blob or b"")

    def load(self, data: bytes, tokens: Sequence[int]) -> None:
        self._forget()
        self._ids = list(tokens)
        if len(data) > 24:
            tag, n, decoded = struct.unpack_from("<16sII", data)
            if tag == self._factory.tag and 0 < n <= decoded and n <= len(tokens):
                self._n, self._state.n, self._state.blob = n, decoded, data[24:]

    def _catch_up(self, long: bool) -> bool:
        """Decode the known tokens that the state lacks; the guess behind them is then known. Where they are many the
        state is saved, for `long` as one behind an input. False: no room."""
        if self._state.slot is None:
            return False
        most = self._factory.context.n_batch
        due = len(self._ids) - self._n
        while self._n < len(self._ids):
            if not self._decode(self._ids[self._n : self._n + most]):
                return False
            self._n = self._state.n
            if self._n == len(self._ids):
                self._first = self._best()
        if due > _MOST_DUE and not self._factory.cuttable:
            self._mark(long)
        return True

    def _decode(self, ids: Sequence[int]) -> bool:
        """One batch. False: there were no free cells, and nothing was decoded."""
        self._first = None
        code = self._state.decode(self._factory.context, ids)
        if code not in (0, 1):
            self._forget()
            raise RuntimeError(f"the draft model's decode failed with code {code}")
        return code == 0

    def _best(self) -> int:
        return int(self._factory.context.row(-1).argmax())

    def _settle(self) -> None:
        """Guesses that became tokens are decoded already; the others are cut."""
        ids, ahead = self._ids, self._ahead
        if ahead and self._n < len(ids):
            room = min(len(ahead), len(ids) - self._n)
            same = next((i for i in range(room) if ahead[i] != ids[self._n + i]), room)
            self._n += same
            self._first = None
            del ahead[:same]
            if self._n < len(ids):
                self._cut()

    def _cut(self) -> None:
        """Drop the guesses that are decoded behind the known tokens."""
        self._ahead = []
        if self._state.slot is not None and self._state.n > self._n:
            self._back(self._n)

    def _back(self, n: int) -> None:
        """Bring the state to `n` tokens, or on a hybrid to the last mark before."""
        self._first, self._ahead = None, []
        self._marks = [mark for mark in self._marks if mark.n <= n]
        state = self._state
        if state.slot is None and state.blob is not None:  # parked bytes are cut when they are back
            self._n = n if self._factory.cuttable else max((mark.n for mark in self._marks), default=0)
            if self._n == 0:
                self._forget()
        elif n > 0 and self._factory.cuttable and state.roll_back(self._factory.context, n):
            self._n = n
        elif not (self._marks and self._restore(max(self._marks, key=lambda mark: mark.n))):
            self._forget()

    def _mark(self, long: bool) -> None:
        """Save the recurrent part where it stands."""
        data = self._state.save_recurrent(self._factory.context)
        if data is None:
            raise RuntimeError("the draft model's state could not be saved")
        mark = _Mark(self._n, data, long)
        others = [m for m in self._marks if m.n != mark.n or m.long != long]
        alike = [m for m in others if m.long == long]
        if len(alike) >= _MARKS:
            others.remove(alike[0])
        self._marks = [*others, mark]

    def _restore(self, mark: _Mark) -> bool:
        done = self._state.restore_recurrent(self._factory.context, mark.n, mark.data)
        self._first, self._n = None, mark.n if done else 0
        return done

    def _forget(self) -> None:
        """Nothing is decoded any more; what is known is decoded again when it is needed."""
        self._state.clear(self._factory.context)
        self._n, self._ahead, self._first, self._marks = 0, [], None, []


class DraftModelFactory:
    """Holds the draft model and its context, and owns both. RuntimeError when llama.cpp refuses the context."""

    name = "draft_model"

    def __init__(self, model: NativeModel, depth: int, settings: dict[str, int | bool], tag: bytes) -> None:
        from .._native import NativeContext

        settings = {
            **settings,
            # Guesses come on top of what the target's context holds.
            "n_ctx": int(settings["n_ctx"]) + 256,
            "n_outputs_max": int(settings["n_seq_max"]),
        }
        context = NativeContext.create(model, n_rs_seq=0, **settings)
        if context is None:
            raise RuntimeError("llama.cpp could not make the draft model's context")
        self.model, self.context = model, context
        self.depth = depth
        self.cuttable = not (model.is_hybrid or model.is_recurrent)
        self.tag = tag[:16].ljust(16, b"\0")

    def create(self) -> DraftModelDrafter:
        return DraftModelDrafter(self)

    def close(self) -> None:
        self.context.close()
        self.model.close()
