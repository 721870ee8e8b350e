"""Notices a model that makes the same calls with the same results over and over."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..calls import Call

__all__ = ["RepeatGuard"]

_PERIODS = (1, 2, 3)


class RepeatGuard:
    """Feed it the calls and results of each turn; it counts how often the last one, two or three turns were repeated
    in a row without any difference."""

    def __init__(self) -> None:
        self._turns: list[str] = []

    def add(self, calls: Sequence[Call], contents: Sequence[str]) -> int:
        """How many times in a row the turns up to this one have been the same: 1 for something new."""
        turn: list[Any] = [[c.name, c.arguments or c.raw, text] for c, text in zip(calls, contents, strict=True)]
        self._turns.append(json.dumps(turn, sort_keys=True, default=str))
        return max(self._count(period) for period in _PERIODS)

    def _count(self, period: int) -> int:
        last, count = self._turns[-period:], 1
        if len(last) < period or (period > 1 and len(set(last)) == 1):
            return 1
        end = len(self._turns) - period
        while end >= period and self._turns[end - period : end] == last:
            count += 1
            end -= period
        return count
