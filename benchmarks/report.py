"""What a benchmark gives back: a table for people, JSON for everybody, a plot."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from .checks import check_rows
from .machine import ROOT, machine, model_info, versions
from .server import find_server

__all__ = ["Form", "Options", "Report", "median", "note", "spread", "table"]

Form = Literal["short", "full"]

RESULTS = ROOT / "benchmarks" / "results"


@dataclass(frozen=True, slots=True)
class Options:
    """How a benchmark is run. `model`: a GGUF file of the user's instead of the usual ones. `url`: an OpenAI-compatible
    server as one more peer. `drafts`: draft files for `paired`. `data`: task files by kind for `intel`. `quiet`: no
    progress on stderr."""

    form: Form = "short"
    model: str | None = None
    url: str | None = None
    drafts: tuple[str, ...] = ()
    gsm8k: str | None = None
    humaneval: str | None = None
    limit: int | None = None
    write: bool = False
    quiet: bool = False

    @property
    def short(self) -> bool:
        return self.form == "short"


@dataclass
class Report:
    """One run of one benchmark. `rows` are what the table shows, each with its single runs; `notes` say what was left
    out; `columns` are those of the table."""

    bench: str
    form: Form
    columns: Sequence[str]
    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    notes: list[str] = field(default_factory=list[str])
    models: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    plot: str | None = None
    began: float = field(default_factory=time.time)
    machine: dict[str, Any] = field(default_factory=machine)

    def model(self, name: str, path: str | None) -> None:
        """The run uses this model file."""
        self.models[name] = model_info(path)

    def to_dict(self) -> dict[str, Any]:
        """One object of JSON values; raises ImpossibleFigure."""
        check_rows(self.rows)
        return {
            "bench": self.bench,
            "form": self.form,
            "machine": self.machine,
            "versions": versions(find_server()),
            "models": self.models,
            "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.began)),
            "seconds": round(time.time() - self.began, 1),
            "notes": list(dict.fromkeys(self.notes)),
            "columns": list(self.columns),
            **self.extra,
            "rows": self.rows,
        }

    def save(self, result: Mapping[str, Any]) -> Path:
        """Write the JSON and the plot; the short form goes beside the committed files, not over them."""
        RESULTS.mkdir(parents=True, exist_ok=True)
        stem = self.bench if self.form == "full" else f"{self.bench}.short"
        path = RESULTS / f"{stem}.json"
        path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        if self.plot is not None:
            (RESULTS / f"{stem}.svg").write_text(self.plot, encoding="utf-8")
        return path


def median(values: Iterable[float], digits: int = 4) -> float:
    return round(statistics.median(values), digits)


def spread(values: Sequence[float], digits: int = 4) -> list[float]:
    """Smallest and largest."""
    return [round(min(values), digits), round(max(values), digits)]


def note(options: Options, text: str) -> None:
    """Progress, for people, on stderr."""
    if not options.quiet:
        import sys

        print(text, file=sys.stderr, flush=True)


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, markdown: bool = False) -> str:
    """The columns of the rows as aligned text, or as a Markdown table."""
    lines = [list(columns), *([_cell(row.get(name)) for name in columns] for row in rows)]
    if markdown:
        body = ["| " + " | ".join(line) + " |" for line in lines]
        left = {name for name in columns if any(isinstance(row.get(name), str) for row in rows)}
        rule = "|" + "|".join("---" if name in left else "--:" for name in columns) + "|"
        return "\n".join([body[0], rule, *body[1:]])
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "\n".join(
        "  ".join(cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True)))
        for line in lines
    )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}" if abs(value) < 10 else f"{value:.1f}"
    if isinstance(value, list):
        return " to ".join(_cell(part) for part in value)
    return str(value)
