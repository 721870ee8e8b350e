"""Longer files, names that nobody saw before, conversations of many tasks; and the table of all kinds."""

from __future__ import annotations

import random

from eval_names import CITIES, NOVEL, PLAIN, coined
from eval_tasks import (
    SHORT,
    Maker,
    Step,
    Task,
    arithmetic,
    change,
    copy,
    edit_file,
    find_value,
    kept,
    look_up,
    weather,
    write,
)
from eval_world import World

__all__ = ["BUDGETS", "KINDS", "MOST_TASKS", "talk"]

BUDGETS = (0, 4, 16, 40)
"""Tokens of reasoning, of the kind `budget`."""

MOST_TASKS = 40
"""Of one conversation."""

_SETTINGS = 3_900  # characters, 2,000 tokens at most, as the ones below
_LOG = 2_900
_COPY = 1_700  # up to 700 tokens

_DONE = ("started", "stopped", "loaded", "opened", "closed", "checked", "flushed", "queued", "sent", "stored")
_THINGS = ("worker", "job", "session", "request", "batch", "packet", "shard", "table", "page", "report")
_ERRORS = (
    "cannot open",
    "lost the connection to",
    "no answer from",
    "no space left on",
    "access denied for",
    "bad header in",
)


def copy_long(r: random.Random) -> Task:
    count, most = r.randint(10, 60), r.choice((2, 4, 7))
    lines: list[str] = []
    while len(lines) < count and (len(lines) < 10 or sum(map(len, lines)) < _COPY - 60):
        lines.append(PLAIN.line(r, most))
    return copy(r, text="\n".join(lines))


def look_up_long(r: random.Random, most: int = 180) -> Task:
    return find_value(r, PLAIN, PLAIN.settings(r, r.randint(20, most), _SETTINGS))


def edit_long(r: random.Random, most: int = 180) -> Task:
    return change(r, PLAIN, PLAIN.settings(r, r.randint(20, most), _SETTINGS), edits=True)


def _log_of(r: random.Random, count: int) -> Task:
    levels = ("INFO", "INFO", "INFO", "DEBUG", "WARNING")
    lines: list[str] = []
    while len(lines) < count and sum(map(len, lines)) < _LOG - 60:
        lines.append(f"{r.choice(levels)} {r.choice(_DONE)} {r.choice(_THINGS)} {r.randint(1, 999)}")
    about = r.choice((PLAIN.path(r, "txt", "cfg"), coined(r), CITIES.pick(r).lower(), f"port {r.randint(80, 9999)}"))
    error = f"{r.choice(_ERRORS)} {about}"
    lines.insert(r.randint(0, len(lines)), f"ERROR {error}")
    path = PLAIN.path(r, "log", "txt")
    prompt = r.choice((f"Which error is in {path}?", f"Find the error in {path}."))
    step = Step(prompt, ((("read_file", {"path": path}),),), f"The error in {path} is: {error}.")
    return kept(World({path: "\n".join(lines) + r.choice(("", "\n"))}), step)


def log(r: random.Random) -> Task:
    return _log_of(r, r.randint(3, 12))


def log_long(r: random.Random) -> Task:
    return _log_of(r, r.randint(20, 160))


def novel(r: random.Random) -> Task:
    return r.choice(
        (
            lambda: look_up(r, NOVEL),
            lambda: edit_file(r, NOVEL),
            lambda: copy(r, NOVEL),
            lambda: write(r, NOVEL),
            lambda: weather(r, NOVEL),
            lambda: arithmetic(r, NOVEL),
        )
    )()


def mixed(r: random.Random) -> Task:
    """A short task of any kind; reasoning is off, or has a budget."""
    return _MIXED[r.choice(list(_MIXED))](r)


_MIXED: dict[str, Maker] = {**{name: make for name, make in SHORT.items() if name != "demo"}, "log": log}

KINDS: dict[str, Maker] = {
    **SHORT,
    "log": log,
    "copy_long": copy_long,
    "look_up_long": look_up_long,
    "edit_long": edit_long,
    "log_long": log_long,
    "novel": novel,
    "off": mixed,
    "budget": mixed,
}
"""Every kind of task, by name."""


def talk(r: random.Random) -> list[Task]:
    """The tasks of one conversation: short ones and files of up to 50 lines, with one set of tools, and no path, folder
    or city twice, so that what was read before answers no later request."""
    edits = r.random() < 0.5
    fitting = [name for name in _MIXED if name not in ({"edit", "repair"} if edits else {"edit_file", "repair_edit"})]
    longer: list[Maker] = [lambda r: look_up_long(r, 50), lambda r: _log_of(r, r.randint(15, 40))]
    longer += [lambda r: edit_long(r, 50)] * edits
    tasks: list[Task] = []
    seen: set[str] = set()
    while len(tasks) < MOST_TASKS:
        task = r.choice(longer)(r) if r.random() < 0.25 else _MIXED[r.choice(fitting)](r)
        names = _names(task)
        if not names & seen:
            seen |= names
            tasks.append(task)
    return tasks


def _names(task: Task) -> set[str]:
    calls = [call for step in task.steps for turn in step.turns for call in turn]
    told = {value for _, given in calls for name, value in given.items() if name in ("path", "directory", "city")}
    return told | set(task.world.files)
