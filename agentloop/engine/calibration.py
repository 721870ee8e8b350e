"""The verify-cost curve of this model on this machine: seconds to decode 1, 2, ... rows of one sequence.

Measured once on a scratch sequence and cached by model file, machine, threads and llama-cpp-python version; real steps
keep it true afterwards. The cache is a JSON file under the user's cache folder (XDG_CACHE_HOME, else ~/.cache); when it
cannot be written, the curve is measured again next time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engine import Engine

__all__ = ["cache_path", "cached_curve", "measure_curve", "store_curve"]

_ROUNDS = 5


def measure_curve(engine: Engine, most_rows: int, *, depth: int = 64) -> list[float]:
    """Median seconds to decode 1..most_rows rows behind `depth` tokens. Takes a free slot for a moment; the engine's
    lock is held around each decode alone."""
    from .state import LiveState

    scratch = engine.sequence()
    scratch._drafters = []
    n = engine.vocab.n_tokens
    ids = [(i * 31) % n for i in range(min(depth, engine.n_ctx - most_rows - 1))]
    curve: list[float] = []
    try:
        for rows in range(1, most_rows + 1):
            times: list[float] = []
            for turn in range(_ROUNDS + 1):
                with engine.lock:
                    engine.activate(scratch)
                    state: LiveState = scratch._state
                    if state.n != len(ids):
                        state.clear(engine.context)
                        for start in range(0, len(ids), engine.n_batch):
                            state.decode(engine.context, ids[start : start + engine.n_batch])
                    saved = state.save_recurrent(engine.context)
                    started = time.perf_counter()
                    state.decode(engine.context, ids[:rows], all_outputs=True)
                    engine.context.row(-1)  # waits until the result is there
                    spent = time.perf_counter() - started
                    if saved is not None:
                        state.restore_recurrent(engine.context, len(ids), saved)
                if turn:
                    times.append(spent)
            curve.append(statistics.median(times))
    finally:
        scratch.close()
    return curve


def cache_path(engine: Engine) -> Path:
    """Where the curve of this model, machine, thread count and library is cached."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parts = [engine.fingerprint()["model"], engine.fingerprint()["library"], platform.machine(), platform.node()]
    key = hashlib.sha256("\n".join([*parts, str(engine.threads), str(os.cpu_count())]).encode()).hexdigest()[:24]
    return root / "agentloop" / "curves" / f"{key}.json"


def cached_curve(engine: Engine, most_rows: int) -> list[float] | None:
    """The cached curve if there is one for at least `most_rows` rows."""
    try:
        data = json.loads(cache_path(engine).read_text())
        curve = [float(v) for v in data["verify_s"]]
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        return None
    return curve[:most_rows] if len(curve) >= most_rows and min(curve) > 0 else None


def store_curve(engine: Engine, curve: list[float]) -> bool:
    """Cache it. False where the folder cannot be written, which is no error."""
    from .stores import write_atomically

    with contextlib.suppress(OSError, RuntimeError):
        path = cache_path(engine)
        path.parent.mkdir(parents=True, exist_ok=True)
        with write_atomically(path) as file:
            file.write(json.dumps({"model": engine.name, "threads": engine.threads, "verify_s": curve}).encode())
        return True
    return False
