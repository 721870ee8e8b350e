"""Generation: the loop that turns a sequence's state into more tokens, one accepted token at a time.

A sampled token is appended and waits; it is decoded at the start of the next step, together with whatever else is
known by then (a forced text, a draft). Steering sees every token as it is accepted and before it is handed out.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import TYPE_CHECKING

from ..exceptions import DecodeCancelled, EngineError
from .guarded import guarded
from .sampling import Sampler
from .seam import CancelToken, FinishReason, Force, Sampling, Steering, Stop, Token
from .speculation import Speculator, make_token

if TYPE_CHECKING:
    from .sequence import Sequence

__all__ = ["Generation"]


class Generation:
    """Iterator of `Token`. `finish_reason` and `stop_reason` are set once it is exhausted; `seed` is the one in use."""

    def __init__(
        self,
        sequence: Sequence,
        max_tokens: int,
        sampling: Sampling,
        steering: Steering | None,
        cancel: CancelToken | None,
    ) -> None:
        self._seq = sequence
        self._max = max_tokens
        self._sampler = Sampler(sampling)
        self._steering = guarded(steering, sequence._engine.vocab.n_tokens)
        self._cancel = cancel
        self._finish: FinishReason | None = None
        self._stop: str | None = None
        self._epoch = sequence._epoch
        self._steps = self._run()

    @property
    def finish_reason(self) -> FinishReason | None:
        """None while tokens may still come, and after a cancel or an error."""
        return self._finish

    @property
    def stop_reason(self) -> str | None:
        """The reason of the Stop that ended it, when finish_reason is "stopped"."""
        return self._stop

    @property
    def seed(self) -> int:
        """The seed in use, for making the same text again."""
        return self._sampler.seed

    def __iter__(self) -> Generation:
        return self

    def __next__(self) -> Token:
        return next(self._steps)

    def close(self) -> None:
        """End it now; the tokens handed out stay in the sequence."""
        self._steps.close()

    def _run(self) -> Generator[Token, None, None]:
        seq, cancel = self._seq, self._cancel
        tokens, counters, eog = seq._tokens, seq._counters, seq._engine.vocab.eog
        if seq._drafters:
            seq._engine.calibrate()
        step = Speculator(seq, self._sampler, self._steering).step if seq._drafters else self._plain_step
        made, n_ctx, clock = 0, seq.n_ctx, time.perf_counter
        while made < self._max:
            self._begin()
            try:
                if len(tokens) >= n_ctx:
                    self._finish = "context"
                    return
                if cancel is not None and cancel.cancelled:
                    raise DecodeCancelled(f"cancelled after {made} generated tokens")
                started = clock()
                new, answer = step(self._max - made)
                counters.decode_s += clock() - started
            finally:
                seq._busy.release()
            made += len(new)
            if len(new) == 1:
                yield new[0]
            else:
                yield from self._hand_out(new)
            while answer is not None:
                if isinstance(answer, Stop):
                    self._finish, self._stop = "stopped", answer.reason
                    return
                new, answer = self._force(answer)
                made += len(new)
                yield from self._hand_out(new)
            if tokens[-1] in eog:
                self._finish = "end"
                return
        self._finish = "length"

    def _hand_out(self, new: list[Token]) -> Generator[Token, None, None]:
        """Yield them one by one; when the caller ends it between two, the rest is taken back."""
        for i, token in enumerate(new):
            try:
                yield token
            except GeneratorExit:
                rest = len(new) - 1 - i
                if rest and self._seq._epoch == self._epoch and not self._seq._closed:
                    self._seq.truncate(len(self._seq._tokens) - rest)
                raise

    def _plain_step(self, _: int) -> tuple[list[Token], Stop | Force | None]:
        """One token, one row."""
        seq, sampler, steering = self._seq, self._sampler, self._steering
        allowed = None if steering is None else steering.allowed()
        with seq._engine.lock:
            row = seq._next_row()
            chosen = sampler.choose(row, seq._tokens, allowed)
            if steering is None and not sampler.sampling.logprobs:
                token = Token(chosen)
            else:
                token = make_token(row, chosen, sampler, steering)
        seq._tokens.append(chosen)
        seq._counters.generated += 1
        return [token], None if steering is None else steering.accept(token)

    def _begin(self) -> None:
        self._seq._enter()
        if self._seq._epoch != self._epoch:
            self._seq._busy.release()
            raise EngineError("the sequence was extended or truncated while this generation ran; start a new one")

    def _force(self, force: Force) -> tuple[list[Token], Stop | Force | None]:
        """Append forced ids; all but the last are decoded in one batch with the waiting token. Steering sees each; its
        answer to the last one counts, and a Stop to an earlier one counts after the last."""
        seq, steering = self._seq, self._steering
        assert steering is not None
        ids = seq._engine.check_ids(force.ids)[: seq.n_ctx - len(seq._tokens)]
        self._begin()
        try:
            started = time.perf_counter()
            start = len(seq._tokens)
            seq._tokens += ids
            try:
                seq._decode_to(len(seq._tokens) - 1, self._cancel)
            except BaseException:
                del seq._tokens[max(start, seq._state.n) :]
                raise
            seq._counters.generated += len(ids)
            seq._counters.decode_s += time.perf_counter() - started
            tokens = [Token(i, None, "forced") for i in ids]
            stop: Stop | None = None
            answer: Stop | Force | None = None
            for token in tokens:
                answer = steering.accept(token)
                stop = stop or (answer if isinstance(answer, Stop) else None)
            return tokens, stop or answer
        finally:
            seq._busy.release()
