"""The judge of every state test: does the live state equal a cold decode of the same tokens?"""

from __future__ import annotations

import ctypes

import numpy as np

from agentloop.engine import CancelToken, Engine, Sequence

# Share of a row's range. Over 5,000 steps each, harmless differences of batch width stayed below 8e-4 on the two
# hybrids and below 4e-3 on the attention-only model; test_guards.py makes wrong states on purpose.
TOLERANCE = {"qwen35": 3e-3, "lfm2": 3e-3, "llama": 1e-2}
PROBE = 97


class Cold:
    """A second context on the same file that decodes any token list from nothing."""

    def __init__(self, engine: Engine) -> None:
        self.engine = Engine.load(
            engine.file.path, n_ctx=2 * engine.n_ctx, sequences=2, n_batch=512, draft_max=0, threads=1
        )
        self.sequence = self.engine.sequence()

    def distance(self, sequence: Sequence) -> float:
        """Largest difference of the next-token logits, and of those behind one more token, as a share of their range.

        It looks at a snapshot of the state, brought up in this context, so that asking changes nothing: no waiting
        token is decoded, no ring rollback is committed.
        """
        live = self.engine.restore(sequence.snapshot())
        self.sequence.truncate(0)
        self.sequence.extend(sequence.tokens)
        try:
            worst = 0.0
            for _ in range(2):
                mine, truth = live.logits(), self.sequence.logits()
                worst = max(worst, float(np.abs(mine - truth).max() / np.ptp(truth)))
                live.extend([PROBE])
                self.sequence.extend([PROBE])
            return worst
        finally:
            live.close()

    def close(self) -> None:
        self.engine.close()


def check_counts(sequence: Sequence) -> None:
    """Invariant: the state stands behind the tokens, or one short of them, and llama.cpp agrees on its position."""
    waiting = len(sequence) - sequence.n_decoded
    assert waiting in (0, 1), f"{waiting} tokens wait"
    slot = sequence._state.slot
    if slot is not None:
        with sequence._engine.lock:
            assert sequence._engine.context.position(slot) == sequence.n_decoded


class AbortAt(CancelToken):
    """A cancel that takes effect in the middle of a batch: llama.cpp's abort callback answers yes at its `node`th call.

    What it leaves is the real thing: positions that look right and a recurrent state that is half written.
    """

    def __init__(self, engine: Engine, node: int) -> None:
        super().__init__()
        self._engine, self._left = engine, node
        self._callback = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(self._asked)

    def _asked(self, _: object) -> bool:
        self._left -= 1
        if self._left <= 0:
            self.cancel()
        return self._left <= 0

    def __enter__(self) -> AbortAt:
        self._before = self._engine.context._atoi
        self._engine.context._atoi = ctypes.cast(self._callback, ctypes.c_void_p).value
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.context._atoi = self._before
