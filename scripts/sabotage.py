"""Break one guard at a time, in a copy of the repository, and see whether the tests that name it fail.

    python scripts/sabotage.py                 all guards of the lists in `guards`: some minutes
    python scripts/sabotage.py budget "opener" those whose name holds one of these words
    python scripts/sabotage.py --list          what there is

A test that passes with its guard broken proves nothing. For each one the copy's file is changed in one place, its
test runs there, and the file is put back. `caught`: the test failed. `hung`: it did not end, which is a failure too.
`MISSED`: it passed. `skipped`: it needs something that is not to be had here. `stale`: the place is not there any more,
or the test could not run: the list has to follow the code. Exits 1 for what was missed or is stale. The working tree is
only read.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from guard_lists import ROOT, Guard, faults, guards

COPIED = ("agentloop", "tests", "scripts", "pyproject.toml", "README.md")
LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*_cache", ".hypothesis")


def copied(folder: Path) -> Path:
    """A copy of what the tests need, without compiled files: they would hide a change of the same second."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=LEFT_OUT)
        else:
            shutil.copy(source, folder / name)
    return folder


def run_tests(copy: Path, tests: Sequence[str], seconds: float) -> tuple[int | None, bool]:
    """pytest's exit code in the copy, None when it did not end; and whether any test ran."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--hypothesis-seed=0", *tests]
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return None, True
    return done.returncode, any(word in done.stdout for word in (" passed", " failed"))


def outcome(copy: Path, guard: Guard, seconds: float) -> str:
    """Apply, test, put back."""
    if faults(guard, copy):
        return "stale"
    path = copy / guard.file
    whole = path.read_text("utf-8")
    path.write_text(whole.replace(guard.old, guard.new), "utf-8")
    try:
        code, ran = run_tests(copy, [guard.test], seconds)
    finally:
        path.write_text(whole, "utf-8")
    if code == 0 and not ran:
        return "skipped"
    return {0: "MISSED", 1: "caught", None: "hung"}.get(code, "stale")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only guards that hold one of these words")
    parser.add_argument("--list", action="store_true", help="say what there is, and run nothing")
    parser.add_argument("--seconds", type=float, default=120.0, help="for the tests of one entry")
    options = parser.parse_args()
    chosen = [g for g in guards() if not options.words or any(w.lower() in g.what.lower() for w in options.words)]
    if options.list:
        for guard in chosen:
            print(f"{guard.what}: {guard.file}; {guard.test}")
        return 0
    with tempfile.TemporaryDirectory(prefix="agentloop-sabotage-") as folder:
        copy = copied(Path(folder))
        whole = sorted({guard.test for guard in chosen})
        if run_tests(copy, whole, options.seconds + 5 * len(whole))[0] != 0:
            print("the tests do not pass as they are; nothing can be said about them")
            return 1
        counts: dict[str, int] = {}
        for guard in chosen:
            result = outcome(copy, guard, options.seconds)
            counts[result] = counts.get(result, 0) + 1
            print(f"{result:7} {guard.what}", flush=True)
    print(", ".join(f"{count} {result}" for result, count in sorted(counts.items())))
    return 0 if set(counts) <= {"caught", "hung", "skipped"} else 1


if __name__ == "__main__":
    sys.exit(main())
