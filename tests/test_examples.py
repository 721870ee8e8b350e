"""Every example runs as it is, on the embedded model."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agentloop.demo import PROMPT, copy_sample, sample_passes

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_every_example_has_a_test() -> None:
    tested = {name for name, value in globals().items() if name.startswith("test_") and callable(value)}
    assert {f"test_{path.stem}" for path in EXAMPLES.glob("*.py")} <= tested


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_examples_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 80


def test_tool_calling() -> None:
    output = run("tool_calling.py")
    assert "12 * 7 = 84" in output
    assert "Oslo: snowy, -3 degrees" in output
    assert "Rome: sunny, 24 degrees" in output
    turns = [line for line in output.splitlines() if line.startswith("turn ")]
    assert len(turns) == 2
    assert all(line.endswith("recomputed 0") for line in turns)


def test_coding_agent(tmp_path: Path) -> None:
    copy_sample(tmp_path)
    output = run("coding_agent.py", str(tmp_path), PROMPT)
    assert sample_passes(tmp_path)
    assert "recomputed 0" in output


def test_coding_agent_stays_short() -> None:
    assert len((EXAMPLES / "coding_agent.py").read_text().splitlines()) < 60


def test_save_and_resume() -> None:
    lines = run("save_and_resume.py").splitlines()
    assert lines[0] == "20 + 22 = 42."
    assert lines[1] == "6 * 7 = 42."
    assert lines[2].endswith("recomputed 0")
    assert int(lines[2].split()[1].rstrip(",")) > 100, "the first process's tokens were reused"


def test_approvals() -> None:
    lines = run("approvals.py").splitlines()
    assert lines[:6] == [
        "What is 20 + 22?",
        "  calculator {'expression': '20 + 22'}: yes",
        "  the model read: ['42']",
        "What is 12 * 7?",
        "  calculator {'expression': '12 * 7'}: no",
        "  the model read: ['No products today.']",
    ]
    assert lines[6] == "process 1: calculator {'expression': '30 + 12'} waits for a decision"
    assert "42" in lines[7]
    assert lines[8].endswith("recomputed 0")
    assert int(lines[8].split()[3].rstrip(",")) > 300, "what the first process decoded was reused"


def test_structured_output() -> None:
    lines = run("structured_output.py").splitlines()
    assert "stars: Input should be less than or equal to 5" in lines[0]
    assert lines[1] == "asked again: Someone who complains gives 3 stars at most."
    assert lines[2] == "Review: kettle, 2 stars, complaints: ['it leaks']"
    assert lines[3].endswith("recomputed 0")


def test_subagents() -> None:
    output = run("subagents.py")
    for part in (
        "Oslo: snowy, -2 degrees.",
        "20 + 22 = 42.",
        "Rome: sunny, 25 degrees.",
        "6 * 7 = 42.",
        "30 + 12 = 42.",
    ):
        assert part in output
    assert output.count("recomputed 0") == 5
    parent = int(output.split(" tokens", 1)[0].rsplit(" ", 1)[1])
    forks, best, total = (int(n) for n in re.findall(r"(\d+) prefill tokens", output))
    assert forks == 4 * parent
    assert best > 4 * 300
    assert total == forks + best


def test_pydantic_ai_embedding() -> None:
    pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")
    lines = run("pydantic_ai_embedding.py").splitlines()
    assert lines[0] == "20 + 22 = 42."
    rows = [line for line in lines if line.startswith("  ")]
    assert len(rows) >= 5
    assert all(row.endswith("recomputed 0") for row in rows)
    assert "cached 0" in rows[0]


def test_strict_calls() -> None:
    free, strict = run("strict_calls.py").split("strict:\n")
    assert " ok" not in free, "left alone, this model cannot do it"
    calls = strict.splitlines()
    assert len(calls) == 4
    for line in calls:
        assert line.endswith(" ok")
        arguments = ast.literal_eval(line.strip().removeprefix("set_light ").removesuffix(" ok"))
        assert arguments["room"] in ("kitchen", "hall")
        assert 0 <= arguments["percent"] <= 100
        assert isinstance(arguments["warm"], bool)
