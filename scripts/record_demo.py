"""Draw docs/demo.svg and write docs/demo.json and the README's table from a real run of the demo.

python scripts/record_demo.py
"""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from agentloop.cli.demo import run_demo, show_report
from agentloop.limits import Usage

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
TABLE = re.compile(r"(<!-- demo table[^\n]*-->\n).*?(<!-- end of demo table -->)", re.DOTALL)
WIDTH = 110

FONTS = re.compile(r"\s*@font-face \{\{.*?\}\}", re.DOTALL)
"""The drawing takes whatever monospace font is there and loads none from elsewhere."""


def readme_table(usage: Usage) -> str:
    """The turns as Markdown, and what decoding everything on each turn would have cost."""
    lines = [
        "",
        "| turn | reused | new | recomputed | generated | prefill s | decode s |",
        "|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for number, turn in enumerate(usage.turns, 1):
        seconds = f"{turn.prefill_s:.3f} | {turn.draft_s + turn.decode_s:.3f}"
        counts = f"{turn.reused:,} | {turn.new:,} | {turn.recomputed} | {turn.generated:,}"
        lines.append(f"| {number} | {counts} | {seconds} |")
    sums = f"{usage.reused:,} | {usage.new:,} | {usage.recomputed} | {usage.generated:,}"
    lines.append(f"| **sum** | {sums} | {usage.prefill_s:.3f} | {usage.draft_s + usage.decode_s:.3f} |")
    prompt = usage.reused + usage.new
    lines += [
        "",
        f"{usage.new:,} prompt tokens were decoded. Decoding the conversation anew on each turn takes {prompt:,}.",
        "",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    console = Console(
        record=True,
        width=WIDTH,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print("$ agentloop demo", style="bold")
    report = run_demo(console)
    show_report(console, report)
    if not report.passed:
        print(report.error or "the demo failed", file=sys.stderr)
        return 1
    svg = console.export_svg(title="agentloop demo", code_format=FONTS.sub("", CONSOLE_SVG_FORMAT), unique_id="demo")
    DOCS.mkdir(exist_ok=True)
    (DOCS / "demo.svg").write_text(svg.replace("Fira Code", "ui-monospace, Menlo, Consolas"), encoding="utf-8")
    (DOCS / "demo.json").write_text(json.dumps(report.to_dict(), indent=1) + "\n", encoding="utf-8")
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    readme.write_text(TABLE.sub(lambda m: m[1] + readme_table(report.usage) + m[2], text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
