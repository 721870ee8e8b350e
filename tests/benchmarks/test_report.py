"""Tables, the trace, and the page that is made from the raw numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentloop.testing import ScriptedEngine
from benchmarks.checks import check_rows
from benchmarks.cli import BENCHES, main
from benchmarks.page import PAGE, page
from benchmarks.report import RESULTS, table
from benchmarks.trace import agent_day, text_of

ROWS: list[dict[str, Any]] = [
    {"engine": "a", "new": 1200, "ttft_s": 0.12345, "same": True, "runs": [0.1, 2.0], "gap": None},
    {"engine": "b", "new": 3, "ttft_s": 12.345, "same": False, "runs": [1.0], "gap": -0.5},
]


def test_a_table_for_people_and_one_for_the_page() -> None:
    plain = table(ROWS, ["engine", "new", "ttft_s", "same", "runs", "gap"]).splitlines()
    assert plain[1].split() == ["a", "1,200", "0.1235", "yes", "0.1", "to", "2"]
    marked = table(ROWS, ["engine", "new", "gap"], markdown=True).splitlines()
    assert marked == ["| engine | new | gap |", "|---|--:|--:|", "| a | 1,200 |  |", "| b | 3 | -0.5 |"]


def test_texts_have_the_size_asked_for() -> None:
    vocab = ScriptedEngine().vocab
    for size in (50, 1000):
        assert size - 30 <= len(vocab.encode(text_of(vocab, size))) <= size + 40
    assert text_of(vocab, 100, 1) == text_of(vocab, 100, 1) != text_of(vocab, 100, 2)
    kinds = [step.kind for step in agent_day(vocab, (50,))]
    assert set(kinds) == {"first", "tool", "user", "side", "fork", "interrupted", "restart"}


@pytest.mark.parametrize("name", BENCHES)
def test_committed_results_are_whole_and_possible(name: str) -> None:
    result = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    assert (result["bench"], result["form"]) == (name, "full")
    assert {"machine", "versions", "models", "rows", "notes"} <= result.keys()
    check_rows(result["rows"])
    if name == "roundtrip":
        ours = [row for row in result["rows"] if row["engine"] == "agentloop"]
        assert ours
        assert all(row["evaluated"] == row["new"] for row in ours)


def test_the_page_is_the_one_that_the_results_make() -> None:
    if PAGE.exists():
        assert PAGE.read_text("utf-8") == page(), "run `python -m benchmarks page`"


def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    main(["gate", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert result["bench"] == "gate"
    assert {"machine", "versions", "rows"} <= result.keys()
    assert result["machine"]["cores"] >= 1


def test_wrong_usage_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["nothing"])
    assert ended.value.code == 2
    assert "roundtrip" in capsys.readouterr().err
