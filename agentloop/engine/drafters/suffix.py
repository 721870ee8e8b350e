"""Suffix drafting: what followed the last time these tokens were written is likely to follow again.

The index maps every run of `GRAM` tokens to the last few places where it ended. Adding a token costs one dictionary
entry, a draft looks at those few places and counts backwards how long each match is; the history is never scanned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .base import Draft

if TYPE_CHECKING:
    from .._native import NativeContext

__all__ = ["SuffixDrafter", "SuffixFactory"]

GRAM = 3
PLACES = 6  # how many earlier places of a run are remembered
LONGEST = 48  # where counting a match backwards ends

_TRAIL = 8  # a match of this length that ends is taken up again behind the difference,
_PATIENCE = 4  # if this many tokens bring no new match: an edit replaced as many tokens as it wrote
_NOTHING = (-1, -1, 0)  # (index of the last token, place, match length) of no search


class SuffixDrafter:
    """Matches the end of the whole conversation, tool results and files included.

    `_found`: the last search. `_trail`: (last index for which it holds, place minus index) of a long match that ended.
    """

    name = "suffix"

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._index: dict[tuple[int, ...], list[int]] = {}
        self._tokens: list[int] = []  # what was indexed; position i ends the run in _index
        self._found = _NOTHING
        self._trail = (-1, 0)

    def peek(self, tokens: Sequence[int]) -> int | None:
        """Evidence: the match length in steps of 3-4, 5-7, 8-15, 16-31, 32 and more; 0 behind the end of a match."""
        place, length = self._search(tokens)
        return None if place < 0 else evidence_of(length)

    def propose(self, tokens: Sequence[int], k: int) -> Draft:
        place, length = self._search(tokens)
        if place < 0:
            return Draft([])
        ids = list(tokens[place + 1 : place + 1 + k])
        period = len(tokens) - 1 - place
        while len(ids) < k:  # the match runs into the end of the text: a loop, go round in it
            ids.append(ids[-period])
        return Draft(ids, evidence_of(length))

    def observe(self, ctx: NativeContext, ids: Sequence[int], start: int, rows: int) -> None:
        self._learn(ids[:rows], start)

    def rewind(self, n: int) -> None:
        while len(self._tokens) > n:
            end = len(self._tokens) - 1
            if end >= GRAM - 1:
                places = self._index[tuple(self._tokens[end - GRAM + 1 :])]
                if places and places[-1] == end:
                    places.pop()
            self._tokens.pop()
        self._found, self._trail = _NOTHING, (-1, 0)

    def move(self, slot: int | None) -> None:
        """Nothing of it lives in a slot."""

    def fork(self, slot: int | None) -> SuffixDrafter:
        twin = SuffixDrafter(self.depth)
        twin._tokens = list(self._tokens)
        twin._index = {key: list(places) for key, places in self._index.items()}
        return twin

    def save(self) -> bytes:
        return b""  # the tokens say it all

    def load(self, data: bytes, tokens: Sequence[int]) -> None:
        self.rewind(0)
        self._learn(tokens, 0)

    def _learn(self, ids: Sequence[int], start: int) -> None:
        known, index = self._tokens, self._index
        if start != len(known):
            self.rewind(min(start, len(known)))
            if start > len(known):  # it lags: what is missing is never matched
                return
        for token in ids:
            known.append(token)
            if len(known) >= GRAM:
                places = index.setdefault(tuple(known[-GRAM:]), [])
                places.append(len(known) - 1)
                if len(places) > PLACES:
                    del places[0]

    def _search(self, tokens: Sequence[int]) -> tuple[int, int]:
        """(place, match length): the place ends the longest earlier match of the end of `tokens`; -1 if there is none.
        The last token itself is not indexed yet: it waits. A match that goes on costs one comparison a token."""
        last = len(tokens) - 1
        at, place, length = self._found
        if at == last:
            return place, length
        if 0 <= at < last and place >= 0:
            while at < last and tokens[place + 1] == tokens[at + 1]:
                at, place, length = at + 1, place + 1, length + 1
            if at < last and length >= _TRAIL:
                self._trail = (last + _PATIENCE, place - at)
        if at < last:
            place, length = (last + self._trail[1], 0) if last <= self._trail[0] else (-1, 0)
        if length < GRAM:
            other, longer = self._longest(tokens, last)
            if longer > length:
                place, length = other, longer
        self._found = (last, place, length)
        return place, length

    def _longest(self, tokens: Sequence[int], last: int) -> tuple[int, int]:
        place, best = -1, 0
        if last >= GRAM:
            for candidate in reversed(self._index.get(tuple(tokens[last - GRAM + 1 :]), ())):
                length = GRAM
                limit = min(LONGEST, candidate + 1)
                while length < limit and tokens[candidate - length] == tokens[last - length]:
                    length += 1
                if length > best:
                    place, best = candidate, length
                if length >= LONGEST:
                    break
        return place, best


class SuffixFactory:
    """Suffix drafters need nothing in common."""

    name = "suffix"

    def __init__(self, depth: int) -> None:
        self.depth = depth

    def create(self) -> SuffixDrafter:
        return SuffixDrafter(self.depth)

    def close(self) -> None:
        """Nothing is held."""


def evidence_of(length: int) -> int:
    """The step of a match length that shares one acceptance record."""
    return (length >= GRAM) + (length >= 5) + (length >= 8) + (length >= 16) + (length >= 32)
