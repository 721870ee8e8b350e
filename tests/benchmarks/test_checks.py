"""A figure that cannot be fails its script."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.checks import ImpossibleFigure, check_decode, check_rows

GOOD: dict[str, Any] = {"kind": "tool", "new": 20, "evaluated": 20, "ttft_s": 0.1, "drafted": 5, "accepted": 5}


@pytest.mark.parametrize(
    "change",
    [
        {"ttft_s": -0.1},
        {"ttft_s": float("nan")},
        {"ttft_runs": [0.1, -0.2]},
        {"tok_s": float("inf")},
        {"accepted": 6},
        {"evaluated": 19},
        {"kind": "interrupted", "evaluated": 3},
        {"kind": "fork", "evaluated": 3},
        {"generated": -1},
    ],
)
def test_an_impossible_row_is_refused(change: dict[str, Any]) -> None:
    check_rows([GOOD])
    with pytest.raises(ImpossibleFigure):
        check_rows([GOOD, {**GOOD, **change}])


@pytest.mark.parametrize(
    "change",
    [
        {"evaluated": None},
        {"evaluated": 900},
        {"kind": "interrupted", "evaluated": 19},
        {"kind": "fork", "evaluated": 10},
        {"gap": -0.01},
        {"kind": "first", "engine": "http://127.0.0.1:8000", "evaluated": 1},
    ],
)
def test_what_can_be_passes(change: dict[str, Any]) -> None:
    check_rows([{**GOOD, **change}])


def test_no_decode_is_faster_than_memory() -> None:
    check_decode(100.0, 10_000_000, 1e9, "at the limit")
    check_decode(190.0, 10_000_000, 1e9, "two threads", threads=2)
    with pytest.raises(ImpossibleFigure, match="5000 passes a second"):
        check_decode(5000.0, 10_000_000, 1e9, "too fast")
