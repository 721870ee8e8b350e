"""The engine seam: what a conversation needs of whatever turns tokens into tokens.

`Engine`, `ScriptedEngine` and engines over the wire all satisfy these protocols. Nothing here knows a message, a tool
or a template. Every method may block; callers on an event loop run them in a worker thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CancelToken",
    "EngineLike",
    "FinishReason",
    "Force",
    "GenerationLike",
    "Progress",
    "Sampling",
    "SequenceLike",
    "SequenceStats",
    "Steering",
    "Stop",
    "Token",
    "Truncation",
    "VocabLike",
]

FinishReason = Literal["end", "length", "stopped", "context"]
"""`end`: an end-of-generation token was accepted (it is the last token). `length`: max_tokens were generated.
`stopped`: steering answered `Stop`. `context`: the context has no room for another token."""

Truncation = Literal["none", "ring", "trim", "checkpoint", "start"]
"""How `truncate` got there: nothing to do, the snapshot ring, a plain KV trim (attention-only models), the nearest
checkpoint plus a decode of the rest, or a decode from the start."""

Progress = Callable[[int, int], None]
"""Called between batches of a prefill as `progress(done, total)`, in tokens, from the decoding thread."""


class Token(NamedTuple):
    """One accepted token. `logprob` is the natural logarithm of its probability under the raw logits, present when
    `Sampling.logprobs` asked for it. `drafted_by` names the drafter that proposed it, `"forced"` for a token that
    steering put in, None for plain decoding. `watched_gap`: by how much the logit of the id that steering watches was
    below the largest one, where this token was chosen (natural logarithm of the ratio of their probabilities)."""

    id: int
    logprob: float | None = None
    drafted_by: str | None = None
    watched_gap: float | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a distribution becomes a token. `temperature=0` is greedy: the largest logit after
    penalties; top-k, top-p and min-p change nothing then.

    Order of the filters as in llama.cpp: penalties, top-k, top-p, min-p, then temperature. `seed=None` takes a fresh
    seed per `generate` call; with a seed, the random number of a position depends on (seed, position) alone.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_last_n: int = 64
    logprobs: bool = False

    def __post_init__(self) -> None:
        bad: list[str] = []
        if not (self.temperature >= 0.0 and np.isfinite(self.temperature)):
            bad.append(f"temperature must be a finite number >= 0, not {self.temperature!r}")
        if self.top_k < 0:
            bad.append(f"top_k must be >= 0 (0 keeps all), not {self.top_k!r}")
        if not 0.0 < self.top_p <= 1.0:
            bad.append(f"top_p must be in (0, 1], not {self.top_p!r}")
        if not 0.0 <= self.min_p < 1.0:
            bad.append(f"min_p must be in [0, 1), not {self.min_p!r}")
        if not (self.repetition_penalty > 0.0 and np.isfinite(self.repetition_penalty)):
            bad.append(f"repetition_penalty must be > 0 (1 is off), not {self.repetition_penalty!r}")
        if not (np.isfinite(self.presence_penalty) and np.isfinite(self.frequency_penalty)):
            bad.append("presence_penalty and frequency_penalty must be finite")
        if self.penalty_last_n < 0:
            bad.append(f"penalty_last_n must be >= 0 (0 is off), not {self.penalty_last_n!r}")
        if bad:
            raise ValueError("Sampling: " + "; ".join(bad))


@dataclass(frozen=True, slots=True)
class SequenceStats:
    """Counters of one sequence since its birth; subtract two to get what happened between.

    `evaluated` rows went through the model; of these `recomputed` rows had been decoded before. `generated` tokens were
    sampled, accepted or forced by `generate`. `drafted` and `accepted` count by drafter name. Seconds are wall time.
    """

    evaluated: int = 0
    recomputed: int = 0
    generated: int = 0
    drafted: Mapping[str, int] = field(default_factory=dict[str, int])
    accepted: Mapping[str, int] = field(default_factory=dict[str, int])
    prefill_s: float = 0.0
    draft_s: float = 0.0
    decode_s: float = 0.0
    checkpoints: int = 0
    checkpoint_bytes: int = 0

    def __sub__(self, earlier: SequenceStats) -> SequenceStats:
        out: dict[str, Any] = {}
        for f in fields(self):
            a, b = getattr(self, f.name), getattr(earlier, f.name)
            out[f.name] = {k: v - b.get(k, 0) for k, v in a.items()} if isinstance(a, Mapping) else a - b
        return SequenceStats(**out)


class CancelToken:
    """A request to stop, made from any thread or task; sticky: give each operation a fresh one."""

    __slots__ = ("_cancelled", "_lock", "_watchers")

    def __init__(self) -> None:
        self._cancelled = False
        self._lock = threading.RLock()  # reentrant: cancel may come from a signal handler
        self._watchers: list[Callable[[], None]] = []

    def cancel(self) -> None:
        """Ask the decode to stop at the next batch or token, or in the middle of a batch where the backend allows it.
        Safe from any thread and from a signal handler."""
        self._cancelled = True
        with self._lock:
            for watcher in self._watchers:
                watcher()

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    @contextmanager
    def watched_by(self, watcher: Callable[[], None]) -> Iterator[None]:
        """Call `watcher` when a cancel comes inside this block; never after it."""
        with self._lock:
            self._watchers.append(watcher)
        try:
            yield
        finally:
            with self._lock:
                self._watchers.remove(watcher)


@dataclass(frozen=True, slots=True)
class Stop:
    """Steering's answer: end the generation behind the token just accepted."""

    reason: str


