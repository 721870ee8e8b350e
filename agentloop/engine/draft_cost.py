"""What a draft of k tokens costs: a part that every draft pays, and a part for each token.

A block drafter computes a whole block for any k; a chained head or a draft model pays token by token, and a catch-up
first. Both parts are fitted to the timings of real drafts, by least squares with old ones forgotten.
"""

from __future__ import annotations

__all__ = ["DraftCost"]

_DECAY = 0.97
_WHOLE = ("block",)  # drafters whose cost is taken for fixed while every draft had the same length


class DraftCost:
    """`fixed` and `each`, in seconds: a draft of k tokens takes fixed + each * k. Both 0 before the third `learn`."""

    __slots__ = ("_cold", "_d", "_k", "_kd", "_kk", "_n", "_whole", "each", "fixed")

    def __init__(self, name: str) -> None:
        self._whole = name in _WHOLE
        self._cold = 2
        self._n = self._k = self._kk = self._d = self._kd = 0.0
        self.fixed = self.each = 0.0

    def learn(self, k: int, seconds: float) -> None:
        """A draft of `k` >= 1 tokens took `seconds`. The first two are not counted: graphs are built and memory is
        touched for the first time. Later one slow draft counts for at most three times what was expected, so that a
        hiccup does not end drafting."""
        if self._cold:
            self._cold -= 1
            return
        if self._n > 3.0:
            seconds = min(seconds, 3.0 * max(self.fixed + self.each * k, self._d / self._n))
        self._n = self._n * _DECAY + 1.0
        self._k = self._k * _DECAY + k
        self._kk = self._kk * _DECAY + k * k
        self._d = self._d * _DECAY + seconds
        self._kd = self._kd * _DECAY + k * seconds
        spread = self._n * self._kk - self._k * self._k
        if spread > 1e-3 * self._kk * self._n:
            each = (self._n * self._kd - self._k * self._d) / spread
            self.each = min(max(0.0, each), self._d / self._k)
            self.fixed = max(0.0, (self._d - self.each * self._k) / self._n)
        elif self._whole:
            self.fixed, self.each = self._d / self._n, 0.0
        else:
            self.fixed, self.each = 0.0, self._d / self._k
