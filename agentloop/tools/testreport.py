"""Which command runs a folder's tests, and the few lines of its report that a model needs."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

__all__ = ["condense_report", "pick_test_command"]

_RUNNER = Path(__file__).with_name("_plain_tests.py")
_FAILURE = re.compile(r"^(FAILED|ERROR) .+")
_COUNT = r"\d+ (?:failed|passed|skipped|deselected|xfailed|xpassed|warnings?|errors?|rerun|subtests passed)"
_TOTAL = re.compile(rf"^=*\s*((?:{_COUNT}(?:, )?)+|no tests ran)(?: in [\d.]+ ?s(?: \([\d:]+\))?)?\s*=*$")
_NOISE = re.compile(r"(?:, )?\d+ (?:warnings?|deselected)")
_CONFIGS = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
_MAX_FAILURES = 20
_MAX_LINE = 300


def pick_test_command(folder: Path, *, details: bool = False) -> list[str]:
    """pytest if the folder's own virtual environment or this interpreter has it, else a runner without it."""
    for python in (folder / ".venv/bin/python", folder / "venv/bin/python", Path(sys.executable)):
        if _has_pytest(str(python)):
            # A verbosity, not -q: the project's own -q would add to it and the totals would be gone.
            options = ["--verbosity=-1", "--no-header", "-rfE", "--color=no", "--tb=short", "-p", "no:cacheprovider"]
            if not any((folder / name).exists() for name in _CONFIGS):
                options += ["-c", os.devnull]  # or pytest takes the one of a project around the folder
            return [str(python), "-m", "pytest", *options, "--rootdir=.", "--confcutdir=."]
    return [sys.executable, str(_RUNNER), *(["--details"] if details else [])]


@functools.lru_cache(maxsize=64)
def _has_pytest(python: str) -> bool:
    if not os.access(python, os.X_OK):
        return False
    probe = [python, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('pytest') is None)"]
    try:
        return subprocess.run(probe, capture_output=True, timeout=20, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def condense_report(output: str, *, details: bool = False) -> str | None:
    """`FAILED test_x.py::test_add - assert 1 == 3`, one line each, and then `1 failed, 2 passed`.

    Seconds, warnings and the rest of the output are left out; `details` keeps what stands above the summary. None if
    the output is no such report.
    """
    lines = [line.rstrip() for line in output.splitlines()]
    total = None
    for index in range(len(lines) - 1, -1, -1):
        if match := _TOTAL.match(lines[index]):
            total = index, match.group(1)
            break
    if total is None:
        return None
    starts = [i for i in range(total[0]) if lines[i].strip("= ") == "short test summary info"]
    summary = lines[starts[-1] + 1 if starts else 0 : total[0]]
    above = lines[: starts[-1] if starts else 0]
    failures = [_with_reason(line, above)[:_MAX_LINE] for line in summary if _FAILURE.match(line)]
    if len(failures) > _MAX_FAILURES:
        failures = [*failures[:_MAX_FAILURES], f"[... {len(failures) - _MAX_FAILURES} more ...]"]
    above = [re.sub(r"^[=_]{3,} | [=_]{3,}$", "", line) for line in above if details and line.strip()]
    counts = _NOISE.sub("", total[1]).strip(", ") or total[1]
    return "\n".join([*above, *failures, counts])


def _with_reason(failure: str, above: list[str]) -> str:
    """pytest leaves the reason out where a test file cannot be imported; the report above has it."""
    if " - " in failure or not failure.startswith("ERROR "):
        return failure
    heading = f"ERROR collecting {failure.removeprefix('ERROR ')}"
    start = next((i for i, line in enumerate(above) if line.strip("_= ") == heading), len(above))
    reason = next((line[1:].strip() for line in above[start:] if line.startswith("E  ")), "")
    return f"{failure} - {reason}" if reason else failure
