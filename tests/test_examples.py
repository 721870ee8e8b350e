"""Every example runs as it is, on the embedded model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from agentloop.demo import PROMPT, copy_sample, sample_passes

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_every_example_has_a_test() -> None:
    tested = {"coding_agent.py", "save_and_resume.py", "tool_calling.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested


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
