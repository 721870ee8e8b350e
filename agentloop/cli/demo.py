"""`agentloop demo`: the agent repairs a sample project on the embedded model; its tests decide whether it did."""

from __future__ import annotations

import json as _json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from rich.console import Console

from ..demo import PROMPT, copy_sample, sample_passes
from ..exceptions import AgentLoopError, RunCancelled
from ..limits import Usage
from ..tools.workspace import workspace_tools
from .session import follow, load_engine, make_agent, turn_rows
from .transcript import Transcript, make_console, usage_line, usage_table

__all__ = ["DEMO_TOOLS", "DemoReport", "demo", "run_demo"]

N_CTX = 8192
MAX_TURNS = 12
DEMO_TOOLS = ("list_files", "read_file", "write_file", "run_tests")


@dataclass(frozen=True)
class DemoReport:
    """What the demo did. `error` is the line of an error that ended the run early, or None."""

    passed: bool
    model: str
    usage: Usage
    seconds: float
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return {
            "passed": self.passed,
            "model": self.model,
            "turns": turn_rows(self.usage),
            "seconds": round(self.seconds, 3),
        }


def run_demo(console: Console | None, *, n_ctx: int = 0, threads: int | None = None) -> DemoReport:
    """Repair a fresh copy of the sample and test it; `console` (None: nobody) watches.

    Raises ModelLoadError when the embedded model cannot be loaded. An error of the run itself is in the report.
    """
    began = time.monotonic()
    usage, error = Usage(), None
    transcript = None if console is None else Transcript(console)
    with (
        tempfile.TemporaryDirectory(prefix="agentloop-demo-") as name,
        load_engine(None, n_ctx=n_ctx or N_CTX, threads=threads) as engine,
    ):
        folder = copy_sample(Path(name))
        if transcript is not None:
            transcript.say(f"{engine.name} works in {folder}", "dim")
            transcript.say(f"\n> {PROMPT}\n", "bold")
        agent = make_agent(
            engine, workspace_tools(folder, allow=DEMO_TOOLS), effort="low", max_turns=MAX_TURNS, max_tokens=1024
        )
        try:
            anyio.run(lambda: follow(agent, PROMPT, transcript, usage=usage))
        except RunCancelled:
            raise
        except AgentLoopError as problem:
            error = str(problem)
        passed = sample_passes(folder)
        return DemoReport(passed, engine.name, usage, time.monotonic() - began, error)


def demo(*, json: bool, n_ctx: int = 0, threads: int | None = None) -> int:
    """Run the demo and print it; 0 only when the sample's tests pass."""
    console = None if json else make_console()
    report = run_demo(console, n_ctx=n_ctx, threads=threads)
    if console is None:
        print(_json.dumps(report.to_dict()))
    else:
        show_report(console, report)
    if report.error is not None:
        print(f"agentloop: {' '.join(report.error.split())}", file=sys.stderr)
    return 0 if report.passed else 1


def show_report(console: Console, report: DemoReport) -> None:
    """The table, its sums, and the verdict."""
    console.print()
    console.print(usage_table(report.usage))
    console.print(usage_line(report.usage))
    verdict = "passed: the sample's tests pass now" if report.passed else "failed: the sample's tests still fail"
    console.print(f"\n{verdict} ({report.seconds:.1f} s)", style="bold green" if report.passed else "bold red")
