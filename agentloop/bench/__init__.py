"""Benchmarks that ship with the package: `agentloop bench NAME`. Ratios, measured side by side in one run."""

from __future__ import annotations

import json as _json
from collections.abc import Callable
from typing import Any

from .decode import decode
from .overhead import overhead
from .state import state
from .verify import verify

__all__ = ["BENCHES", "decode", "overhead", "run_bench", "state", "verify"]

BENCHES: dict[str, Callable[..., dict[str, Any]]] = {
    "decode": decode,
    "overhead": overhead,
    "state": state,
    "verify": verify,
}


def run_bench(name: str, *, model: str | None = None, draft_path: str | None = None, json: bool = False) -> str:
    """Run one benchmark; returns what to print, one JSON object or lines for people. KeyError for an unknown name.

    `draft_path` is for `decode`: a file that drafts for the model.
    """
    result = BENCHES[name](model) if draft_path is None else BENCHES[name](model, draft_path=draft_path)
    if json:
        return _json.dumps(result)
    rows = result.get("rows")
    if not isinstance(rows, list):
        return "\n".join(f"{key:20} {value}" for key, value in result.items())
    names = list(rows[0])
    table = [names, *([str(row[n]) for n in names] for row in rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(names))]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in table)
