"""What verifying a draft costs by its length and by the depth of the context, with flash attention off and on."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..engine import Engine
from ..engine import Sequence as TokenSequence
from .random_model import QWEN35_08B, write_random_model

__all__ = ["verify"]

_ROUNDS = 5
_SHAPES = {"qwen3.5-0.8b-shape": QWEN35_08B}


def verify(
    model: str | None = None,
    *,
    depths: Sequence[int] | None = None,
    widths: Sequence[int] = (1, 2, 3, 5, 9, 17),
    threads: int | None = None,
) -> dict[str, Any]:
    """Medians of one decode of `rows` rows behind `depth` tokens. `model`: a GGUF file, None for the embedded model, or
    "qwen3.5-0.8b-shape" for random weights of that size (1.5 GB in a temporary folder). `depths`: None takes 256,
    1,024 and 4,096, for the large shape 256 and 2,048.

    Returns {"bench": "verify", "rows": [{"flash_attention", "depth", "rows", "ms", "times_one_row", "prefill_tok_s"}]};
    the prefill is the one from the depth before to this one.
    """
    if model not in _SHAPES:
        return _measure(model, depths or (256, 1024, 4096), widths, threads)
    with tempfile.TemporaryDirectory() as folder:
        path = write_random_model(Path(folder) / f"{model}.gguf", _SHAPES[model])
        return _measure(str(path), depths or (256, 2048), widths, threads)


def _measure(model: str | None, depths: Sequence[int], widths: Sequence[int], threads: int | None) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    deepest = max(depths) + max(widths)
    for flash in (False, True):
        with Engine.load(
            model,
            n_ctx=deepest + 8,
            sequences=1,
            drafters="suffix",
            draft_max=max(widths) - 1,
            threads=threads,
            flash_attention=flash,
        ) as engine:
            sequence = engine.sequence()
            for depth in sorted(depths):
                size = depth - len(sequence)
                started = time.perf_counter()
                sequence.extend([(i * 31) % engine.vocab.n_tokens for i in range(size)])
                prefill = size / (time.perf_counter() - started)
                costs = {width: _decode(engine, sequence, width) for width in sorted(widths)}
                for width, seconds in costs.items():
                    rows.append(
                        {
                            "flash_attention": flash,
                            "depth": depth,
                            "rows": width,
                            "ms": round(seconds * 1e3, 3),
                            "times_one_row": round(seconds / costs[min(costs)], 2),
                            "prefill_tok_s": round(prefill, 1),
                        }
                    )
    return {"bench": "verify", "rows": rows}


def _decode(engine: Engine, sequence: TokenSequence, width: int) -> float:
    """Median seconds of one batch of `width` rows, all with logits; the state is put back each time."""
    times: list[float] = []
    with engine.lock:
        engine.activate(sequence)
        ctx, state, n = engine.context, sequence._state, sequence._state.n
        for turn in range(_ROUNDS + 1):
            saved = state.save_recurrent(ctx)
            started = time.perf_counter()
            state.decode(ctx, [(i * 17) % engine.vocab.n_tokens for i in range(width)], all_outputs=True)
            ctx.row(-1)
            spent = time.perf_counter() - started
            if saved is None or not state.restore_recurrent(ctx, n, saved):
                raise RuntimeError("the state could not be put back")
            if turn:  # the first decode of a width builds the graph
                times.append(spent)
    return statistics.median(times)
