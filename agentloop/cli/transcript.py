"""A run as people read it: reasoning dimmed, calls, results, the answer, each as it happens."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ..calls import Call
from ..events import (
    BudgetForced,
    CallReady,
    Event,
    PrefillProgress,
    ReasoningDelta,
    Retry,
    TextDelta,
    ToolFinished,
    ToolProgress,
    TurnStarted,
)
from ..limits import Usage

__all__ = ["Transcript", "make_console", "usage_line", "usage_table"]

SHOWN_LINES = 16
"""How many lines of one argument or result are shown; the model reads all of them."""

PATIENCE = 0.5
"""Seconds of prefill before a progress bar appears."""


def make_console(*, stderr: bool = False) -> Console:
    """Colours on a terminal only, none with NO_COLOR set; text is never wrapped or read as markup."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


class Transcript:
    """Feed it every event of a run, in order; `close` it in any case, since a progress bar may stand open."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._section = ""
        self._held = ""  # white space that is written only when text follows it
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._prefill_began: float | None = None

    def show(self, event: Event) -> None:
        """Write what this event adds."""
        if isinstance(event, PrefillProgress):
            self._prefill(event.done, event.total)
            return
        self.close()
        if isinstance(event, TurnStarted) and event.step > 1:
            self._line("")
        elif isinstance(event, ReasoningDelta):
            self._stream("reasoning", event.text, "dim italic")
        elif isinstance(event, TextDelta):
            self._stream("answer", event.text, "")
        elif isinstance(event, CallReady):
            self._break()
            self._call(event.call)
        elif isinstance(event, ToolProgress):
            self._line(f"  {event.name}: {event.message}", "dim")
        elif isinstance(event, ToolFinished):
            self._break()
            self._result(event)
        elif isinstance(event, Retry):
            self._line(f"↻ {event.reason} ({event.attempt} of {event.limit}): {first_line(event.message)}", "yellow")
        elif isinstance(event, BudgetForced):
            self._line(f"  reasoning budget: closed after {event.reasoning_tokens} tokens", "yellow")

    def say(self, text: str, style: str = "") -> None:
        """A line of the program's own."""
        self.close()
        self._line(text, style)

    def close(self) -> None:
        """Take down a progress bar that stands open."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self._prefill_began = None

    def end(self) -> None:
        """The run is over: finish an open line."""
        self.close()
        self._break()

    def _stream(self, section: str, text: str, style: str) -> None:
        if section != self._section:
            self._break()
            text = text.lstrip()
            if not text:
                return
            self._section = section
        text = self._held + text
        shown = text.rstrip()
        self._held = text[len(shown) :]
        if shown:
            self.console.print(Text(shown, style), end="")

    def _break(self) -> None:
        if self._section:
            self.console.print()
        self._section, self._held = "", ""

    def _line(self, text: str, style: str = "") -> None:
        self._break()
        self.console.print(Text(text, style))

    def _call(self, call: Call) -> None:
        short, long = split_arguments(call.arguments)
        line = Text("→ ", "cyan") + Text(call.name or "?", "bold cyan") + Text(f"({short})", "cyan")
        if call.status != "ok":
            line += Text(f"  [{call.status}]", "red")
        self.console.print(line)
        for value in long:
            for shown in clipped(value):
                self.console.print(Text(f"  │ {shown}".rstrip(), "cyan"))

    def _result(self, event: ToolFinished) -> None:
        style = "" if event.outcome in ("ok", "deferred") else "red"
        lines = list(clipped(event.content)) or ["(empty)"]
        for line in lines[:-1]:
            self.console.print(Text(f"  {line}".rstrip(), style))
        self.console.print(Text(f"  {lines[-1]}", style) + Text(f"  {event.seconds:.2f} s", "dim"))

    def _prefill(self, done: int, total: int) -> None:
        """A bar once the prefill takes long; nothing where the output is no terminal."""
        now = time.monotonic()
        if self._prefill_began is None:
            self._prefill_began = now
        if self._bar is None:
            if not self.console.is_terminal or done >= total or now - self._prefill_began < PATIENCE:
                return
            self._break()
            columns = (TextColumn("reading"), BarColumn(), TextColumn("{task.completed}/{task.total} tokens"))
            self._bar = Progress(*columns, TimeRemainingColumn(), console=self.console, transient=True)
            self._task = self._bar.add_task("reading", total=total)
            self._bar.start()
        self._bar.update(self._task, completed=done, total=total)
        if done >= total:
            self.close()


def split_arguments(arguments: dict[str, Any]) -> tuple[str, list[str]]:
    """The arguments on one line, with `…` for those of several lines, which come second."""
    parts, long = [], []
    for name, value in arguments.items():
        if isinstance(value, str) and "\n" in value.rstrip("\n"):
            parts.append(f"{name}=…")
            long.append(value)
        else:
            parts.append(f"{name}={json.dumps(value, ensure_ascii=False, default=str)}")
    return ", ".join(parts), long


def clipped(text: str) -> Iterator[str]:
    """The first lines of a text, and how many more there are."""
    lines = text.splitlines()
    yield from lines[:SHOWN_LINES]
    if len(lines) > SHOWN_LINES:
        yield f"… {len(lines) - SHOWN_LINES} more lines"


def first_line(text: str) -> str:
    """The first line of a text, or nothing."""
    return next(iter(text.splitlines()), "")


def usage_table(usage: Usage) -> Table:
    """One row a model turn: where its tokens came from and what they cost."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("turn", "reused", "new", "recomputed", "generated", "prefill s", "decode s"):
        table.add_column(name, justify="right")
    for number, turn in enumerate(usage.turns, 1):
        counts = (turn.reused, turn.new, turn.recomputed, turn.generated)
        seconds = (turn.prefill_s, turn.draft_s + turn.decode_s)
        table.add_row(str(number), *(f"{n:,}" for n in counts), *(f"{s:.3f}" for s in seconds))
    return table


def usage_line(usage: Usage) -> str:
    """The sums of a run in one line."""
    return (
        f"sum: {usage.requests} turns, reused {usage.reused:,}, new {usage.new:,}, recomputed {usage.recomputed:,}, "
        f"generated {usage.generated:,}, prefill {usage.prefill_s:.2f} s, decode {usage.draft_s + usage.decode_s:.2f} s"
    )
