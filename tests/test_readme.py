"""The README's Python runs as it is, and what it points to is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
GUIDE = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "index.md").read_text(encoding="utf-8"), re.DOTALL)


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_there_are_blocks() -> None:
    assert len(BLOCKS) == 4


def test_first_block() -> None:
    output = run(BLOCKS[0])
    assert "Oslo: snowy, -3 degrees" in output
    assert "Rome: cloudy, 12 degrees" in output
    assert output.endswith("recomputed: 0\n")


@pytest.mark.parametrize("block", BLOCKS[1:] + GUIDE)
def test_other_blocks(block: str) -> None:
    assert run(block)


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert "://" not in target
        assert (ROOT / target).exists(), target
