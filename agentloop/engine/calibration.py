"""The verify-cost curve of this model on this machine: seconds to decode 1, 2, ... rows of one sequence.

Measured once on a scratch sequence and cached by model file, machine, threads, llama-cpp-python version and context
settings; real steps keep it true afterwards. The cache is a JSON file under the user's cache folder (XDG_CACHE_HOME,
else ~/.cache); when it cannot be written, the curve is measured again next time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..exceptions import DecodeError

if TYPE_CHECKING:
    from .engine import Engine

__all__ = ["Curve", "cache_path", "cached_curve", "curve_of", "measure_curve", "store_curve"]

_ROUNDS = 6
_ENOUGH = 4.0  # seconds after which no further round begins
_SLOW = 0.02  # seconds; a decode that takes longer needs no warming up


@dataclass(frozen=True, slots=True)
class Curve:
    """`verify_s[r]`: seconds to decode r + 1 rows; `switch_s`: seconds more when the step before had another width."""

    verify_s: list[float]
    switch_s: float


def measure_curve(engine: Engine, most_rows: int, *, depth: int = 64) -> Curve:
    """The curve for 1..most_rows rows behind `depth` tokens. Takes a free slot and free cells for a moment, for which
    other sequences are parked; the engine's lock is held around each decode alone. Raises DecodeError where llama.cpp
    refuses a batch, so that no failure is taken for a fast decode, and ValueError for more rows than the engine's
    longest draft and one."""
    if most_rows > engine.context.n_outputs:
        raise ValueError(f"{most_rows} rows; this engine verifies {engine.context.n_outputs} at most: raise draft_max")
    scratch = engine.sequence()
    scratch._drafters = []
    n = engine.vocab.n_tokens
    before = [(i * 31) % n for i in range(max(1, min(depth, engine.n_ctx - most_rows - 1)))]
    drafted = [(i * 17 + 5) % n for i in range(most_rows)]

    def put(ids: list[int], *, all_outputs: bool = False) -> None:
        ctx, state = engine.context, scratch._state
        while code := state.decode(ctx, ids, all_outputs=all_outputs):
            if code != 1 or not engine.park_another(scratch):
                raise DecodeError(code, state.n, f"the cost of {len(ids)} rows could not be measured")

    def decode(rows: int) -> float:
        with engine.lock:
            engine.activate(scratch)
            ctx, state = engine.context, scratch._state
            if state.n != len(before):
                state.clear(ctx)
                for start in range(0, len(before), engine.n_batch):
                    put(before[start : start + engine.n_batch])
            saved = state.save_recurrent(ctx)
            started = time.perf_counter()
            put(drafted[:rows], all_outputs=True)
            ctx.row(-1)  # waits until the result is there
            spent = time.perf_counter() - started
            if saved is not None:
                state.restore_recurrent(ctx, len(before), saved)
            return spent

    try:
        steady: list[list[float]] = [[] for _ in range(most_rows)]
        changed: list[list[float]] = [[] for _ in range(most_rows)]
        started = time.perf_counter()
        # All widths take turns within a round, so that a busy machine meets them alike. The first decode of a width
        # pays for the change, the second does not.
        for turn in range(_ROUNDS):
            for rows in range(1, most_rows + 1):
                first, second = decode(rows), decode(rows)
                if turn or second > _SLOW:  # the first round warms up, which matters where a decode is short
                    changed[rows - 1].append(first)
                    steady[rows - 1].append(second)
            if all(steady) and time.perf_counter() - started > _ENOUGH:
                break
        return curve_of(steady, changed)
    finally:
        scratch.close()


def curve_of(steady: Sequence[Sequence[float]], changed: Sequence[Sequence[float]]) -> Curve:
    """From seconds by width and round: decodes of the width of the one before, and decodes of another.

    The fastest of each width counts: other work on the machine only ever adds to a timing, and a curve is cached.
    """
    fastest = [min(times) for times in steady]
    more = [min(times) - least for times, least in zip(changed, fastest, strict=True)]
    return Curve(fastest, max(0.0, statistics.median(more)))


def cache_path(engine: Engine) -> Path:
    """Where the curve of this model, machine, thread count and library is cached."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    made = engine.fingerprint()
    parts = [made["model"], made["library"], made["context"], platform.machine(), platform.node()]
    key = hashlib.sha256("\n".join([*parts, str(engine.threads), str(os.cpu_count())]).encode()).hexdigest()[:24]
    return root / "agentloop" / "curves" / f"{key}.json"


def cached_curve(engine: Engine, most_rows: int) -> Curve | None:
    """The cached curve if there is one for at least `most_rows` rows."""
    try:
        data = json.loads(cache_path(engine).read_text())
        curve, switch = [float(v) for v in data["verify_s"]], float(data["switch_s"])
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        return None
    sound = all(0 < seconds < math.inf for seconds in curve) and 0 <= switch < math.inf
    return Curve(curve[:most_rows], switch) if sound and len(curve) >= most_rows else None


def store_curve(engine: Engine, curve: Curve) -> bool:
    """Cache it. False where the folder cannot be written, which is no error, or where a longer one is kept."""
    from .stores import write_atomically

    if cached_curve(engine, len(curve.verify_s) + 1) is not None:
        return False
    with contextlib.suppress(OSError, RuntimeError):
        path = cache_path(engine)
        path.parent.mkdir(parents=True, exist_ok=True)
        with write_atomically(path) as file:
            data = {"model": engine.name, "threads": engine.threads, **asdict(curve)}
            file.write(json.dumps(data).encode())
        return True
    return False
