"""The parts of `intel` on one task each: what they call in scripts/ is there, and counts what it should."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from agentloop import Engine
from benchmarks.intel import ARMS, _attempt, _needle
from benchmarks.machine import script
from benchmarks.report import Options, Report


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load(n_ctx=4096, sequences=1, threads=1, drafters="none") as loaded:
        yield loaded


@pytest.mark.parametrize("arm", ["drafting off", "strict calls", "budget 24", "thinking off"])
def test_an_arm_solves_a_task_and_decodes_nothing_twice(engine: Engine, arm: str) -> None:
    settings = {key: value for key, value in ARMS[arm].items() if key != "drafters"}
    task = script("eval_tasks").SHORT["look_up"](random.Random(3))
    counts = _attempt(engine, task, 0, **settings)
    assert counts["right"] == 1
    assert counts["calls"] == 1
    assert counts["bad_calls"] == counts["cut"] == counts["recomputed"] == 0
    assert counts["generated"] > 20


def test_every_kind_of_task_can_be_tried() -> None:
    for make in script("eval_tasks").SHORT.values():
        assert make(random.Random(1)).steps


def test_a_needle_is_looked_for() -> None:
    report = Report("intel", "short", ("part",))
    _needle(report, Options(form="short"))
    assert [row["arm"] for row in report.rows] == ["1 lines", "4 lines", "16 lines", "64 lines"]
    assert sum(row["right"] for row in report.rows) >= 6
