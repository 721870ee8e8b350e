"""Figures that cannot be: a script that finds one fails instead of printing it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["ImpossibleFigure", "check_decode", "check_rows"]

_MARGIN = 1.5
"""How far a decode may pass the measured speed of memory before it is called impossible: the measurement is taken in
other moments of a shared machine."""

SHARED_SCAFFOLD = 16
"""Tokens that a turn behind a side question may save at most: the side question began with the same scaffold, and an
engine that kept it need not evaluate it again."""


class ImpossibleFigure(Exception):
    """A figure above the physical limit, or one that contradicts another."""


def check_rows(rows: Iterable[Mapping[str, Any]]) -> None:
    """Raises ImpossibleFigure for negative or endless numbers, more tokens accepted than drafted, and a turn that
    evaluated fewer tokens than were new."""
    for row in rows:
        for name, value in row.items():
            numbers = value if isinstance(value, list) else [value]
            for number in numbers:
                if isinstance(number, float) and not math.isfinite(number):
                    raise ImpossibleFigure(f"{name} is {number} in {row}")
                signed = name in ("gap", "first_difference")
                if isinstance(number, int | float) and number < 0 and not signed:
                    raise ImpossibleFigure(f"{name} is negative in {row}")
        if row.get("accepted") is not None and row["accepted"] > row.get("drafted", math.inf):
            raise ImpossibleFigure(f"more tokens were accepted than drafted in {row}")
        _check_turn(row)


def _check_turn(row: Mapping[str, Any]) -> None:
    if "new" not in row or row.get("evaluated") is None:
        return
    if row.get("kind") == "first" and str(row.get("engine", "")).startswith("http"):
        return  # a server that is not ours may know the prompt from another day
    # The turn behind a fork shares its first tokens with the fork's own question, and so does the one after it.
    slack = SHARED_SCAFFOLD if row.get("kind") in ("fork", "interrupted") else 0
    if row["evaluated"] < row["new"] - slack:
        raise ImpossibleFigure(f"fewer tokens were evaluated than were new in {row}")


def check_decode(passes_per_s: float, weight_bytes: int, bytes_per_s: float, what: str, *, threads: int = 1) -> None:
    """Raises ImpossibleFigure where more passes a second were made than memory can deliver weights for. A pass of a
    verify step gives several tokens; it is passes that are bound."""
    limit = bytes_per_s * threads / weight_bytes
    if passes_per_s > limit * _MARGIN:
        raise ImpossibleFigure(
            f"{what}: {passes_per_s:.0f} passes a second over {weight_bytes:,} bytes of weights; memory reads "
            f"{bytes_per_s / 1e9:.1f} GB/s, which is {limit:.0f} passes"
        )
