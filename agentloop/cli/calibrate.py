"""`agentloop calibrate MODEL`: what verifying a draft costs on this machine, by its length."""

from __future__ import annotations

import json as _json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ..bench.plot import line_chart
from ..engine import Engine
from ..engine.calibration import cache_path, measure_curve, store_curve

__all__ = ["calibrate"]


def calibrate(model: str | None, *, rows: int, depth: int, threads: int | None, svg: str | None, json: bool) -> int:
    """Measure the curve behind `depth` tokens, cache it for later runs, print it and draw it."""
    with Engine.load(
        model, n_ctx=max(2048, depth + rows + 8), sequences=1, draft_max=rows - 1, threads=threads
    ) as engine:
        curve = measure_curve(engine, rows, depth=depth)
        stored = bool(engine.drafters) and store_curve(engine, curve)
        facts: dict[str, Any] = {
            "model": engine.name,
            "threads": engine.threads,
            "depth": depth,
            "verify_s": [round(seconds, 7) for seconds in curve.verify_s],
            "switch_s": round(curve.switch_s, 7),
            "cached": str(cache_path(engine)) if stored else None,
        }
    costs = curve.verify_s
    threads_used = f"{facts['threads']} thread" + ("s" if facts["threads"] > 1 else "")
    if svg:
        points = [(float(i + 1), seconds * 1e3) for i, seconds in enumerate(costs)]
        title = f"Cost of verifying a draft: {facts['model']}, {threads_used}"
        Path(svg).write_text(line_chart(title, "rows in one decode", "ms", {"verify": points}), encoding="utf-8")
        facts["svg"] = svg
    if json:
        print(_json.dumps(facts))
        return 0
    table = Table(title=f"{facts['model']}, {threads_used}, behind {depth} tokens")
    for name in ("rows", "ms", "times one row", "ms a row", ""):
        table.add_column(name, justify="left" if not name else "right")
    for i, seconds in enumerate(costs):
        bar = "█" * max(1, round(30 * seconds / max(costs)))
        table.add_row(
            str(i + 1), f"{seconds * 1e3:.3f}", f"{seconds / costs[0]:.2f}", f"{seconds * 1e3 / (i + 1):.3f}", bar
        )
    Console().print(table)
    print(f"a step of another width than the one before: {curve.switch_s * 1e3:.3f} ms more")
    if engine.drafters and facts["cached"] is None:
        print("not cached: the folder cannot be written, or it holds a curve of more rows, which stays")
    if svg:
        print(f"drawn in {svg}")
    return 0
