"""The regression gate: what a fixed trace evaluates is what is committed, row by row."""

from __future__ import annotations

import copy
import json
import sys
from typing import Any

import pytest

from benchmarks.gate import GATE, compare, conversation_counts, python_calls, sequence_counts

COMMITTED: dict[str, Any] = json.loads(GATE.read_text("utf-8"))


def test_a_conversation_evaluates_what_is_new_and_that_alone() -> None:
    found = conversation_counts()
    assert found == COMMITTED["conversation"], "run `python -m benchmarks gate --write` if this is meant"
    assert all(row["evaluated"] == row["new"] and row["recomputed"] == 0 for row in found)


def test_operations_on_live_states_evaluate_what_they_did() -> None:
    assert sequence_counts() == COMMITTED["sequence"], "run `python -m benchmarks gate --write` if this is meant"


def test_python_adds_no_more_calls_to_a_token() -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    # Interpreters count calls differently (3.12 inlines comprehensions), so only a version's own count says anything.
    if version not in COMMITTED["python_calls"]:
        pytest.skip(f"no count is committed for Python {version}")
    assert compare(COMMITTED, {**COMMITTED, "python_calls": {version: python_calls()}}) == []


@pytest.mark.parametrize(("part", "name"), [("conversation", "evaluated"), ("sequence", "recomputed")])
def test_one_token_more_is_found(part: str, name: str) -> None:
    found = copy.deepcopy(COMMITTED)
    found[part][3][name] += 1
    assert len(compare(COMMITTED, found)) == 1
    found[part].pop()
    assert len(compare(COMMITTED, found)) == 2


def test_more_calls_than_a_tenth_are_found() -> None:
    version, value = next(iter(COMMITTED["python_calls"].items()))
    assert compare(COMMITTED, {**COMMITTED, "python_calls": {version: value * 1.09}}) == []
    assert len(compare(COMMITTED, {**COMMITTED, "python_calls": {version: value * 1.2}})) == 1
    assert compare(COMMITTED, {**COMMITTED, "python_calls": {"9.9": value * 9}}) == []
