"""Finds a reply that repeats itself without end.

A model that loops writes one block of tokens again and again. While it does, the last g tokens stood exactly one period
earlier, at every step, for any g that is at least the period (a block with no shorter period equals none of its
rotations but itself). A few sizes of g, each a rolling hash and a look-up, find every period up to `max_period` at a
constant cost per token; a small g finds a block without repetitions inside at once, whatever its length.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Loop", "LoopDetector"]

_FIRST_SIZE, _STEP = 8, 4
_BASE, _MODULUS = 1_000_003, (1 << 61) - 1


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
        self._hashes = [0]  # of the first i tokens
        sizes = [_FIRST_SIZE]
        while sizes[-1] < self._max:
            sizes.append(min(sizes[-1] * _STEP, self._max))
        self._windows = [_Window(size, self._max) for size in sizes]

    def feed(self, token: int, phase: str = "content") -> Loop | None:
        """One token; the loop that it completes, if any."""
        hashes = self._hashes
        hashes.append((hashes[-1] * _BASE + token + 1) % _MODULUS)
        scale = self._factor if phase == "call" else 1
        for window in self._windows:
            if window.size >= len(hashes):
                break
            period, length = window.feed(hashes)
            if period and length >= max(self._repeats * period, self._min) * scale:
                return Loop(period, length // period, length)
        return None


class _Window:
    """The last `size` tokens: how far back they stood before, and for how long that distance has been the same."""

    def __init__(self, size: int, most: int) -> None:
        self.size = size
        self._most = most
        self._power = pow(_BASE, size, _MODULUS)
        self._recent: dict[int, int] = {}
        self._older: dict[int, int] = {}  # two generations, so that what is kept stays bounded
        self._period = 0
        self._run = 0

    def feed(self, hashes: list[int]) -> tuple[int, int]:
        """Period and length of what repeats up to the last token; (0, 0) where nothing does."""
        n = len(hashes) - 1
        window = (hashes[n] - hashes[n - self.size] * self._power) % _MODULUS
        before = self._recent.get(window) or self._older.get(window)
        self._recent[window] = n
        if len(self._recent) > self._most:
            self._recent, self._older = {}, self._recent
        period = 0 if before is None else n - before
        if not period or period > self._most:
            self._period = self._run = 0
            return 0, 0
        if period != self._period:
            self._period, self._run = period, 0
        self._run += 1
        return period, self._run + period + self.size - 1
