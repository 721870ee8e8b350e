"""Run the benchmarks that the docs quote, keep their raw JSON and plots, and write their tables into the docs.

    python scripts/record_bench.py [state] [decode] [overhead] [verify] [verify_08b]

Each run writes benchmarks/results/NAME.json (the benchmark's own object and the machine, versions and model hash) and
replaces what stands between `<!-- NAME figures -->` and `<!-- end of NAME figures -->` in its page.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from agentloop.bench import BENCHES
from agentloop.bench.plot import bar_chart
from agentloop.bench.verify import verify
from agentloop.engine._native import library_version
from agentloop.models import default_model_path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = {
    "state": "live-state.md",
    "decode": "speculation.md",
    "overhead": "index.md",
    "verify": "speculation.md",
    "verify_08b": "speculation.md",
}
_SHAPE = "qwen3.5-0.8b-shape"


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    cpu = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.system(),
        "python": platform.python_version(),
        "llama_cpp_python": library_version(),
        "embedded_model_sha256": hashlib.sha256(default_model_path().read_bytes()).hexdigest(),
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def table(rows: list[dict[str, Any]]) -> str:
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "--:|" * len(names)]
    for row in rows:
        cells = [f"{row[n]:,}" if isinstance(row[n], int) else "" if row[n] is None else str(row[n]) for n in names]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def beside(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The verify benchmark's rows with both kinds of attention in one line."""
    lines: dict[tuple[int, int], dict[str, Any]] = {}
    for row in rows:
        line = lines.setdefault((row["depth"], row["rows"]), {"depth": row["depth"], "rows": row["rows"]})
        kind = "flash" if row["flash_attention"] else "products"
        line[f"ms, {kind}"] = row["ms"]
        if kind == "products":
            line["times one row"] = row["times_one_row"]
        else:
            line["flash / products"] = round(row["ms"] / line["ms, products"], 2)
    return list(lines.values())


def record(name: str) -> None:
    large = name == "verify_08b"
    result = verify(_SHAPE) if large else BENCHES[name](None)
    RESULTS.mkdir(parents=True, exist_ok=True)
    body = {**result, "machine": machine()}
    (RESULTS / f"{name}.json").write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    rows = result.get("rows") or [{k: v for k, v in result.items() if k != "bench"}]
    text = [table(beside(rows) if result["bench"] == "verify" else rows), ""]
    if name == "decode":
        groups: dict[str, dict[str, float]] = {}
        for row in rows:
            groups.setdefault(row["task"], {})[row["drafter"]] = row["ratio"]
        chart = bar_chart("Decode speed against plain decoding, embedded model", "times plain decoding", groups)
        (ROOT / "docs" / "decode.svg").write_text(chart, encoding="utf-8")
        text += ["![Decode speed by task and drafter, against plain decoding](decode.svg)", ""]
    m = body["machine"]
    text.append(
        f"`agentloop bench {result['bench']}{f' --model {_SHAPE}' if large else ''} --json` "
        f"on {m['cores']} cores of {m['cpu']}, "
        f"llama-cpp-python {m['llama_cpp_python']} ([raw numbers](../benchmarks/results/{name}.json))."
    )
    page = ROOT / "docs" / PAGES[name]
    old = page.read_text(encoding="utf-8")
    start, end = f"<!-- {name} figures -->", f"<!-- end of {name} figures -->"
    head, _, rest = old.partition(start)
    tail = rest.partition(end)[2] if end in rest else "\n"
    page.write_text(f"{head}{start}\n\n" + "\n".join(text) + f"\n\n{end}{tail}", encoding="utf-8")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or list(PAGES):
        record(chosen)
