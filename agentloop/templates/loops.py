"""Finds a reply that repeats itself without end.

A model that loops writes one block of tokens again and again. The detector sees the block at whatever length, at the
cost of one dictionary look-up a token: while a text with period p goes on, its last few tokens stood exactly p tokens
earlier, at every step.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

__all__ = ["Loop", "LoopDetector"]

_GRAM = 6


@dataclass(frozen=True, slots=True)
class Loop:
    """The last `length` tokens are a block of `period` tokens, repeated `repeats` times."""

    period: int
    repeats: int
    length: int

    @property
    def reason(self) -> str:
        """For people and for a log."""
        return f"a block of {self.period} tokens was repeated {self.repeats} times"


class LoopDetector:
    """repeats: how often a block must stand there before it counts as a loop. min_tokens: how many tokens a loop must
    have in all, so that rules, tables and rows of zeros pass. In a call, whose values may be data, both are
    `call_factor` times as large. Longest period that is found: `max_period` tokens."""

    def __init__(self, *, repeats: int = 4, min_tokens: int = 96, call_factor: int = 4, max_period: int = 2048) -> None:
        if repeats < 2 or min_tokens < 1 or call_factor < 1 or max_period < 1:
            raise ValueError("repeats must be >= 2; min_tokens, call_factor and max_period must be >= 1")
        self._repeats = repeats
        self._min = min_tokens
        self._factor = call_factor
        self._max = max_period
        self.reset()

    def reset(self) -> None:
        """Forget everything: a new reply begins."""
        self._seen: dict[tuple[int, ...], int] = {}
        self._last: deque[int] = deque(maxlen=_GRAM)
        self._n = 0
        self._period = 0
        self._run = 0

    def feed(self, token: int, phase: str = "content") -> Loop | None:
        """One token; the loop that it completes, if any."""
        self._n += 1
        last = self._last
        last.append(token)
        if len(last) < _GRAM:
            return None
        gram = tuple(last)
        before = self._seen.get(gram)
        self._seen[gram] = self._n
        period = 0 if before is None else self._n - before
        if not period or period > self._max:
            self._period = self._run = 0
            return None
        if period != self._period:
            self._period, self._run = period, 0
        self._run += 1
        length = self._run + period + _GRAM - 1
        scale = self._factor if phase == "call" else 1
        if length < max(self._repeats * period, self._min) * scale:
            return None
        return Loop(period, length // period, length)
