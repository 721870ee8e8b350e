"""ScriptedEngine: the engine seam with replies from a script, for testing what is built on it.

It keeps the token semantics of the real engine: the last sampled token waits undecoded and goes in with the next batch,
an end-of-generation token is the last of its reply, a context is bounded, a cancel takes effect between batches and
between tokens, and the counters count what was really done. The state is a list of decoded ids of its own, so that a
test can see when it does not stand behind `tokens`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Union
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ClosedError, ContextFull, EngineError
from .bytevocab import ByteVocab
from .scripted_generation import ScriptedGeneration, wait
from .seam import (
    CancelToken,
    Progress,
    Sampling,
    SequenceStats,
    Steering,
    Truncation,
)

__all__ = ["Script", "ScriptedEngine", "ScriptedReply", "ScriptedSequence"]


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One reply. `text` spells tokens, special ones included, or lists ids.

    `end`: an end-of-turn token follows, as from a model that is done; without it the model has simply nothing more in
    the script and the generation ends as if max_tokens were reached. `error` is raised behind the last token of `text`
    instead of an end. `delay`: seconds before each token; a cancel ends the wait.
    """

    text: str | SequenceOf[int] = ""
    end: bool = True
    error: BaseException | None = None
    delay: float = 0.0


Script = Union[str, SequenceOf[int], ScriptedReply, BaseException, Callable[[str], "Script"]]  # noqa: UP007
"""A reply: text, ids, a ScriptedReply, an exception to raise at once, or a function that gets the whole text of the
sequence so far and answers any of these."""


class ScriptedEngine:
    """Each `generate`, of whatever sequence, takes the next reply of `replies`; a single function answers every one.

    A script is written as it is: strict calls and typed answers are not held to a grammar, unless `constrains` is set.
    `prompts` holds the text that each `generate` saw. `prefill_delay` seconds pass before each prefill batch. It speaks
    the native template of the Qwen family unless `chat_template` names another.
    """

    def __init__(
        self,
        replies: Iterable[Script] | Callable[[str], Script] = (),
        *,
        n_ctx: int = 1 << 16,
        n_batch: int = 512,
        prefill_delay: float = 0.0,
        chat_template: str | None = None,
        metadata: Mapping[str, str] | None = None,
        name: str = "scripted",
    ) -> None:
        self._function = replies if callable(replies) else None
        self._queue: deque[Script] = deque(() if callable(replies) else replies)
        self._lock = threading.Lock()
        self._chat_template = chat_template
        self.prompts: list[str] = []
        self.vocab = ByteVocab()
        self.n_ctx = n_ctx
        self.n_batch = n_batch
        self.prefill_delay = prefill_delay
        self.name = name
        self.metadata: Mapping[str, str] = dict(metadata or {"general.architecture": "scripted", "general.name": name})
        self.constrains = False
        self.closed = False

    @property
    def chat_template(self) -> str | None:
        """The template given, else the text of the native one."""
        if self._chat_template is None:
            native = Path(__file__).parent.parent / "templates" / "qwen3_8.jinja"
            self._chat_template = native.read_text(encoding="utf-8")
        return self._chat_template

    def fingerprint(self) -> dict[str, str]:
        """Which model a saved conversation belongs to: every ScriptedEngine is the same model."""
        return {"model": "scripted"}

    def sequence(self) -> ScriptedSequence:
        """A new, empty sequence."""
        if self.closed:
            raise ClosedError("the engine was closed before; make a new one")
        return ScriptedSequence(self)

    def add(self, *replies: Script) -> None:
        """Put more replies at the end of the script."""
        self._queue.extend(replies)

    @property
    def remaining(self) -> int:
        """How many replies nobody asked for yet; 0 for a function."""
        return len(self._queue)

    def assert_complete(self) -> None:
        """AssertionError unless every reply of the script was used."""
        if self._queue:
            first = next(iter(self._queue))
            raise AssertionError(f"{len(self._queue)} scripted replies were not used; the next one is {first!r}")

    def close(self) -> None:
        """Further use of the engine or its sequences raises ClosedError."""
        self.closed = True

    def __enter__(self) -> ScriptedEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _next_reply(self, tokens: SequenceOf[int]) -> ScriptedReply:
        prompt = self.vocab.decode(tokens).decode("utf-8", "replace")
        with self._lock:
            self.prompts.append(prompt)
            if self._function is not None:
                reply: Script = self._function
            elif self._queue:
                reply = self._queue.popleft()
            else:
                raise AssertionError(
                    f"the script has no reply number {len(self.prompts)}; the prompt ends {prompt[-200:]!r}"
                )
        while callable(reply):
            reply = reply(prompt)
        if isinstance(reply, BaseException):
            return ScriptedReply(error=reply)
        return reply if isinstance(reply, ScriptedReply) else ScriptedReply(reply)


