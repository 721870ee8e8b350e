"""Which drafter, and how many tokens: measured cost against expected acceptance.

A step that verifies k drafted tokens costs draft(k) + verify(k + 1 rows) and yields 1 + p1 + p1*p2 + ... tokens, where
p_i is how often the i-th drafted token was accepted once the ones before it were. Each step takes the drafter and the k
with the most expected tokens per second, k = 0 included. All numbers are known before the step's own tokens are drawn,
so the choice cannot bias them.

A step that is not as wide as the one before costs `switch_s` more: llama.cpp builds its graph anew. Leaving plain
decoding is charged the way back as well, so that coming back is free and a long copy stays at one width. A drafter that
always has something to say stays at its width for many steps, which share both changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .acceptance import LONGEST, Acceptance, beginner
from .draft_cost import DraftCost

__all__ = ["Choice", "Policy"]

_BLEND = 0.1  # how fast a cost follows new timings
_MARGIN = 1.05  # a draft must promise this much more than plain decoding: estimates are noisy, plain is not
_RUN = {"suffix": 1}  # steps in a row that are likely to have drafts of one width: a match may end at once,
_STEADY = 8  # a head, a block drafter and a draft model always have a draft
_TRIALS = 0.005  # the share of plain decoding's time that trials of poor drafters may cost


@dataclass(frozen=True, slots=True)
class Choice:
    """Draft `k` tokens with the drafter at `index` of the candidates; k = 0 is plain decoding."""

    index: int
    k: int


_PLAIN = Choice(0, 0)


class Policy:
    """Shared by all sequences of an engine; the engine's lock is held around every call.

    `verify_s[r]`: seconds to decode r + 1 rows, from calibration, kept true by `timed`; `switch_s`: seconds that a step
    of another width costs besides.
    """

    def __init__(self, verify_s: Sequence[float], switch_s: float = 0.0) -> None:
        self._verify = [max(1e-7, s) for s in verify_s]
        self._switch = max(0.0, switch_s)
        self._pace = 1.0  # the whole curve's: other work on the machine, a deeper context
        self._rows = 1  # of the last step
        self._costs: dict[str, DraftCost] = {}
        self._accepted: dict[tuple[str, int], Acceptance] = {}
        self._saved = 0.0  # seconds that trials may cost now
        self._tried: dict[str, int] = {}  # by drafter: the number of its last trial

    @property
    def verify_s(self) -> tuple[float, ...]:
        """Seconds to verify 1, 2, ... rows, as known now."""
        return tuple(s * self._pace for s in self._verify)

    @property
    def switch_s(self) -> float:
        """Seconds that a change of width costs, as known now."""
        return self._switch * self._pace

    @property
    def max_draft(self) -> int:
        """The longest draft that the curve covers."""
        return len(self._verify) - 1

    def choose(self, candidates: Iterable[tuple[str, int, int]]) -> Choice:
        """`candidates`: (drafter name, evidence, most tokens it may draft now)."""
        verify, rows = self._verify, self._rows
        best, best_rate = _PLAIN, _MARGIN / verify[0]
        options = list(candidates)
        for index, (name, evidence, most) in enumerate(options):
            record = self._accepted.get((name, evidence)) or beginner(name, evidence)
            expected, cost = record.expected, self._costs.get(name)
            fixed, each = (cost.fixed / self._pace, cost.each / self._pace) if cost is not None else (0.0, 0.0)
            fixed += self._switch * (1 if rows > 1 else 2 / _RUN.get(name, _STEADY))
            for k in range(1, min(most, len(verify) - 1, LONGEST) + 1):
                seconds = fixed + each * k + verify[k]
                if k + 1 == rows:
                    seconds -= self._switch
                rate = expected[k] / seconds
                if rate > best_rate * 1.0001:
                    best, best_rate = Choice(index, k), rate
        return self._trial(options) if best.k == 0 and options else best

    def _trial(self, options: Sequence[tuple[str, int, int]]) -> Choice:
        """Plain decoding, or one token of the drafter that was tried longest ago: how poor it is may have changed. What
        that costs at worst must have been saved before, a small share of every plain step."""
        plain = self._verify[0]
        self._saved += plain * _TRIALS
        index = min(range(len(options)), key=lambda i: self._tried.get(options[i][0], 0))
        name, _, most = options[index]
        if most < 1 or len(self._verify) < 2:
            return _PLAIN
        cost = self._costs.get(name)
        draft = (cost.fixed + cost.each) / self._pace if cost is not None else 0.0
        spent = self._verify[1] - plain + 2 * self._switch + draft
        if self._saved < spent:
            return _PLAIN
        self._saved = 0.0
        self._tried[name] = 1 + max(self._tried.values(), default=0)
        return Choice(index, 1)

    def learn(self, name: str, evidence: int, k: int, accepted: int) -> None:
        """The target accepted `accepted` of `k` drafted tokens."""
        record = self._accepted.get((name, evidence))
        if record is None:
            record = self._accepted[name, evidence] = beginner(name, evidence).copy()
        record.learn(k, accepted)

    def timed(self, rows: int, verify_s: float, name: str | None = None, k: int = 0, draft_s: float = 0.0) -> None:
        """What a real step took. The whole curve follows the machine's pace (other work, a deeper context), the width
        that was used follows its own time besides."""
        if 1 <= rows <= len(self._verify):
            known = self._verify[rows - 1] + (self._switch if rows != self._rows else 0.0)
            # One slow step (another process, a page fault) must not drive the policy away from a width.
            ratio = min(3.0, max(1.0 / 3.0, verify_s / (known * self._pace)))
            follow = 1.0 + _BLEND / 2 * (ratio - 1.0)
            self._pace *= follow
            self._verify[rows - 1] *= follow
            self._rows = rows
        if name is not None and k > 0:
            self._costs.setdefault(name, DraftCost(name)).learn(k, draft_s)

    def acceptance(self) -> dict[str, list[float]]:
        """Acceptance by position for every (drafter, evidence) seen, for people."""
        return {
            f"{name}/{evidence}": [round(rate, 3) for rate in record.rates]
            for (name, evidence), record in sorted(self._accepted.items())
        }
