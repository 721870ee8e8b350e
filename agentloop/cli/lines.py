"""Lines that a person types: with editing, history and completion where there is a terminal, else as they come."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

__all__ = ["Lines", "history_path"]

KEPT = 1000
"""Lines of history that are kept."""


def history_path() -> Path:
    """Where the history of `agentloop chat` lies: `$XDG_STATE_HOME/agentloop/chat_history`."""
    root = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(root) / "agentloop" / "chat_history"


class Lines:
    """Reads standard input line by line. A context manager: the history is read at its start, written at its end.

    `complete` gives the words that a beginning may become. A history that cannot be read or written is done without.
    """

    def __init__(self, complete: Callable[[str], Iterable[str]] | None = None, history: Path | None = None) -> None:
        self._complete = complete
        self._history = history
        self._readline: ModuleType | None = None
        self._words: list[str] = []

    def __enter__(self) -> Lines:
        if sys.stdin is None or not sys.stdin.isatty():
            return self
        try:
            import readline
        except ImportError:  # not part of every Python
            return self
        self._readline = readline
        readline.clear_history()
        if self._complete is not None:
            readline.set_completer_delims("")
            readline.set_completer(self._word)
            editline = "libedit" in (readline.__doc__ or "")
            readline.parse_and_bind("bind ^I rl_complete" if editline else "tab: complete")
        if self._history is not None:
            with contextlib.suppress(OSError):
                readline.read_history_file(self._history)
        return self

    def __exit__(self, *_: object) -> None:
        if self._readline is None:
            return
        self._readline.set_completer(None)
        if self._history is None:
            return
        with contextlib.suppress(OSError):
            self._history.parent.mkdir(parents=True, exist_ok=True)
            self._history.touch(mode=0o600)
            self._readline.set_history_length(KEPT)
            self._readline.write_history_file(self._history)

    @property
    def typed(self) -> bool:
        """A terminal is there, so prompts are shown."""
        return sys.stdin is not None and sys.stdin.isatty()

    def read(self, prompt: str) -> str | None:
        """One line, without its end; None at the end of input. A line that ends in a backslash goes on in the next one.
        Raises KeyboardInterrupt."""
        lines: list[str] = []
        while sys.stdin is not None:
            try:
                line = input((prompt if not lines else "… ") if self.typed else "")
            except EOFError:
                return "\n".join(lines) if lines else None
            if not line.endswith("\\"):
                return "\n".join([*lines, line])
            lines.append(line[:-1])
        return None

    def ask(self, prompt: str) -> str | None:
        """As `read`, for an answer that does not belong into the history. The prompt is shown in any case."""
        if sys.stdin is None:
            return None
        if not self.typed:
            print(prompt, end="", flush=True)
        before = 0 if self._readline is None else self._readline.get_current_history_length()
        try:
            answer: str | None = input(prompt if self.typed else "")
        except EOFError:
            answer = None
        if not self.typed or answer is None:
            print(answer or "")
        if self._readline is not None and self._readline.get_current_history_length() > before:
            self._readline.remove_history_item(before)
        return answer

    def _word(self, begun: str, index: int) -> str | None:
        if index == 0:
            assert self._complete is not None
            self._words = list(self._complete(begun))
        return self._words[index] if index < len(self._words) else None
