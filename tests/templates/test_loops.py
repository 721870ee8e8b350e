"""Replies that repeat themselves are found; text that only looks alike is not."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentloop.templates.loops import Loop, LoopDetector


def first_loop(tokens: list[int], phase: str = "content", **options: int) -> tuple[int, Loop] | None:
    detector = LoopDetector(**options)
    for at, token in enumerate(tokens):
        loop = detector.feed(token, phase)
        if loop is not None:
            return at, loop
    return None


@pytest.mark.parametrize("period", [1, 2, 5, 6, 7, 40, 300])
def test_a_repeated_block_is_found_with_its_period(period: int) -> None:
    rng = random.Random(period)
    before = [rng.randrange(10_000) for _ in range(500)]
    block = [10_000 + i for i in range(period)]
    found = first_loop(before + block * max(10, 400 // period))
    assert found is not None
    at, loop = found
    assert loop.period == period
    assert loop.repeats >= 4
    assert at + 1 - len(before) <= max(4 * period, 96)
    assert str(period) in loop.reason


def test_three_times_are_no_loop_yet() -> None:
    block = list(range(100))
    assert first_loop(block * 3 + [7, 7]) is None


def test_prose_and_tables_pass() -> None:
    rng = random.Random(1)
    words = [rng.choice(range(50)) for _ in range(20_000)]
    assert first_loop(words) is None
    rule = [5] * 60 + [6]
    rows = [x for i in range(40) for x in (*rule[:20], i, i + 1, i + 2)]
    assert first_loop(rows) is None


def test_data_in_a_call_may_repeat_longer() -> None:
    zeros = [0] * 200
    assert first_loop(zeros, "content") is not None
    assert first_loop(zeros, "call") is None
    assert first_loop([0] * 500, "call") is not None


def test_reset_forgets() -> None:
    detector = LoopDetector()
    assert not any(detector.feed(3) for _ in range(90))
    detector.reset()
    assert not any(detector.feed(3) for _ in range(90))


@given(st.lists(st.integers(0, 3), max_size=400), st.integers(1, 8))
def test_what_is_reported_is_there(tokens: list[int], repeats: int) -> None:
    repeats = max(2, repeats)
    found = first_loop(tokens, repeats=repeats, min_tokens=8)
    if found is None:
        return
    at, loop = found
    seen = tokens[: at + 1]
    assert loop.length <= len(seen)
    tail = seen[-loop.length :]
    assert all(a == b for a, b in zip(tail, tail[loop.period :], strict=False))
    assert loop.repeats >= repeats or loop.length >= 8


def test_bad_options_are_refused() -> None:
    with pytest.raises(ValueError, match="repeats"):
        LoopDetector(repeats=1)


@pytest.mark.parametrize(
    "block",
    [
        [1] * 12 + [2],
        [1] * 12 + [2] + [1] * 20 + [2],
        [1, 2] * 10 + [3],
        ([1] * 10 + [2]) * 4 + [3],
        [*range(20), *range(19), 7],
        [*([1] * 8), 2, *([1] * 8), 3, *([1] * 8), 2],
    ],
)
def test_a_block_that_repeats_itself_inside_is_found(block: list[int]) -> None:
    found = first_loop([*range(1000, 1200), *block * 20])
    assert found is not None
    at, loop = found
    assert loop.period == len(block)
    assert at + 1 - 200 <= max(4 * len(block), 96) + 64


def test_a_change_in_every_round_is_no_loop() -> None:
    rounds = [x for i in range(100) for x in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1000 + i]]
    assert first_loop(rounds) is None


@given(st.lists(st.integers(0, 2), min_size=1, max_size=60), st.lists(st.integers(0, 5), max_size=30))
def test_every_loop_is_found(block: list[int], before: list[int]) -> None:
    assert first_loop(before + block * (4 + 200 // len(block))) is not None
