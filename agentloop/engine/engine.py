"""Engine: one model, its context, its sequences and one lock.

Sequences share the context's cells. At most `sequences` of them live in it at once; when another is used, the least
recently used one is parked as bytes and comes back when it is used. llama.cpp is loaded with the first `Engine.load`,
not on import.
"""

from __future__ import annotations

import operator
import os
import threading
import weakref
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as SequenceOf
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from ..exceptions import ClosedError, DecodeError, EngineError, SnapshotError
from .calibration import cached_curve, measure_curve, store_curve
from .checkpoints import CheckpointBudget, available_memory
from .drafters import DrafterFactory
from .fingerprint import check_fingerprint, fingerprint_of
from .loading import Loaded, load_model
from .locks import FairLock
from .policy import Policy
from .sequence import Sequence
from .sequence_core import SequenceCore
from .snapshots import Snapshot
from .vocab import Vocab

if TYPE_CHECKING:
    from ._native import NativeContext, NativeModel

__all__ = ["Engine"]

_S = TypeVar("_S", bound=SequenceCore)


class Engine:
    """Made by `Engine.load`. Safe to use from several threads: sequences take turns, batch by batch, in the order in
    which they asked. Use it as a context manager, or call `close`."""

    def __init__(self, loaded: Loaded, slots: int, checkpoint_bytes: int) -> None:
        self.file = loaded.file
        self.shape = loaded.shape
        self.model = loaded.model
        self.context = loaded.context
        self.drafters = loaded.drafters
        self.threads = loaded.threads
        self._flash_attention = loaded.flash_attention
        self.lock = FairLock()
        self.cuttable = not (self.model.is_hybrid or self.model.is_recurrent)
        self.n_ctx = self.context.n_ctx
        self.n_batch = self.context.n_batch
        self.closed = False
        self._template = self.model.chat_template()
        self.vocab = Vocab(self.model)
        self.policy = Policy([1.0])  # no drafts before it was calibrated
        self._calibrated = not self.drafters
        self._calibrating = threading.Lock()
        self._sequences: weakref.WeakSet[SequenceCore] = weakref.WeakSet()
        self.checkpoints = CheckpointBudget(checkpoint_bytes, self._sequences)
        self._slots: list[weakref.ref[SequenceCore] | None] = [None] * slots
        self._used: list[int] = [0] * slots
        self._clock = 0
        self._fingerprint: dict[str, str] | None = None
        # An engine that nobody holds any more gives its memory back, also if nobody closed it.
        self._free = weakref.finalize(self, _free, self.drafters, self.context, self.model)
        self._free.atexit = False

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        n_ctx: int = 0,
        sequences: int = 4,
        drafters: str | Iterable[str] = "auto",
        draft_max: int = 16,
        n_batch: int = 512,
        threads: int | None = None,
        n_gpu_layers: int = -1,
        checkpoint_bytes: int | None = None,
        draft_path: str | os.PathLike[str] | None = None,
        flash_attention: bool | None = None,
    ) -> Engine:
        """Load a GGUF file; None loads the embedded model.

        n_ctx: tokens that all live sequences share, and the most that one can hold; 0 takes the model's own length,
            bounded by what half of the free memory holds.
        sequences: how many live in the context at once; more are parked and brought back.
        drafters: "auto" (all that the model and draft_path allow; each step decides which is used), "none", or names:
            "suffix" (what followed the same tokens before), "mtp" (the model's own next-token head), "block" and
            "draft_model" (the file at draft_path).
        draft_max: the longest draft. On recurrent models each token of it takes a snapshot plane a sequence; fewer are
            made where all of them would pass 2 GiB. `stats()` reports planes and bytes.
        n_batch: tokens in one prefill batch; a cancel takes effect between batches.
        threads: None takes one for a model under 64 MiB, else the physical cores that the process may use.
        n_gpu_layers: -1 puts all layers on the GPU where there is one.
        checkpoint_bytes: bound for checkpoints of all sequences; None takes an eighth of the free memory.
        draft_path: a second GGUF file that drafts for this one: a block drafter made for it (architecture `dflash`:
            DFlash, DFlash2, DSpark), or any smaller model with the same vocabulary. ModelLoadError with reason
            `draft_mismatch` when the two do not fit; a llama.cpp library that cannot run it goes on without, with a
            warning in the log.
        flash_attention: None leaves it to llama.cpp where layers are on a GPU and turns it off on the CPU, where steps
            of a few rows behind a long text are several times faster without. A saved state belongs to one setting.

        Raises ModelLoadError, and ValueError for settings that make no sense.
        """
        if checkpoint_bytes is not None and checkpoint_bytes < 0:
            raise ValueError(f"checkpoint_bytes must be >= 0, not {checkpoint_bytes}")
        loaded = load_model(
            path,
            n_ctx=n_ctx,
            sequences=sequences,
            n_batch=n_batch,
            draft_max=draft_max,
            drafters=drafters,
            threads=threads,
            n_gpu_layers=n_gpu_layers,
            draft_path=draft_path,
            flash_attention=flash_attention,
        )
        limit = available_memory() // 8 if checkpoint_bytes is None else checkpoint_bytes
        return cls(loaded, sequences, limit)

    @property
    def name(self) -> str:
        """The model's name for people."""
        return str(self.file.metadata.get("general.name") or self.file.path.stem)

    @property
    def chat_template(self) -> str | None:
        """The Jinja template that the model file carries."""
        return self._template

    @property
    def metadata(self) -> Mapping[str, str]:
        """The GGUF's scalar metadata as text, arrays left out."""
        return {key: str(value) for key, value in self.file.metadata.items() if not isinstance(value, list)}

    def sequence(self) -> Sequence:
        """A new, empty sequence. It takes a slot when it is first used."""
        with self.lock:
            self._check_open()
            return self._register(Sequence(self))

    def restore(self, snapshot: Snapshot) -> Sequence:
        """A sequence that goes on where `snapshot` was taken; nothing is decoded, not even for its logits.

        Raises SnapshotError: `foreign` when it belongs to another model file or other context settings, `version` to
        another library version, `altered` when its parts do not fit together or llama.cpp refuses the state. The
        tokens are then still there: `engine.sequence().extend(snapshot.tokens)` decodes them again.
        """
        check_fingerprint(snapshot.fingerprint, self.fingerprint())
        n, tokens = snapshot.n_decoded, list(snapshot.tokens)
        rows = [r for r in (snapshot.row, *(c.row for c in snapshot.checkpoints)) if r is not None]
        try:
            self.check_ids(tokens)
            fits = 0 <= len(tokens) - n <= 1 and n >= 0 and all(r.shape == (self.vocab.n_tokens,) for r in rows)
        except ValueError:
            fits = False
        if not fits or (n > 0) != bool(snapshot.state) or any(not 0 < c.position <= n for c in snapshot.checkpoints):
            raise SnapshotError("altered", "the snapshot's tokens, logits and state do not fit together")
        if len(tokens) > self.n_ctx:
            raise SnapshotError(
                "context", f"{len(tokens)} tokens do not fit a context of {self.n_ctx}; load a larger n_ctx"
            )
        with self.lock:
            self._check_open()
            sequence = self._register(Sequence(self))
            sequence._tokens = tokens
            sequence._state.n = n
            sequence._state.blob = snapshot.state or None
            sequence._row = snapshot.row
            sequence._seen = n
            sequence._checkpoints = list(snapshot.checkpoints)
            for drafter in sequence._drafters:
                drafter.load(snapshot.drafters.get(drafter.name, b""), tokens[:n])
            try:
                self.activate(sequence)
            except EngineError as error:
                self._forget(sequence)
                raise SnapshotError("altered", "llama.cpp refused the snapshot's state") from error
            return sequence

    def fingerprint(self) -> dict[str, str]:
        """What a snapshot's state depends on, by name."""
        if self._fingerprint is None:
            from . import _native

            self._fingerprint = fingerprint_of(
                self.file, _native.library_version(), self.chat_template, self._flash_attention
            )
        return dict(self._fingerprint)

    def close(self) -> None:
        """Free context and model; every sequence is closed with it. Closing twice is allowed."""
        with self.lock:
            if not self.closed:
                self.closed = True
                self._free()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Engine {self.name!r}, n_ctx={self.n_ctx}, sequences={len(self._slots)}>"

    def calibrate(self) -> None:
        """Know the verify-cost curve before the first draft: from the cache, or measured now. No lock needed. It
        happens by itself with the first generation. Where it cannot be measured nothing is drafted until it can."""
        with self._calibrating:
            if self._calibrated:
                return
            rows = 1 + max(factory.depth for factory in self.drafters)
            curve = cached_curve(self, rows)
            if curve is None:
                try:
                    curve = measure_curve(self, rows)
                except DecodeError:  # no room, say: nothing is drafted now, and the next generation measures again
                    return
                store_curve(self, curve)
            with self.lock:
                self.policy = Policy(curve.verify_s, curve.switch_s)
            self._calibrated = True

    # -- below: for sequences, with the lock held unless said otherwise

    def check_ids(self, ids: SequenceOf[int]) -> list[int]:
        """`ids` as a list of ints of this vocabulary. No lock needed."""
        if isinstance(ids, str):
            raise TypeError("token ids are wanted here, not text; engine.vocab.encode(text) makes them")
        out = [operator.index(i) for i in ids]
        n = self.vocab.n_tokens
        if out and (min(out) < 0 or max(out) >= n):
            bad = next(i for i in out if not 0 <= i < n)
            raise ValueError(f"token id {bad} is outside the vocabulary of {n}")
        return out

    def activate(self, sequence: SequenceCore) -> None:
        """Make sure that the sequence's state is in the context, and that it is what the sequence takes it for."""
        self._check_open()
        state = sequence._state
        if state.slot is None:
            slot = self._free_slot(sequence)
            self._slots[slot] = weakref.ref(sequence)
            while not state.unpark(self.context, slot):
                if not self.park_another(sequence):
                    self._drop_slot(slot)
                    state.slot = None
                    raise EngineError("a parked sequence could not be brought back; its tokens can be decoded again")
            sequence._move_drafters(slot)
        self.touch(state.live())
        if self.context.position(state.live()) != state.n:
            sequence._resync()  # an interrupt came between a decode and its bookkeeping

    def touch(self, slot: int) -> None:
        """The slot was used now."""
        self._clock += 1
        self._used[slot] = self._clock

    def park_another(self, sequence: SequenceCore) -> bool:
        """Park the least recently used live sequence but this one. False: there is none."""
        victim = min(
            (i for i, ref in enumerate(self._slots) if ref is not None and ref() is not sequence),
            key=lambda i: self._used[i],
            default=None,
        )
        if victim is None:
            return False
        self._vacate(victim)
        return True

    def place_copy(self, parent: SequenceCore, child: SequenceCore) -> None:
        """Give the child the parent's state: a second slot, or parked bytes where there is only one."""
        self.activate(parent)
        self._register(child)
        if len(self._slots) == 1:
            child._state.n = parent._state.n
            child._state.blob = self.context.save(parent._state.live()) if parent._state.n else None
            child._drafters = [drafter.fork(None) for drafter in parent._drafters]
            return
        slot = self._free_slot(parent)
        self._slots[slot] = weakref.ref(child)
        child._state.copy_from(self.context, parent._state, slot)
        child._drafters = [drafter.fork(slot) for drafter in parent._drafters]
        self._clock += 1
        self._used[slot] = self._clock

    def take_snapshot(self, sequence: SequenceCore, extra: Mapping[str, bytes]) -> Snapshot:
        """The sequence's snapshot; it stays live or parked as it is."""
        self._check_open()
        state = sequence._state
        if state.slot is not None:
            self.activate(sequence)
        data = state.blob if state.slot is None else self.context.save(state.slot) if state.n else b""
        if state.n and not data:
            raise SnapshotError("refused", "llama.cpp could not write the state")
        row = sequence._known_row()
        pinned = tuple(c for c in sequence._checkpoints if c.pinned)
        return Snapshot(
            tuple(sequence._tokens),
            state.n,
            data or b"",
            None if row is None else row.copy(),
            self.fingerprint(),
            pinned,
            dict(extra),
            {drafter.name: drafter.save() for drafter in sequence._drafters},
        )

    def forget(self, sequence: SequenceCore) -> None:
        """The sequence was closed: free its slot."""
        if not self.closed:
            self._forget(sequence)

    def stats(self) -> dict[str, Any]:
        """Live and parked sequences, slots, and checkpoints with their bytes and limit. Takes the lock."""
        with self.lock:
            held = self.checkpoints.all()
            return {
                "sequences": len(self._sequences),
                "live": sum(ref is not None and ref() is not None for ref in self._slots),
                "slots": len(self._slots),
                "parked_bytes": sum(len(s._state.blob or b"") for s in self._sequences),
                "checkpoints": len(held),
                "checkpoint_bytes": sum(c.n_bytes for c in held),
                "checkpoint_limit": self.checkpoints.limit,
                "ring": self.context.n_ring,
                "ring_bytes": self.context.n_ring * len(self._slots) * self.shape.recurrent_bytes,
            }

    def _register(self, sequence: _S) -> _S:
        self._sequences.add(sequence)
        return sequence

    def _forget(self, sequence: SequenceCore) -> None:
        slot = sequence._state.slot
        if slot is not None:
            self._drop_slot(slot)
        sequence._state.slot, sequence._state.blob = None, None
        self._sequences.discard(sequence)

    def _free_slot(self, keep: SequenceCore) -> int:
        for i, ref in enumerate(self._slots):
            if ref is None or ref() is None:
                self._drop_slot(i)  # nobody closed the sequence before it was collected
                return i
        oldest = min(
            (i for i, ref in enumerate(self._slots) if ref is not None and ref() is not keep),
            key=lambda i: self._used[i],
        )
        self._vacate(oldest)
        return oldest

    def _vacate(self, slot: int) -> None:
        ref = self._slots[slot]
        sequence = None if ref is None else ref()
        if sequence is not None:
            sequence._row = sequence._known_row()
            sequence._state.park(self.context)
            sequence._move_drafters(None)
        self._drop_slot(slot)

    def _drop_slot(self, slot: int) -> None:
        self._slots[slot] = None
        self._used[slot] = 0
        self.context.clear(slot)

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError("the engine was closed before; load it again")


def _free(drafters: list[DrafterFactory], context: NativeContext, model: NativeModel) -> None:
    for factory in drafters:
        factory.close()
    context.close()
    model.close()
