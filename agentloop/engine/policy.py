"""Which drafter, and how many tokens: measured cost against expected acceptance.

A step that verifies k drafted tokens costs draft(k) + verify(k + 1 rows) and yields 1 + p1 + p1*p2 + ... tokens, where
p_i is how often the i-th drafted token was accepted once the ones before it were. Each step takes the drafter and the k
with the most expected tokens per second, k = 0 included. All numbers are known before the step's own tokens are drawn,
so the choice cannot bias them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Choice", "Policy"]

_DECAY = 0.98  # how fast old acceptance is forgotten, a token
_BLEND = 0.1  # how fast a cost follows new timings
_MARGIN = 1.05  # a draft must promise this much more than plain decoding: estimates are noisy, plain is not
_EXPLORE = 64  # every so many plain steps a drafter that looks too poor is tried again


@dataclass(frozen=True, slots=True)
class Choice:
    """Draft `k` tokens with the drafter at `index` of the candidates; k = 0 is plain decoding."""

    index: int
    k: int


_LONGEST = 64


class _Acceptance:
    """Decayed counts per position of (accepted, tried), smoothed towards the position before; a beginner is taken to be
    right 60 times in 100. `expected[k]`: tokens that a draft of k yields, the target's own included."""

    __slots__ = ("expected", "hits", "rates", "tries")

    def __init__(self) -> None:
        self.hits: list[float] = []
        self.tries: list[float] = []
        self._update()

    def learn(self, k: int, accepted: int) -> None:
        while len(self.tries) < k:
            self.hits.append(0.0)
            self.tries.append(0.0)
        for i in range(min(k, accepted + 1)):
            self.hits[i] = self.hits[i] * _DECAY + (i < accepted)
            self.tries[i] = self.tries[i] * _DECAY + 1.0
        self._update()

    def _update(self) -> None:
        rate, chance, expected = 0.6, 1.0, [1.0]
        self.rates: list[float] = []
        for i in range(_LONGEST):
            if i < len(self.tries):
                rate = (self.hits[i] + 2.0 * rate) / (self.tries[i] + 2.0)
                self.rates.append(rate)
            chance *= rate
            expected.append(expected[-1] + chance)
        self.expected = expected


_BEGINNER = _Acceptance()


class Policy:
    """Shared by all sequences of an engine; the engine's lock is held around every call.

    `verify_s[r]`: seconds to decode r + 1 rows, from calibration, kept true by `timed`.
    """

    def __init__(self, verify_s: Sequence[float]) -> None:
        self._verify = [max(1e-7, s) for s in verify_s]
        self._draft: dict[str, float] = {}  # seconds a drafted token
        self._accepted: dict[tuple[str, int], _Acceptance] = {}
        self._plain = 0

    @property
    def verify_s(self) -> tuple[float, ...]:
        """Seconds to verify 1, 2, ... rows, as known now."""
        return tuple(self._verify)

    @property
    def max_draft(self) -> int:
        """The longest draft that the curve covers."""
        return len(self._verify) - 1

    def choose(self, candidates: Iterable[tuple[str, int, int]]) -> Choice:
        """`candidates`: (drafter name, evidence, most tokens it may draft now)."""
        best, best_rate = Choice(0, 0), _MARGIN / self._verify[0]
        options = list(candidates)
        for index, (name, evidence, most) in enumerate(options):
            expected = self._accepted.get((name, evidence), _BEGINNER).expected
            each, verify = self._draft.get(name, 0.0), self._verify
            for k in range(1, min(most, len(verify) - 1, _LONGEST) + 1):
                rate = expected[k] / (each * k + verify[k])
                if rate > best_rate * 1.0001:
                    best, best_rate = Choice(index, k), rate
        if best.k == 0 and options:
            self._plain += 1
            if self._plain >= _EXPLORE:
                self._plain = 0
                index = max(range(len(options)), key=lambda i: options[i][1])
                return Choice(index, min(1, options[index][2]))
        return best

    def learn(self, name: str, evidence: int, k: int, accepted: int) -> None:
        """The target accepted `accepted` of `k` drafted tokens."""
        self._accepted.setdefault((name, evidence), _Acceptance()).learn(k, accepted)

    def timed(self, rows: int, verify_s: float, name: str | None = None, k: int = 0, draft_s: float = 0.0) -> None:
        """What a real step took. The whole curve follows the machine's pace (other work, a deeper context), the width
        that was used follows its own time besides."""
        if 1 <= rows <= len(self._verify):
            # One slow step (another process, a page fault) must not drive the policy away from a width.
            ratio = min(3.0, max(1.0 / 3.0, verify_s / self._verify[rows - 1]))
            pace = 1.0 + _BLEND / 2 * (ratio - 1.0)
            self._verify = [s * pace for s in self._verify]
            self._verify[rows - 1] *= pace
        if name is not None and k > 0:
            each = self._draft.get(name, draft_s / k)
            self._draft[name] = each + _BLEND * (draft_s / k - each)

    def acceptance(self) -> dict[str, list[float]]:
        """Acceptance by position for every (drafter, evidence) seen, for people."""
        return {
            f"{name}/{evidence}": [round(rate, 3) for rate in record.rates]
            for (name, evidence), record in sorted(self._accepted.items())
        }
