"""The canonical grammar of calls: every tag on a line of its own, and nothing else but values.

    <tool_call>\\n<function=NAME>\\n(<parameter=NAME>\\nVALUE\\n</parameter>\\n)*</function>\\n</tool_call>

More calls follow behind one newline each.

A closing tag in a value ends it only where the rest of the text can be read by this grammar too, so one text may have
more than one reading.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .call_tags import Tag, unquoted

__all__ = ["RawCall", "Value", "nested_reading", "strict_readings"]


@dataclass
class Value:
    """One parameter; `tags` are the tags that stand inside its text."""

    name: str
    text: str
    tags: Sequence[Tag] = ()


@dataclass
class RawCall:
    """One call as it is spelled at [start, end). `error`: it cannot be read, but where it ends is beyond doubt."""

    name: str
    start: int
    end: int
    values: list[Value] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    error: str | None = None


def strict_readings(text: str, tags: Sequence[Tag]) -> Iterator[list[RawCall]]:
    """All canonical readings of a whole text, those that end values early first."""
    if tags and tags[0].kind == "call" and tags[0].start == 0:
        grammar = _Grammar(text, tags)
        if grammar.can[0]:
            yield from grammar.calls(0)


def nested_reading(text: str, tags: Sequence[Tag]) -> list[RawCall] | None:
    """The one canonical reading in which every value opens and closes all of its own tags; None if there is none.

    It is one because a value that went on behind the tag that closes it would hold that tag unopened.
    """
    if not tags or tags[0].kind != "call" or tags[0].start != 0:
        return None
    grammar = _Grammar(text, tags)
    forced: list[int] = []
    i = 0
    while i < len(tags):
        if tags[i].kind == "parameter":
            closer = _matching(tags, i)
            if closer is None or not grammar.can[i] or not grammar.fits(i, closer):
                return None
            at = bisect_right(grammar.closers, closer) - 1
            if at < 0 or grammar.closers[at] != closer:
                return None
            forced.append(at)
            i = closer
        i += 1
    return grammar.read(0, [], forced) if grammar.can[0] else None


def _matching(tags: Sequence[Tag], opener: int) -> int | None:
    inside: list[str] = []
    for i in range(opener + 1, len(tags)):
        kind = tags[i].kind
        if not kind.startswith("/"):
            inside.append(kind)
        elif inside:
            if inside.pop() != kind[1:]:
                return None
        else:
            return i if kind == "/parameter" else None
    return None


class _Grammar:
    def __init__(self, text: str, tags: Sequence[Tag]) -> None:
        self.text, self.tags = text, tags
        n = len(tags)
        self.can = [False] * n  # from this tag on, taken as a tag, the text can be read to its end
        self.closers: list[int] = []  # the closing tags that can end a value, last first
        for i in range(n - 1, -1, -1):
            self.can[i] = self._can(i)
        self.closers.reverse()

    def _next(self, i: int, *kinds: str) -> bool:
        """A newline stands behind tag i, and behind it a tag of these kinds from which it goes on."""
        tags, end = self.tags, self.tags[i].end
        return (
            i + 1 < len(tags)
            and tags[i + 1].start == end + 1
            and self.text[end] == "\n"
            and tags[i + 1].kind in kinds
            and self.can[i + 1]
        )

    def _can(self, i: int) -> bool:
        tag = self.tags[i]
        if unquoted(tag.name) != tag.name:
            return False
        if tag.kind == "call":
            return self._next(i, "function")
        if tag.kind == "function":
            return self._next(i, "parameter", "/function")
        if tag.kind == "parameter":
            return bool(self.closers) and self.text[tag.end : tag.end + 1] == "\n" and self.fits(i, self.closers[0])
        if tag.kind == "/parameter":
            if self.text[tag.start - 1] == "\n" and self._next(i, "parameter", "/function"):
                self.closers.append(i)
                return True
            return False
        if tag.kind == "/function":
            return self._next(i, "/call")
        return tag.end == len(self.text) or self._next(i, "call")

    def fits(self, opener: int, closer: int) -> bool:
        """There is room for the newline on either side of the value."""
        return closer > opener and self.tags[closer].start - 1 >= self.tags[opener].end + 1

    def _first(self, opener: int) -> int:
        at = bisect_right(self.closers, opener)
        return at if self.fits(opener, self.closers[at]) else at + 1

    def calls(self, i: int) -> Iterator[list[RawCall]]:
        """Depth first over the ends of values; no branch is a dead end, and none recurses."""
        choices: list[tuple[int, int]] = []  # (parameter tag, index in closers) of the reading at hand
        forced: list[int] = []
        while True:
            yield self.read(i, choices, forced)
            while choices:
                _, at = choices.pop()
                if at + 1 < len(self.closers):
                    forced = [c for _, c in choices] + [at + 1]
                    choices = []
                    break
            else:
                return

    def read(self, i: int, choices: list[tuple[int, int]], forced: list[int]) -> list[RawCall]:
        calls: list[RawCall] = []
        tags, text = self.tags, self.text
        while i < len(tags):
            tag = tags[i]
            if tag.kind == "call":
                calls.append(RawCall("", tag.start, tag.end))
            elif tag.kind == "function":
                calls[-1].name = tag.name
            elif tag.kind == "/call":
                calls[-1].end = tag.end
            elif tag.kind == "parameter":
                at = forced[len(choices)] if len(choices) < len(forced) else self._first(i)
                choices.append((i, at))
                closer = self.closers[at]
                calls[-1].values.append(
                    Value(tag.name, text[tag.end + 1 : tags[closer].start - 1], tags[i + 1 : closer])
                )
                i = closer
            i += 1
        return calls