class ScriptedSequence:
    """A token list and the list of ids that were decoded. Checkpoints are positions; a truncate behind decoded tokens
    decodes again from the nearest checkpoint, as a recurrent model has to."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self._engine = engine
        self._tokens: list[int] = []
        self._state: list[int] = []
        self._seen = 0
        self._checkpoints: dict[int, tuple[str, bool]] = {}
        self._stats = SequenceStats()
        self._busy = threading.Lock()
        self._closed = False

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(self._tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def n_ctx(self) -> int:
        return self._engine.n_ctx

    @property
    def n_decoded(self) -> int:
        """How many tokens the state holds."""
        return len(self._state)

    @property
    def decoded(self) -> tuple[int, ...]:
        """The ids that the state holds; always `tokens` without the waiting one."""
        return tuple(self._state)

    @property
    def stats(self) -> SequenceStats:
        return replace(self._stats, checkpoints=len(self._checkpoints), checkpoint_bytes=8 * len(self._checkpoints))

    @property
    def checkpoints(self) -> Mapping[int, tuple[str, bool]]:
        """Label and pinned of each checkpoint, by position."""
        return dict(self._checkpoints)

    def extend(
        self, ids: SequenceOf[int], *, cancel: CancelToken | None = None, progress: Progress | None = None
    ) -> None:
        """Append `ids` and decode them, in batches, the waiting token first. Raises as the seam says."""
        new = [int(i) for i in ids]
        for i in new:
            if not 0 <= i < self._engine.vocab.n_tokens:
                raise ValueError(f"token id {i} is outside the vocabulary of {self._engine.vocab.n_tokens}")
        self._enter()
        try:
            start = len(self._tokens)
            if start + len(new) > self.n_ctx:
                raise ContextFull(len(new), self.n_ctx - start, self.n_ctx)
            self._tokens += new
            try:
                self._catch_up(cancel, progress)
            except BaseException:
                del self._tokens[max(start, len(self._state)) :]
                raise
        finally:
            self._busy.release()

    def logits(self) -> NDArray[np.float32]:
        """Noise that depends on every decoded id: equal for equal states only."""
        self._enter()
        try:
            if not self._tokens:
                raise ValueError("there are no logits before the first token; extend the sequence first")
            self._catch_up()
            seed = crc32(np.asarray(self._state, "<i4").tobytes())
            return np.random.default_rng(seed).standard_normal(self._engine.vocab.n_tokens, np.float32)
        finally:
            self._busy.release()

    def generate(
        self,
        max_tokens: int,
        sampling: Sampling | None = None,
        steering: Steering | None = None,
        *,
        cancel: CancelToken | None = None,
    ) -> ScriptedGeneration:
        """Take the next reply of the script, when the first token is asked for."""
        if max_tokens < 0:
            raise ValueError(f"max_tokens must be >= 0, not {max_tokens}")
        self._check_open()
        return ScriptedGeneration(self, max_tokens, sampling or Sampling(), steering, cancel)

    def truncate(self, n: int) -> Truncation:
        """Keep `n` tokens; what lies behind the nearest checkpoint is decoded again and counted."""
        self._enter()
        try:
            if not 0 <= n <= len(self._tokens):
                raise ValueError(f"cannot keep {n} of {len(self._tokens)} tokens")
            del self._tokens[n:]
            self._checkpoints = {at: kept for at, kept in self._checkpoints.items() if at <= n}
            if n >= len(self._state):
                return "none"
            at = max(self._checkpoints, default=0)
            del self._state[at:]
            self._seen = n
            self._catch_up()
            return "checkpoint" if at else "start"
        finally:
            self._busy.release()

    def checkpoint(self, *, label: str = "", pinned: bool = False) -> None:
        """Keep the position behind the current tokens."""
        self._enter()
        try:
            self._catch_up()
            if self._tokens:
                self._checkpoints[len(self._tokens)] = (label, pinned)
        finally:
            self._busy.release()

    def fork(self) -> ScriptedSequence:
        """A second sequence at the same point."""
        self._enter()
        try:
            child = ScriptedSequence(self._engine)
            child._tokens, child._state = list(self._tokens), list(self._state)
            child._seen, child._checkpoints = self._seen, dict(self._checkpoints)
            return child
        finally:
            self._busy.release()

    def close(self) -> None:
        """Further use raises ClosedError."""
        self._closed = True

    def _enter(self) -> None:
        self._check_open()
        if not self._busy.acquire(blocking=False):
            raise EngineError("this sequence is in use by another thread (or from its own steering); fork it instead")

    def _check_open(self) -> None:
        if self._closed or self._engine.closed:
            raise ClosedError("the sequence or its engine was closed before; make a new one with engine.sequence()")

    def _catch_up(self, cancel: CancelToken | None = None, progress: Progress | None = None) -> None:
        started, first = time.perf_counter(), len(self._state)
        total = len(self._tokens) - first
        while (done := len(self._state) - first) < total:
            wait(self._engine.prefill_delay, cancel, f"cancelled after {done} of {total} tokens")
            self._decode(min(len(self._state) + self._engine.n_batch, len(self._tokens)))
            if progress is not None:
                progress(len(self._state) - first, total)
        self._stats = replace(self._stats, prefill_s=self._stats.prefill_s + time.perf_counter() - started)

    def _decode(self, end: int) -> None:
        start = len(self._state)
        self._state += self._tokens[start:end]
        again = max(0, min(self._seen, end) - start)
        self._seen = max(self._seen, end)
        s = self._stats
        self._stats = replace(s, evaluated=s.evaluated + max(0, end - start), recomputed=s.recomputed + again)

    def _append(self, token: int, seconds: float) -> None:
        self._tokens.append(token)
        s = self._stats
        self._stats = replace(s, generated=s.generated + 1, decode_s=s.decode_s + seconds)
