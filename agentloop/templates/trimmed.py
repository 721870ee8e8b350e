"""Text that arrives in pieces and is trimmed of white space at both ends on the way."""

from __future__ import annotations

__all__ = ["Trimmed"]


class Trimmed:
    """`add` returns what may be shown: never leading white space, and trailing white space only once more follows.

    What was shown is `text`, and equals the whole stripped. `lead` and `held` are the white space before and behind it.
    """

    def __init__(self) -> None:
        self.lead = ""
        self.held = ""
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        """All that was shown."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def space_behind(self) -> str:
        """White space at the end of all that was added."""
        return self.held if self._parts else self.lead

    def everything(self) -> str:
        """All that was added."""
        return self.lead + self.text + self.held

    def add(self, text: str) -> str:
        """Take more text; returns the part of it, and of what was held back, that can be shown now."""
        body = text.rstrip()
        if not body:
            if self._parts:
                self.held += text
            else:
                self.lead += text
            return ""
        tail = text[len(body) :]
        if self._parts:
            shown = self.held + body
        else:
            shown = body.lstrip()
            self.lead += body[: len(body) - len(shown)]
        self.held = tail
        self._parts.append(shown)
        return shown
