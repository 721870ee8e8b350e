"""What live state saves: restore, fork, checkpoint and a second question against a cold prefill of the same tokens.

Without a model it writes a hybrid with random weights (state and KV have a size, the text means nothing): 16 layers,
width 512, Gated DeltaNet with full attention every 4th layer, about 60 million parameters. Every operation ends with
logits behind one more token, so that nothing is left undone; seconds are wall time, the median of `rounds`.
"""

from __future__ import annotations

import logging
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..engine import DiskStore, Engine, RamStore, Sequence
from .random_model import RandomModel, write_random_model

__all__ = ["SHAPE", "state"]

SHAPE = RandomModel(
    layers=16,
    embd=512,
    heads=8,
    kv_heads=2,
    head_dim=128,
    ffn=1536,
    interval=4,
    ssm_heads=8,
    ssm_groups=8,
    ssm_state=64,
    vocab=4096,
    ctx=40960,
    half=True,
)
_QUESTION = 32

logger = logging.getLogger(__name__)
"""Each step is logged when it begins (INFO): the whole takes minutes."""


def state(
    model: str | None = None, *, tokens: tuple[int, ...] = (2048, 8192, 32768), document: int = 16384, rounds: int = 3
) -> dict[str, Any]:
    """Returns {"bench": "state", "rows": [{"op", "tokens", "seconds", "prefill_seconds", "ratio", "bytes"}]}: ratio is
    seconds / prefill_seconds, bytes what was written or kept (0 for a fork, which shares)."""
    with tempfile.TemporaryDirectory(prefix="agentloop-bench-") as folder:
        path = model or str(write_random_model(Path(folder) / "hybrid.gguf", SHAPE))
        n_ctx = max(*tokens, document) + 2048
        with Engine.load(path, n_ctx=n_ctx, sequences=3, drafters="none") as engine:
            rows: list[dict[str, Any]] = []
            for n in tokens:
                logger.info("prefill of %s tokens, then restore, fork and checkpoint", f"{n:,}")
                rows += _at_length(engine, n, Path(folder), rounds)
            logger.info("a second question about a document of %s tokens", f"{document:,}")
            rows.append(_second_question(engine, document, rounds))
    return {"bench": "state", "rows": rows}


def _ids(engine: Engine, n: int, seed: int = 0) -> list[int]:
    size = engine.vocab.n_tokens
    return [(i * i * 31 + i * 17 + seed * 101) % size for i in range(n)]


def _timed(work: Callable[[], Sequence | None]) -> float:
    started = time.perf_counter()
    made = work()
    if made is not None:
        made.extend([1])
    spent = time.perf_counter() - started
    if made is not None:
        made.close()
    return spent


def _at_length(engine: Engine, n: int, folder: Path, rounds: int) -> list[dict[str, Any]]:
    live = engine.sequence()
    started = time.perf_counter()
    live.extend(_ids(engine, n))
    live.extend([1])
    prefill = time.perf_counter() - started
    snapshot = live.snapshot()
    ram, disk = RamStore(1 << 40), DiskStore(folder / str(n), 1 << 40)
    ram.put("it", snapshot)
    disk.put("it", snapshot)

    def keep() -> None:
        live.checkpoint()
        live.truncate(len(live))

    before = live.stats.checkpoint_bytes
    work: dict[str, Callable[[], Sequence | None]] = {
        "restore_ram": lambda: engine.restore(ram.get("it")),
        "restore_disk": lambda: engine.restore(disk.get("it")),
        "fork": live.fork,
        "checkpoint": keep,
    }
    times = {op: statistics.median(_timed(do) for _ in range(rounds)) for op, do in work.items()}
    sizes = {"restore_ram": snapshot.n_bytes, "restore_disk": disk.n_bytes, "fork": 0}
    sizes["checkpoint"] = live.stats.checkpoint_bytes - before
    live.close()
    return [_row(op, n, times[op], prefill, sizes[op]) for op in work]


def _second_question(engine: Engine, n: int, rounds: int) -> dict[str, Any]:
    """A document and a question go in together; then another question about the same document. Both to the logits
    behind the question, that is, to the first token."""
    live = engine.sequence()
    document = _ids(engine, n)
    started = time.perf_counter()
    live.extend(document + _ids(engine, _QUESTION, 1))
    first = time.perf_counter() - started
    spent: list[float] = []
    for i in range(rounds):
        started = time.perf_counter()
        live.replace_tail(n, _ids(engine, _QUESTION, 2 + i))
        spent.append(time.perf_counter() - started)
    held = live.stats.checkpoint_bytes
    live.close()
    return _row("second_question", n, statistics.median(spent), first, held)


def _row(op: str, tokens: int, seconds: float, prefill: float, n_bytes: int) -> dict[str, Any]:
    return {
        "op": op,
        "tokens": tokens,
        "seconds": round(seconds, 5),
        "prefill_seconds": round(prefill, 3),
        "ratio": round(seconds / prefill, 5),
        "bytes": n_bytes,
    }
