"""A run as people read it: reasoning dimmed, calls, results, the answer, each as it happens."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

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

__all__ = ["ReadingBar", "Transcript", "count", "make_console", "usage_line", "usage_table", "visible"]

SHOWN_LINES = 16
"""How many lines of one argument or result are shown; the model reads all of them."""

PATIENCE = 0.5
"""Seconds of prefill before a progress bar appears."""

WORTH_TELLING = 0.1
"""Seconds that a tool has to take before its time is shown."""

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)}
_CONTROLS.update({code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))})


def make_console(*, stderr: bool = False) -> Console:
    """Styles on a terminal only, none with NO_COLOR set; text is never wrapped or read as markup."""
    # With no_color alone, rich would go on to send dim, bold and italic.
    styles: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True, color_system=styles)


def visible(text: str) -> str:
    """The text with control characters spelled out, so that what a model or a tool wrote cannot move the cursor, colour
    the terminal or turn the direction of writing. Line breaks and tabs stay."""
    return text.replace("\r\n", "\n").translate(_CONTROLS)


class ReadingBar:
    """A progress bar for a prefill that takes long; nothing where the output is no terminal. `before` is called once,
    before the bar appears. Close it in any case."""

    def __init__(self, console: Console, before: Callable[[], None] | None = None) -> None:
        self.console = console
        self._before = before
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._began: float | None = None

    def show(self, done: int, total: int) -> None:
        """`done` of `total` tokens are read."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        if self._bar is None:
            if not self.console.is_terminal or done >= total or now - self._began < PATIENCE:
                return
            if self._before is not None:
                self._before()
            columns = (TextColumn("reading"), BarColumn(), TextColumn("{task.completed}/{task.total} tokens"))
            self._bar = Progress(*columns, TimeRemainingColumn(), console=self.console, transient=True)
            self._task = self._bar.add_task("reading", total=total)
            self._bar.start()
        self._bar.update(self._task, completed=done, total=total)
        if done >= total:
            self.close()

    def close(self) -> None:
        """Take it down."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self._began = None


class Transcript:
    """Feed it every event of a run, in order; `close` it in any case, since a progress bar may stand open."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._section = ""
        self._held = ""  # white space that is written only when text follows it
        self._results: set[str] = set()  # what the last calls gave
        self._bar = ReadingBar(console, self._break)

    def show(self, event: Event) -> None:
        """Write what this event adds."""
        if isinstance(event, PrefillProgress):
            self._bar.show(event.done, event.total)
            return
        self.close()
        if isinstance(event, TurnStarted):
            self._results.clear()
            if event.step > 1:
                self._line("")
        elif isinstance(event, ReasoningDelta):
            self._stream("reasoning", event.text, "dim italic")
        elif isinstance(event, TextDelta):
            self._stream("answer", event.text, "")
        elif isinstance(event, CallReady):
            self._break()
            self._call(event.call)
        elif isinstance(event, ToolProgress):
            self._line(f"  {event.name}: {visible(event.message)}", "dim")
        elif isinstance(event, ToolFinished):
            self._break()
            self._result(event)
        elif isinstance(event, Retry):
            said = "" if event.message in self._results else f": {visible(first_line(event.message))}"
            self._line(f"↻ {event.reason} ({event.attempt} of {event.limit}){said}", "yellow")
        elif isinstance(event, BudgetForced):
            self._line(f"  reasoning budget: closed after {event.reasoning_tokens} tokens", "yellow")

    def say(self, text: str, style: str = "") -> None:
        """A line of the program's own."""
        self.close()
        self._line(text, style)

    def close(self) -> None:
        """Take down a progress bar that stands open."""
        self._bar.close()

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
        text = self._held + visible(text)
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
        line = Text("→ ", "cyan") + Text(visible(call.name) or "?", "bold cyan") + Text(f"({short})", "cyan")
        if call.status != "ok":
            line += Text(f"  [{call.status}]", "red")
        self.console.print(line)
        for value in long:
            for shown in clipped(value):
                self.console.print(Text(f"  │ {shown}".rstrip(), "cyan"))

    def _result(self, event: ToolFinished) -> None:
        self._results.add(event.content)
        if event.outcome == "deferred":
            return  # it has no result yet; whoever decides on it is asked next
        style = "" if event.outcome == "ok" else "red"
        for line in list(clipped(visible(event.content))) or ["(empty)"]:
            self.console.print(Text(f"  {line}".rstrip(), style))
        if event.seconds >= WORTH_TELLING:
            self.console.print(Text(f"  ({event.name} took {event.seconds:.1f} s)", "dim"))


def split_arguments(arguments: dict[str, Any]) -> tuple[str, list[str]]:
    """The arguments on one line, with `…` for those of several lines, which come second."""
    parts, long = [], []
    for name, value in arguments.items():
        name = visible(name)
        if isinstance(value, str) and "\n" in value.rstrip("\n"):
            parts.append(f"{name}=…")
            long.append(visible(value))
        else:
            parts.append(f"{name}={visible(json.dumps(value, ensure_ascii=False, default=str))}")
    return ", ".join(parts), long


def clipped(text: str) -> Iterator[str]:
    """The first lines of a text, and how many more there are."""
    lines = text.splitlines()
    yield from lines[:SHOWN_LINES]
    if len(lines) > SHOWN_LINES:
        yield f"… {len(lines) - SHOWN_LINES} more lines"


def count(n: int, what: str) -> str:
    """`1 question`, `2 questions`."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def first_line(text: str) -> str:
    """The first line of a text, or nothing."""
    return next(iter(text.splitlines()), "")


def usage_table(usage: Usage, *, skip: int = 0) -> Table:
    """One row a model turn: where its tokens came from and what they cost. The first `skip` turns are left out."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("turn", "reused", "new", "recomputed", "generated", "prefill s", "decode s"):
        table.add_column(name, justify="right")
    for number, turn in enumerate(usage.turns[skip:], skip + 1):
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
