"""How often drafted tokens are accepted, by position, for drafts of equal evidence."""

from __future__ import annotations

from functools import lru_cache

__all__ = ["LONGEST", "Acceptance", "beginner"]

LONGEST = 64  # positions that are counted
_DECAY = 0.98  # how fast old acceptance is forgotten, a draft
_WEIGHT = 2.0  # drafts that the first guess counts for

# What a drafter is taken for before it was tried. The suffix drafter's evidence is the step of its match length.
_FIRST = {"suffix": (0.4, 0.5, 0.6, 0.8, 0.9, 0.95), "mtp": (0.7,), "block": (0.6,), "draft_model": (0.6,)}


class Acceptance:
    """Decayed counts per position of (accepted, tried), smoothed towards the position before. `expected[k]`: tokens
    that a draft of k yields, the target's own included. `rates`: acceptance of the positions that were tried."""

    __slots__ = ("_first", "_hits", "_tries", "expected", "rates")

    def __init__(self, first: float = 0.6) -> None:
        self._first = first
        self._hits: list[float] = []
        self._tries: list[float] = []
        self._update()

    def copy(self) -> Acceptance:
        """A record of its own that begins where this one stands."""
        twin = Acceptance(self._first)
        twin._hits, twin._tries = list(self._hits), list(self._tries)
        twin._update()
        return twin

    def learn(self, k: int, accepted: int) -> None:
        """A draft of `k` had its first `accepted` tokens accepted; the one behind them was tried and refused."""
        while len(self._tries) < k:
            self._hits.append(0.0)
            self._tries.append(0.0)
        for i in range(min(k, accepted + 1)):
            self._hits[i] = self._hits[i] * _DECAY + (i < accepted)
            self._tries[i] = self._tries[i] * _DECAY + 1.0
        self._update()

    def _update(self) -> None:
        rate, chance, expected = self._first, 1.0, [1.0]
        self.rates: list[float] = []
        for i in range(LONGEST):
            if i < len(self._tries):
                rate = (self._hits[i] + _WEIGHT * rate) / (self._tries[i] + _WEIGHT)
                self.rates.append(rate)
            chance *= rate
            expected.append(expected[-1] + chance)
        self.expected = expected


@lru_cache(maxsize=64)
def beginner(name: str, evidence: int) -> Acceptance:
    """The record of a drafter that was not tried yet; shared, so copy it before it learns."""
    steps = _FIRST.get(name, (0.6,))
    return Acceptance(steps[max(0, min(evidence, len(steps) - 1))])
