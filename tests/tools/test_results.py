"""Values as text, and text within a number of tokens."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from agentloop.exceptions import ToolFailed
from agentloop.tools.results import ResultCap, result_text


class Model(BaseModel):
    name: str
    data: bytes | None = None


@dataclasses.dataclass
class Data:
    n: int
    at: datetime.date


class Kind(enum.Enum):
    A = "a"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n", "as it is\n"),
        ("", ""),
        ("lone \ud800 surrogate", "lone ? surrogate"),
        (None, "ok"),
        (True, "true"),
        (5, "5"),
        (2.5, "2.5"),
        ({"city": "Köln", "degrees": [1, None]}, '{"city": "Köln", "degrees": [1, null]}'),
        (Model(name="x"), '{"name": "x", "data": null}'),
        (Data(1, datetime.date(2024, 5, 6)), '{"n": 1, "at": "2024-05-06"}'),
        ([Kind.A, (1, 2)], '["a", [1, 2]]'),
        (Path("a/b"), '"a/b"'),
    ],
)
def test_values_as_text(value: Any, text: str) -> None:
    assert result_text(value) == text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"abc", "binary data, which"),
        (bytearray(b"abc"), "binary data, which"),
        ({"a": [1, b"abc"]}, r"binary data in a\.1, which"),
        (Model(name="x", data=b"abc"), "binary data in data, which"),
        (object(), "returned a value of type object, which cannot become JSON"),
    ],
)
def test_what_is_no_text_is_refused_with_a_reason(value: Any, said: str) -> None:
    with pytest.raises(ToolFailed, match=said):
        result_text(value)


def words(text: str) -> int:
    return len(text.split())


def test_text_that_fits_is_left_alone(tmp_path: Path) -> None:
    cap = ResultCap(10, words, tmp_path / "spill")
    assert cap.apply("one two three") == ("one two three", None, 0)
    assert not (tmp_path / "spill").exists()


def test_head_and_tail_stay_and_the_rest_is_in_a_file(tmp_path: Path) -> None:
    text = "\n".join(f"line {n}" for n in range(5000))
    cap = ResultCap(100, words, tmp_path / "spill", shown_from=tmp_path)
    cut = cap.apply(text, "run_command")
    assert cut.file == tmp_path / "spill" / "run_command-1.txt"
    assert cut.file.read_text() == text
    head, _, tail = cut.text.partition("\n[... ")
    assert text.startswith(head)
    assert "the full text is in spill/run_command-1.txt ...]" in tail
    assert text.endswith(tail.split("...]\n")[1])
    assert words(cut.text) <= 100
    assert f"[... {cut.left_out} characters left out" in cut.text
    assert cap.apply(text, "run_command").file == tmp_path / "spill" / "run_command-2.txt"


def test_a_name_that_is_no_file_name(tmp_path: Path) -> None:
    cut = ResultCap(20, words, tmp_path).apply("word " * 500, "../up/../..")
    assert cut.file is not None
    assert cut.file.parent == tmp_path


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "spill").write_text("a file where the folder should be")
    cut = ResultCap(40, words, tmp_path / "spill").apply("word " * 500)
    assert cut.file is None
    assert "the full text could not be kept" in cut.text


def test_without_a_folder_the_cut_is_still_named() -> None:
    cut = ResultCap(20, words).apply("word " * 500)
    assert cut.file is None
    assert "characters left out ...]" in cut.text


def test_a_huge_text_is_not_counted_as_a_whole() -> None:
    counted: list[int] = []

    def count(text: str) -> int:
        counted.append(len(text))
        return len(text)

    ResultCap(100, count).apply("x" * 10_000_000)
    assert max(counted) <= 100 * 64


@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=400), limit=st.integers(60, 200))
def test_a_cut_text_never_counts_more_than_the_limit(text: str, limit: int) -> None:
    cut = ResultCap(limit, lambda part: len(part.encode())).apply(text)
    assert len(cut.text.encode()) <= limit
    assert (cut.left_out == 0) == (cut.text == text)


def test_parts_that_count_more_together_than_alone() -> None:
    def count(part: str) -> int:
        return max(0, len(part) - 9)

    cut = ResultCap(90, count).apply("x" * 500)
    assert count(cut.text) <= 90
    assert cut.text.startswith("x" * 10)
    assert cut.text.endswith("x" * 5)


def test_a_cap_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ResultCap(0, words)
