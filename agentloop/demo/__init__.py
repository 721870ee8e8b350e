"""The sample project of `agentloop demo`: a module with a bug, and the tests that show it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from ..tools.testreport import pick_test_command

__all__ = ["PROMPT", "copy_sample", "sample_passes"]

PROMPT = "The tests fail. Fix the bug in calc.py."
"""What the agent is asked."""

SAMPLE = Path(__file__).with_name("sample")
TIMEOUT = 120.0


def copy_sample(folder: Path) -> Path:
    """Copy the sample project into the existing `folder`; returns `folder`."""
    for source in sorted(SAMPLE.glob("*.py")):
        shutil.copyfile(source, folder / source.name)
    return folder


def sample_passes(folder: Path) -> bool:
    """Whether the repaired module in `folder` passes the sample's own tests.

    They run in a fresh folder, in a process of their own, with the tests as they ship: what an agent did to the tests
    in `folder`, or left in a cache, counts for nothing. A run that takes over two minutes has failed.
    """
    with tempfile.TemporaryDirectory(prefix="agentloop-check-") as name:
        fresh = copy_sample(Path(name))
        for source in SAMPLE.glob("*.py"):
            if source.name.startswith("test_"):
                continue
            try:
                shutil.copyfile(folder / source.name, fresh / source.name)
            except FileNotFoundError:
                return False
        command = pick_test_command(fresh)
        environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("PYTEST_ADDOPTS", None)
        try:
            done = subprocess.run(
                command, cwd=fresh, env=environment, capture_output=True, timeout=TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0