@dataclass(frozen=True, slots=True)
class Force:
    """Steering's answer: these ids come next, unsampled, decoded as one batch. Each passes through `accept` too."""

    ids: tuple[int, ...]
    reason: str


class Steering(Protocol):
    """Watches accepted tokens one by one; may mask, force or stop. Called in the decoding thread, with the engine's
    lock held while drafts are verified: it must not call the engine. An attribute `watched` (an id or None), where it
    has one, is read before each sampled token and fills `Token.watched_gap`."""

    def accept(self, token: Token) -> Stop | Force | None:
        """Called exactly once, in order, for every token that `generate` appends (forced ones included)."""
        ...

    def allowed(self) -> NDArray[np.bool_] | None:
        """Bool [n_vocab] of ids that may come next, or None for all. Asked before each sampled token."""
        ...

    def room(self) -> int | None:
        """How many tokens may be accepted before `accept` or `allowed` could change the course (None: no bound).

        A draft is cut to it, so that forcing at a limit never has to take back a verified token.
        """
        ...


class VocabLike(Protocol):
    """Text to ids and back. Ids are ints in [0, n_tokens)."""

    @property
    def n_tokens(self) -> int: ...
    @property
    def eog(self) -> frozenset[int]:
        """Ids that end a generation."""
        ...

    def encode(self, text: str, special: bool = False) -> list[int]:
        """Ids of `text`. With special=False no control or user-defined id comes out, whatever the text spells."""
        ...

    def encode_parts(self, parts: Iterable[tuple[str, bool]]) -> list[int]:
        """Ids of joined (text, is_scaffold) parts: special tokens are recognised in scaffold parts only, and the plain
        text between two special tokens is encoded as one piece, as the model saw it in training."""
        ...

    def decode(self, ids: Sequence[int]) -> bytes:
        """Bytes of `ids`, special tokens spelled out. May end inside a UTF-8 character."""
        ...

    def token_id(self, text: str) -> int | None:
        """The id of the special token that is spelled exactly `text`, or None."""
        ...

    def special_tokens(self) -> Mapping[int, str]:
        """Every control and user-defined id with its spelling."""
        ...


class GenerationLike(Iterator[Token], Protocol):
    """What `generate` returns: an iterator of tokens. Closing it early leaves the sequence consistent."""

    @property
    def finish_reason(self) -> FinishReason | None:
        """None while tokens may still come."""
        ...

    @property
    def stop_reason(self) -> str | None:
        """The reason of the `Stop` that ended it, when finish_reason is "stopped"."""
        ...

    def close(self) -> None: ...


class SequenceLike(Protocol):
    """A token list and its live state."""

    @property
    def tokens(self) -> tuple[int, ...]: ...
    def __len__(self) -> int: ...
    @property
    def n_ctx(self) -> int:
        """How many tokens this sequence can hold."""
        ...

    @property
    def stats(self) -> SequenceStats: ...

    def extend(
        self, ids: Sequence[int], *, cancel: CancelToken | None = None, progress: Progress | None = None
    ) -> None:
        """Append `ids` and decode them (a waiting sampled token goes in first). On return the state stands exactly
        behind `tokens`. `extend([])` decodes a waiting token.

        Raises ContextFull before anything is decoded; DecodeCancelled and DecodeError leave `tokens` a prefix of what
        it would have been, with a state that stands behind it."""
        ...

    def logits(self) -> NDArray[np.float32]:
        """A copy, float32 [n_vocab], of the logits behind the last token (decodes a waiting token)."""
        ...

    def generate(
        self,
        max_tokens: int,
        sampling: Sampling | None = None,
        steering: Steering | None = None,
        *,
        cancel: CancelToken | None = None,
    ) -> GenerationLike:
        """Sample up to `max_tokens` tokens. The last one waits undecoded; it goes in with the next batch."""
        ...

    def truncate(self, n: int) -> Truncation:
        """Keep the first `n` tokens and bring the state there, exactly; says how."""
        ...

    def checkpoint(self, *, label: str = "", pinned: bool = False) -> None:
        """Keep the state behind the current tokens for a later truncate."""
        ...

    def fork(self) -> SequenceLike:
        """A second sequence at the same point; nothing is decoded."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class EngineLike(Protocol):
    """One model and its sequences. An engine that cannot take the masks of a grammar (over the wire, or a script) says
    so with an attribute `constrains` that is False; what it writes is then only validated."""

    @property
    def vocab(self) -> VocabLike: ...
    @property
    def n_ctx(self) -> int: ...
    @property
    def name(self) -> str:
        """The model's name for people."""
        ...

    @property
    def chat_template(self) -> str | None:
        """The Jinja template that the model file carries."""
        ...

    @property
    def metadata(self) -> Mapping[str, str]:
        """The GGUF's scalar metadata as text, arrays left out."""
        ...

    def sequence(self) -> SequenceLike: ...
    def close(self) -> None: ...
