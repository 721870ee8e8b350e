"""What Python adds to a decode step: `Sequence.generate` against a bare loop of `llama_decode`."""

from __future__ import annotations

import statistics
import time
from typing import Any

from ..engine import Engine

__all__ = ["overhead"]

_PROMPT = "<|im_start|>user\nSet port to 8080 in config.toml.<|im_end|>\n<|im_start|>assistant\n<think>\n"


def overhead(model: str | None = None, *, tokens: int = 400, rounds: int = 9) -> dict[str, Any]:
    """Tokens per second of `Sequence.generate` (greedy) as a ratio to a bare loop of `llama_decode` over the same
    tokens, on the same context, in alternating rounds; medians.

    Returns {"bench", "ratio", "python_us_per_step", "decode_us_per_step"}: the last is the bare loop's time per step,
    python_us_per_step what generate adds to it.
    """
    with Engine.load(model, n_ctx=4096, sequences=2, drafters="none") as engine:
        prompt = engine.vocab.encode(_PROMPT, special=True)
        live, bare = engine.sequence(), engine.sequence()
        ids: list[int] = []
        ours: list[float] = []
        theirs: list[float] = []
        for turn in range(rounds + 1):
            live.truncate(0)
            live.extend(prompt)
            started, made = time.perf_counter(), 0
            ids = []
            while made < tokens:  # an end token ends a generation, not the measurement
                for token in live.generate(tokens - made):
                    ids.append(token.id)
                    made += 1
            took = time.perf_counter() - started
            bare.truncate(0)
            bare.extend(prompt)
            spent = _bare_loop(engine, bare, ids)
            if turn:  # the first round warms up
                ours.append(took / tokens)
                theirs.append(spent / tokens)
        mine, base = statistics.median(ours), statistics.median(theirs)
        ratio = statistics.median(b / a for a, b in zip(ours, theirs, strict=True))
        return {
            "bench": "overhead",
            "ratio": round(ratio, 4),
            "python_us_per_step": round((mine - base) * 1e6, 2),
            "decode_us_per_step": round(base * 1e6, 2),
        }


def _bare_loop(engine: Engine, sequence: Any, ids: list[int]) -> float:
    """Decode the same tokens one by one with nothing else around llama_decode."""
    from ..engine._native import bare_decode_loop

    with engine.lock:
        engine.activate(sequence)
        position, slot = sequence.n_decoded, sequence._state.live()
        started = time.perf_counter()
        bare_decode_loop(engine.context, ids, position, slot)
        spent = time.perf_counter() - started
        engine.context.clear(slot)
        sequence._state.clear(engine.context)
    sequence.truncate(0)
    return spent
