"""The script of an episode: messages in OpenAI form, with as much reasoning as the effort asks for."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Literal

from .words import file_path

__all__ = ["CHECKS", "DONE", "Effort", "Script", "and_list"]

Effort = Literal["low", "medium", "xhigh", None]
"""None: thinking is off."""

CHECKS = {
    "read": "The request is clear.",
    "write": "I have all that I need for this step.",
    "run": "This is the direct way.",
    "more": "Nothing else is needed before that.",
}
"""By the kind of the step that comes next."""

DONE = {
    "told": "Now I can answer.",
    "changed": "The task is complete.",
    "computed": "The result is clear.",
    "said": "That is all that was asked.",
}

Call = tuple[str, dict[str, str]]

_PER_TOKEN = 3.4  # characters; a row that is too short is filled by another episode
_PER_TURN = 9  # tokens of a turn's tags


class Script:
    """Collects the messages of one episode.

    declared: the names of its tools, in their order. room: tokens that it should fill. `large` is set for a task that
    is to use a long file.
    """

    def __init__(
        self, r: random.Random, effort: Effort, declared: Sequence[str] = (), room: float | None = None, size: float = 0
    ) -> None:
        self.r = r
        self.effort: Effort = effort
        self.declared = list(declared)
        self.messages: list[dict[str, Any]] = []
        self.room = room
        self.size = size
        self.large = False
        self.paths: set[str] = set()
        self.files: set[str] = set()  # of the paths, those that were read or written: they exist

    @property
    def left(self) -> float:
        """About how many tokens there is room for."""
        return 4000.0 if self.room is None else self.room - self.size

    def path(self, *extensions: str) -> str:
        """A path that this conversation has not named yet."""
        path = file_path(self.r, *extensions)
        while path in self.paths:
            path = file_path(self.r, *extensions)
        self.paths.add(path)
        return path

    def inside(self, folder: str) -> set[str]:
        """The names in a folder that is listed: of files that exist, and of folders with such files."""
        rests = (path.removeprefix(folder + "/") for path in self.files if path.startswith(folder + "/"))
        return {name + slash for name, slash, _ in (rest.partition("/") for rest in rests)}

    def ask(self, usual: Sequence[str], others: Sequence[str] = ()) -> None:
        """The user's request: one of the usual wordings, or now and then another one."""
        self.user(self.r.choice(others if others and self.r.random() < 0.25 else usual))

    def user(self, text: str) -> None:
        self._add({"role": "user", "content": text}, len(text))

    def call(self, thoughts: Sequence[str], *calls: Call, learn: bool = True) -> None:
        """An assistant turn with calls. `learn=False`: a mistake, shown and not learnt."""
        made = [{"type": "function", "function": {"name": name, "arguments": args}} for name, args in calls]
        length = sum(60 + len(name) + sum(30 + len(text) for text in args.values()) for name, args in calls)
        self._assistant(thoughts, {"content": "", "tool_calls": made, "learn": learn}, length)

    def result(self, text: str) -> None:
        self._add({"role": "tool", "content": text}, len(text))

    def answer(self, thoughts: Sequence[str], text: str) -> None:
        self._assistant(thoughts, {"content": text, "learn": True}, len(text))

    def _assistant(self, thoughts: Sequence[str], rest: dict[str, Any], length: int) -> None:
        shown = {None: 0, "low": 1, "medium": 2, "xhigh": len(thoughts)}[self.effort]
        thought = " ".join(thoughts[:shown])
        self._add({"role": "assistant", "reasoning_content": thought, **rest}, length + len(thought))

    def _add(self, message: dict[str, Any], length: int) -> None:
        self.messages.append(message)
        self.size += length / _PER_TOKEN + _PER_TURN


def and_list(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]
