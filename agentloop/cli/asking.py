"""Approvals on the command line: each call that waits is shown in full, and a person says yes, no or always."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from rich.console import Console

from ..agent import DeferredCall, DeferredToolRequests, DeferredToolResults
from ..tools import ApprovalRequest, ToolDenied
from .transcript import visible

__all__ = ["Person"]

QUESTION = "run it? [y]es, [n]o, [a]lways {name}: "
HELP = "y runs it, n does not; n and some words tells the model why; a runs every call of this tool from now on."


class Person:
    """Whoever sits at the terminal. `read` shows a prompt and returns a line, or None at the end of input."""

    def __init__(self, console: Console, read: Callable[[str], str | None]) -> None:
        self.console = console
        self.read = read
        self.trusted: set[str] = set()

    def approve(self, request: ApprovalRequest) -> bool | None:
        """For `Agent(approve=...)`: True for a tool that is always allowed, None to stop the run and ask."""
        return True if request.call.name in self.trusted else None

    def decide(self, requests: DeferredToolRequests) -> DeferredToolResults:
        """Ask about one call after the other. Ctrl-C raises KeyboardInterrupt; then none of them has been decided."""
        decisions = {call.call_id: self._ask(call) for call in requests.approvals}
        return DeferredToolResults(decisions)

    def _ask(self, call: DeferredCall) -> bool | ToolDenied:
        if call.name in self.trusted:
            return True
        self._show(call)
        while True:
            answer = self.read(QUESTION.format(name=visible(call.name)))
            word, _, why = (answer or "").strip().partition(" ")
            word = word.lower()
            if word in ("y", "yes"):
                return True
            if word in ("a", "always"):
                self.trusted.add(call.name)
                return True
            if word in ("", "n", "no"):  # nothing, or the end of input: what nobody allowed does not run
                return ToolDenied(f"The user denied this call: {why.strip()}") if why.strip() else ToolDenied()
            self.console.print(HELP, style="dim")

    def _show(self, call: DeferredCall) -> None:
        """All of it, also what the transcript cuts: nobody should allow what they have not seen."""
        self.console.print(f"{visible(call.name)} asks first", style="bold yellow")
        for name, value in call.arguments.items():
            text = visible(_spelled(value))
            if "\n" not in text.rstrip("\n"):
                self.console.print(f"  {visible(name)}: {text}")
                continue
            self.console.print(f"  {visible(name)}:")
            for line in text.splitlines():
                self.console.print(f"  │ {line}")
        if call.reason and call.reason != f"{call.name} requires approval":
            self.console.print(f"  {visible(call.reason)}", style="dim")


def _spelled(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
