"""The script of an episode: messages in OpenAI form, with as much reasoning as the effort asks for."""

from __future__ import annotations

import random
from typing import Any, Literal

__all__ = ["CHECKS", "DONE", "Effort", "Script", "and_list"]

Effort = Literal["low", "medium", "xhigh", None]
"""None: thinking is off."""

CHECKS = (
    "I check the request again.",
    "The request is clear.",
    "I have all that I need for this step.",
    "This is the direct way.",
    "Nothing else is needed before that.",
)
DONE = ("The task is complete.", "Now I can answer.", "The result is clear.", "That is all that was asked.")

Call = tuple[str, dict[str, str]]


class Script:
    """Collects the messages of one episode. `tools` are the names that were called."""

    def __init__(self, r: random.Random, effort: Effort) -> None:
        self.r = r
        self.effort: Effort = effort
        self.messages: list[dict[str, Any]] = []
        self.tools: set[str] = set()

    def user(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def call(self, thoughts: list[str], *calls: Call, learn: bool = True) -> None:
        """An assistant turn with calls. `learn=False`: a mistake, shown and not learnt."""
        self.tools.update(name for name, _ in calls)
        made = [{"type": "function", "function": {"name": name, "arguments": args}} for name, args in calls]
        self._assistant(thoughts, {"content": "", "tool_calls": made, "learn": learn})

    def result(self, text: str) -> None:
        self.messages.append({"role": "tool", "content": text})

    def answer(self, thoughts: list[str], text: str) -> None:
        self._assistant(thoughts, {"content": text, "learn": True})

    def _assistant(self, thoughts: list[str], rest: dict[str, Any]) -> None:
        shown = {None: 0, "low": 1, "medium": 2, "xhigh": len(thoughts)}[self.effort]
        self.messages.append({"role": "assistant", "reasoning_content": " ".join(thoughts[:shown]), **rest})

    def check(self) -> str:
        return self.r.choice(CHECKS)

    def done(self) -> str:
        return self.r.choice(DONE)


def and_list(items: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]
