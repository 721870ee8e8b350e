"""Engine: one model, its context, its sequences and one lock.

Sequences share the context's cells. At most `sequences` of them live in it at once; when another is used, the least
recently used one is parked as bytes and comes back when it is used. llama.cpp is loaded with the first `Engine.load`,
not on import.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from collections.abc import Sequence as SequenceOf
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..exceptions import ClosedError, EngineError, ModelLoadError, SnapshotError
from .checkpoints import CheckpointBudget, available_memory
from .fingerprint import check_fingerprint, fingerprint_of
from .locks import FairLock
from .modelfile import ModelFile, read_model_file
from .sequence import Sequence
from .shape import ModelShape
from .snapshots import Snapshot
from .vocab import Vocab

if TYPE_CHECKING:
    from ._native import NativeContext, NativeModel

__all__ = ["Engine"]


class Engine:
    """Made by `Engine.load`. Safe to use from several threads: sequences take turns, batch by batch, in the order in
    which they asked. Use it as a context manager, or call `close`."""

    def __init__(
        self, file: ModelFile, model: NativeModel, context: NativeContext, slots: int, checkpoint_bytes: int
    ) -> None:
        self.file = file
        self.shape = ModelShape.of(file)
        self.model = model
        self.context = context
        self.lock = FairLock()
        self.cuttable = not (model.is_hybrid or model.is_recurrent)
        self.n_ctx = context.n_ctx
        self.n_batch = context.n_batch
        self.closed = False
        self.vocab = Vocab(model)
        self._sequences: weakref.WeakSet[Sequence] = weakref.WeakSet()
        self.checkpoints = CheckpointBudget(checkpoint_bytes, self._sequences)
        self._slots: list[weakref.ref[Sequence] | None] = [None] * slots
        self._used: list[int] = [0] * slots
        self._clock = 0
        self._fingerprint: dict[str, str] | None = None

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        n_ctx: int = 0,
        sequences: int = 4,
        n_batch: int = 512,
        ring: int = 8,
        threads: int | None = None,
        n_gpu_layers: int = -1,
        checkpoint_bytes: int | None = None,
    ) -> Engine:
        """Load a GGUF file; None loads the embedded model.

        n_ctx: tokens that all live sequences share, and the most that one can hold; 0 takes the model's own length,
            bounded by what half of the free memory holds.
        sequences: how many live in the context at once; more are parked and brought back.
        n_batch: tokens in one prefill batch; a cancel takes effect between batches.
        ring: recurrent snapshot planes a sequence (0 where the model has none or llama.cpp cannot roll it back).
        threads: None takes the number of physical cores that the process may use.
        n_gpu_layers: -1 puts all layers on the GPU where there is one.
        checkpoint_bytes: bound for checkpoints of all sequences; None takes an eighth of the free memory.

        Raises ModelLoadError, and ValueError for settings that make no sense.
        """
        for name, value, least in (
            ("n_ctx", n_ctx, 0),
            ("sequences", sequences, 1),
            ("n_batch", n_batch, 1),
            ("ring", ring, 0),
            ("threads", 1 if threads is None else threads, 1),
            ("checkpoint_bytes", checkpoint_bytes or 0, 0),
        ):
            if value < least:
                raise ValueError(f"{name} must be >= {least}, not {value}")
        if path is None:
            from ..models import default_model_path

            path = default_model_path()
        file = read_model_file(Path(path))
        shape = ModelShape.of(file)
        from . import _native

        model = _native.NativeModel.load(str(file.path), n_gpu_layers=n_gpu_layers, load_mtp=shape.mtp_layers == 1)
        if model is None:
            raise _refused(file, _native.recent_errors())
        if not model.has_decoder or model.has_encoder:
            model.close()
            raise ModelLoadError(
                file.path, "no_decoder", "not a decoder-only text model; agentloop cannot generate with it"
            )
        if n_ctx == 0:
            n_ctx = _fitting_context(shape, model.n_ctx_train)
        threads = threads or _physical_cores()
        # Trailing ring + 1 tokens of a batch must fit one micro-batch (llama-batch.cpp), with a row to spare.
        n_ubatch = max(n_batch, ring + 2)
        context = _native.NativeContext.create(
            model,
            n_ctx=n_ctx,
            n_batch=n_ubatch,
            n_ubatch=n_ubatch,
            n_seq_max=sequences,
            n_rs_seq=ring,
            n_outputs_max=max(sequences, ring + 1),
            n_outputs_max_per_seq=0,
            n_threads=threads,
            n_threads_batch=threads,
            kv_unified=True,
        )
        if context is None:
            errors = _native.recent_errors()
            model.close()
            detail = f" ({errors[-1]})" if errors else ""
            raise ModelLoadError(
                file.path, "refused", f"no context of {n_ctx} tokens could be made{detail}; try a smaller n_ctx"
            )
        limit = available_memory() // 8 if checkpoint_bytes is None else checkpoint_bytes
        return cls(file, model, context, sequences, limit)

    @property
    def name(self) -> str:
        """The model's name for people."""
        return str(self.file.metadata.get("general.name") or self.file.path.stem)

    @property
    def chat_template(self) -> str | None:
        """The Jinja template that the model file carries."""
        return self.model.chat_template()

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

            self._fingerprint = fingerprint_of(self.file, _native.library_version(), self.chat_template)
        return dict(self._fingerprint)

    def close(self) -> None:
        """Free context and model; every sequence is closed with it. Closing twice is allowed."""
        with self.lock:
            if not self.closed:
                self.closed = True
                self.context.close()
                self.model.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Engine {self.name!r}, n_ctx={self.n_ctx}, sequences={len(self._slots)}>"

    # -- below: for sequences, with the lock held unless said otherwise

    def check_ids(self, ids: SequenceOf[int]) -> list[int]:
        """`ids` as a list of ints of this vocabulary. No lock needed."""
        out = [int(i) for i in ids]
        n = self.vocab.n_tokens
        if out and (min(out) < 0 or max(out) >= n):
            bad = next(i for i in out if not 0 <= i < n)
            raise ValueError(f"token id {bad} is outside the vocabulary of {n}")
        return out

    def activate(self, sequence: Sequence) -> None:
        """Make sure that the sequence's state is in the context."""
        state = sequence._state
        if state.slot is None:
            slot = self._free_slot(sequence)
            self._slots[slot] = weakref.ref(sequence)
            while not state.unpark(self.context, slot):
                if not self.park_another(sequence):
                    self._drop_slot(slot)
                    state.slot = None
                    raise EngineError("a parked sequence could not be brought back; its tokens can be decoded again")
        self._clock += 1
        self._used[state.live()] = self._clock

    def park_another(self, sequence: Sequence) -> bool:
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

    def place_copy(self, parent: Sequence, child: Sequence) -> None:
        """Give the child the parent's state: a second slot, or parked bytes where there is only one."""
        self.activate(parent)
        self._register(child)
        if len(self._slots) == 1:
            child._state.n = parent._state.n
            child._state.blob = self.context.save(parent._state.live()) if parent._state.n else None
            return
        slot = self._free_slot(parent)
        self._slots[slot] = weakref.ref(child)
        child._state.copy_from(self.context, parent._state, slot)
        self._clock += 1
        self._used[slot] = self._clock

    def take_snapshot(self, sequence: Sequence, extra: Mapping[str, bytes]) -> Snapshot:
        """The sequence's snapshot; it stays live or parked as it is."""
        state = sequence._state
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
        )

    def forget(self, sequence: Sequence) -> None:
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

    def _register(self, sequence: Sequence) -> Sequence:
        self._sequences.add(sequence)
        return sequence

    def _forget(self, sequence: Sequence) -> None:
        slot = sequence._state.slot
        if slot is not None:
            self._drop_slot(slot)
        sequence._state.slot, sequence._state.blob = None, None
        self._sequences.discard(sequence)

    def _free_slot(self, keep: Sequence) -> int:
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
        self._drop_slot(slot)

    def _drop_slot(self, slot: int) -> None:
        self._slots[slot] = None
        self._used[slot] = 0
        self.context.clear(slot)

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError("the engine was closed before; load it again")


def _refused(file: ModelFile, errors: list[str]) -> ModelLoadError:
    known = file.architecture or "no architecture"
    causes = [e for e in errors if "error loading model" in e] or errors
    detail = f": {causes[0].partition('error loading model: ')[2] or causes[0]}" if causes else ""
    return ModelLoadError(
        file.path, "refused", f"llama.cpp could not load this file ({known}){detail}; is it a complete text model?"
    )


def _fitting_context(shape: ModelShape, n_ctx_train: int) -> int:
    """The model's own length, or what half of the free memory holds, in multiples of 256."""
    most = max(n_ctx_train, 512)
    if shape.kv_bytes_per_token:
        most = min(most, available_memory() // 2 // shape.kv_bytes_per_token)
    return max(512, most // 256 * 256)


def _physical_cores() -> int:
    """Cores that this process may use, counting two hyper-threads as one where the system tells."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        text = Path("/sys/devices/system/cpu/smt/active").read_text()
    except OSError:
        text = "0"
    return max(1, usable // 2 if text.strip() == "1" and usable > 1 else usable)
