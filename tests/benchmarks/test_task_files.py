"""Loaders of task files, scoring, and the fence around a model's code."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.sandbox import run_code
from benchmarks.taskfiles import CodeTask, TaskFileError, load_gsm8k, load_humaneval, number_in

QUESTIONS = [
    {"question": "Mia has 3 red and 4 blue pens. How many?", "answer": "3 + 4 = <<3+4=7>>7 pens.\n#### 7"},
    {"question": "A field costs 1,200 a year. Two years?", "answer": "1200 * 2\n#### 2,400"},
]
PROBLEM = {
    "task_id": "Own/0",
    "prompt": 'from typing import List\n\n\ndef total(values: List[int]) -> int:\n    """The sum of the values."""\n',
    "entry_point": "total",
    "canonical_solution": "    return sum(values)\n",
    "test": "def check(candidate):\n    assert candidate([1, 2, 3]) == 6\n    assert candidate([]) == 0\n",
}


def lines(path: Path, entries: list[Any]) -> Path:
    path.write_text("\n".join(json.dumps(entry) for entry in entries) + "\n\n", encoding="utf-8")
    return path


def test_gsm8k_is_read_and_scored(tmp_path: Path) -> None:
    path = lines(tmp_path / "math.jsonl", QUESTIONS)
    first, second = load_gsm8k(path)
    assert (first.answer, second.answer) == ("7", "2400")
    assert first.right("3 and 4 are 7.\n7")
    assert first.right("The answer is 7.0")
    assert not first.right("7 or 8")
    assert not first.right("seven")
    assert second.right("That is 2,400.")
    assert len(load_gsm8k(path, limit=1)) == 1
    packed = tmp_path / "math.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert load_gsm8k(packed)[0].question == first.question


@pytest.mark.parametrize(
    ("text", "number"), [("12", "12"), ("-3.5 m", "-3.5"), ("1,000 then 2,500.", "2500"), ("none", None), ("", None)]
)
def test_the_last_number_counts(text: str, number: str | None) -> None:
    assert number_in(text) == number


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "holds no tasks"),
        ('{"question": "a"}', "line 1: no text under answer"),
        ('{"question": "a", "answer": "7"}', "line 1: the answer has no line"),
        ('{"question": 1, "answer": "#### 7"}', "no text under question"),
        ("[1]", "no text under question, answer"),
        ("{", "no JSON"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(TaskFileError, match=says):
        load_gsm8k(path)
    with pytest.raises(TaskFileError, match="cannot be read"):
        load_humaneval(tmp_path / "missing.jsonl")


@pytest.fixture
def problem(tmp_path: Path) -> CodeTask:
    return load_humaneval(lines(tmp_path / "code.jsonl", [PROBLEM]))[0]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("    return sum(values)\n", "passed"),
        ("Here:\n```python\ndef total(values: List[int]) -> int:\n    return sum(values)\n```\nDone.", "passed"),
        ("```python\ndef total(values):\n    return len(values)\n```", "failed"),
        ("```python\nimport sys\ndef total(values):\n    sys.exit(0)\n```", "failed"),
        ("```python\nimport os\ndef total(values):\n    os._exit(0)\n```", "failed"),
        ("```python\ndef total(values:\n```", "failed"),
        ("no code at all", "failed"),
    ],
)
def test_code_is_run_against_the_tests(problem: CodeTask, answer: str, reason: str) -> None:
    assert problem.run(answer).reason == reason


def test_the_fence() -> None:
    assert run_code("while True:\n    pass", seconds=0.5).reason == "timeout"
    assert run_code("x = bytearray(1 << 32)").reason == "memory"
    assert run_code("import os\nassert 'SECRET' not in os.environ\nassert os.listdir() == ['program.py']").passed
    assert not run_code("open('big', 'wb').write(bytes(1 << 22))").passed
    assert run_code("print('x' * 100)").output.strip() == "x" * 100


def test_children_end_with_the_program(tmp_path: Path) -> None:
    late = tmp_path / "late"
    code = f"import subprocess\nsubprocess.Popen(['sh', '-c', 'sleep 1; echo x > {late}'])"
    assert run_code(code).passed
    time.sleep(1.3)
    assert not late.exists()
