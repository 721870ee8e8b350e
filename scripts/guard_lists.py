"""Reads the lists of guards that sabotage.py breaks: the text files in `guards`.

    = what is guarded
    @ file in which one place is changed; goes for the entries below it too
    - the lines of that place
    + what they become
    ? file of a test::its name; the name alone when the file is that of the entry above

A place may begin and end inside a line. Entries are parted by an empty line; a line that begins with # is a comment.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "Guard", "faults", "guards"]

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Guard:
    """What is guarded; the one place in `file` where `old` becomes `new`; the test that must fail then."""

    what: str
    file: str
    old: str
    new: str
    test: str


def guards(folder: Path = ROOT / "scripts" / "guards") -> list[Guard]:
    """All entries of all lists, in order. ValueError for an entry that is not whole."""
    found: list[Guard] = []
    for path in sorted(folder.glob("*.txt")):
        file = tests = ""
        for entry in path.read_text("utf-8").split("\n\n"):
            lines = [line for line in entry.strip("\n").split("\n") if not line.startswith("#")]
            parts = {mark: [line[2:] for line in lines if line[:1] == mark] for mark in "=@-+?"}
            file = parts["@"][0] if parts["@"] else file
            if (
                any(len(parts[mark]) != 1 for mark in "=?")
                or not parts["-"]
                or sum(map(len, parts.values())) != len(lines)
            ):
                raise ValueError(f"{path.name}: this entry is not whole:\n{entry}")
            name = parts["?"][0]
            tests = name.partition("::")[0] if "::" in name else tests
            name = name.rpartition("::")[2]
            found.append(Guard(parts["="][0], file, "\n".join(parts["-"]), "\n".join(parts["+"]), f"{tests}::{name}"))
    return found


def faults(guard: Guard, root: Path = ROOT) -> list[str]:
    """Why the entry does not fit the repository at `root`; empty when it does."""
    found = []
    path = root / guard.file
    times = path.read_text("utf-8").count(guard.old) if path.is_file() else 0
    if times != 1:
        found.append(f"{guard.file} holds the place {times} times")
    test, _, name = guard.test.partition("::")
    if not (root / test).is_file() or f"def {name}(" not in (root / test).read_text("utf-8"):
        found.append(f"there is no test {guard.test}")
    return found
