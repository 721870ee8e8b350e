"""Which characters of a rendered text came from data, when the template is a black box.

Every character of the data that a special token could begin with is replaced, before rendering, by a letter that
occurs nowhere else; behind the template it is put back, and its place is known to be data. All special tokens that are
then left were written by the template. Letters of equal number keep lengths, trims and JSON as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .base import Segment

__all__ = ["StandIns"]

_LETTERS = range(0xA000, 0xA48D)  # Yi syllables: printable, without case
_ALWAYS = "<[{｜"


class StandIns:
    """`starts`: characters that a special token may begin with. `texts`: whatever may hold the letters already."""

    def __init__(self, starts: Iterable[str], *texts: Any) -> None:
        used = {c for text in texts for part in _strings(text) for c in part if "\ua000" <= c <= "\ua48c"}
        free = (chr(code) for code in _LETTERS if chr(code) not in used)
        chosen = sorted({c for c in (*starts, *_ALWAYS) if not c.isspace() and not c.isalnum()})
        self._out = {ord(c): next(free) for c in chosen}
        self._back = {letter: chr(code) for code, letter in self._out.items()}

    def hide(self, value: Any, keep: frozenset[str] = frozenset({"role", "type"})) -> Any:
        """The same JSON value with the characters replaced in all its strings and keys, but in values of `keep`."""
        if isinstance(value, str):
            return value.translate(self._out)
        if isinstance(value, Mapping):
            return {
                key.translate(self._out) if isinstance(key, str) else key: v if key in keep else self.hide(v, keep)
                for key, v in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.hide(item, keep) for item in value]
        return value

    def segments(self, text: str) -> list[Segment]:
        """Rendered text with the characters put back, each a piece of data of its own."""
        out: list[Segment] = []
        start = 0
        for at, char in enumerate(text):
            original = self._back.get(char)
            if original is None:
                continue
            if start < at:
                out.append(Segment(text[start:at], True))
            if out and not out[-1].is_scaffold:
                out[-1] = Segment(out[-1].text + original, False)
            else:
                out.append(Segment(original, False))
            start = at + 1
        if start < len(text):
            out.append(Segment(text[start:], True))
        return out


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strings(item)
