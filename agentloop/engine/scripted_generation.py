"""Generation from a script: what a scripted sequence's `generate` returns."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Generator
from typing import TYPE_CHECKING

from ..exceptions import DecodeCancelled
from .guarded import guarded
from .seam import (
    CancelToken,
    FinishReason,
    Force,
    Sampling,
    Steering,
    Stop,
    Token,
)

if TYPE_CHECKING:
    from .scripted import ScriptedSequence

__all__ = ["ScriptedGeneration", "wait"]


class ScriptedGeneration:
    """The iterator that `ScriptedSequence.generate` returns."""

    def __init__(
        self,
        sequence: ScriptedSequence,
        max_tokens: int,
        sampling: Sampling,
        steering: Steering | None,
        cancel: CancelToken | None,
    ) -> None:
        self.sampling = sampling
        self._seq, self._max, self._cancel = sequence, max_tokens, cancel
        self._steering = guarded(steering, sequence._engine.vocab.n_tokens)
        self._finish: FinishReason | None = None
        self._stop: str | None = None
        self._steps = self._run()

    @property
    def finish_reason(self) -> FinishReason | None:
        return self._finish

    @property
    def stop_reason(self) -> str | None:
        return self._stop

    def __iter__(self) -> ScriptedGeneration:
        return self

    def __next__(self) -> Token:
        return next(self._steps)

    def close(self) -> None:
        """End it now; the tokens handed out stay in the sequence."""
        self._steps.close()

    def _run(self) -> Generator[Token, None, None]:
        seq, steering, vocab = self._seq, self._steering, self._seq._engine.vocab
        if self._max == 0:
            self._finish = "length"
            return
        reply = seq._engine._next_reply(seq.tokens)
        text = vocab.encode(reply.text, special=True) if isinstance(reply.text, str) else [int(i) for i in reply.text]
        script = deque([*text, vocab.end_of_turn] if reply.end and reply.error is None else text)
        made = 0
        while made < self._max:
            if len(seq) >= seq.n_ctx:
                self._finish = "context"
                return
            started = time.perf_counter()
            wait(reply.delay, self._cancel, f"cancelled after {made} generated tokens")
            seq._enter()
            try:
                seq._decode(len(seq._tokens))
                chosen = self._choose(script)
                if chosen is None:
                    if reply.error is not None:
                        raise reply.error
                    break
                seq._append(chosen, time.perf_counter() - started)
                made += 1
                token = Token(chosen, 0.0 if self.sampling.logprobs else None)
                answer = None if steering is None else steering.accept(token)
            finally:
                seq._busy.release()
            yield token
            while answer is not None and steering is not None:
                if isinstance(answer, Stop):
                    self._finish, self._stop = "stopped", answer.reason
                    return
                forced, answer = self._force(answer, script)
                made += len(forced)
                yield from forced
                chosen = forced[-1].id if forced else chosen
            if chosen in vocab.eog:
                self._finish = "end"
                return
        self._finish = "length"

    def _choose(self, script: deque[int]) -> int | None:
        """The next scripted id that steering allows; those before it are dropped. Where only one is allowed, it comes
        whether the script has it or not."""
        allowed = None if self._steering is None else self._steering.allowed()
        if allowed is not None and script and allowed.sum() == 1:
            only = int(allowed.argmax())
            while only in script and script.popleft() != only:
                pass
            return only
        while script:
            token = script.popleft()
            if allowed is None or allowed[token]:
                return token
        return None

    def _force(self, force: Force, script: deque[int]) -> tuple[list[Token], Stop | Force | None]:
        """A special token that is forced is not repeated: the script goes on behind its own one."""
        seq, steering = self._seq, self._steering
        assert steering is not None
        special = seq._engine.vocab.special_tokens()
        last = next((i for i in reversed(force.ids) if i in special and i in script), None)
        if last is not None:
            while script.popleft() != last:
                pass
            tail = list(force.ids[len(force.ids) - list(reversed(force.ids)).index(last) :])
            while tail and script and script[0] == tail[0]:
                tail.pop(0)
                script.popleft()
        ids = force.ids[: seq.n_ctx - len(seq)]
        stop: Stop | None = None
        answer: Stop | Force | None = None
        tokens: list[Token] = []
        seq._enter()
        try:
            for i in ids:
                seq._decode(len(seq._tokens))
                seq._append(i, 0.0)
                tokens.append(Token(i, None, "forced"))
                answer = steering.accept(tokens[-1])
                stop = stop or (answer if isinstance(answer, Stop) else None)
        finally:
            seq._busy.release()
        return tokens, stop or answer


def wait(seconds: float, cancel: CancelToken | None, message: str) -> None:
    """Sleep, unless a cancel comes first: then DecodeCancelled with `message`."""
    if seconds > 0:
        if cancel is None:
            time.sleep(seconds)
        else:
            woken = threading.Event()
            with cancel.watched_by(woken.set):
                if not cancel.cancelled:
                    woken.wait(seconds)
    if cancel is not None and cancel.cancelled:
        raise DecodeCancelled(message)
