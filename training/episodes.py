"""Episodes: tasks in one conversation, with a system block, as many as asked for or as fill a row.

An episode is a function of its seed. The same seed gives the same text on every machine.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import NamedTuple

from . import code, edits, files, sums, talk
from .cuts import cut_thoughts
from .rendering import Episode, knobs, segments
from .schemas import CORE, OTHERS, USUAL, schema_of, shuffled
from .writing import Effort, Script

__all__ = ["KINDS", "Episode", "Kind", "episode", "knobs", "segments"]


class Kind(NamedTuple):
    """What writes a task, how often it is drawn, the tools that it calls, and whether it can use a long file."""

    write: Callable[[Script, random.Random], None]
    weight: float
    tools: tuple[str, ...]
    long: bool = False


KINDS: dict[str, Kind] = {
    "arithmetic": Kind(sums.arithmetic, 8.0, ("calculator",)),
    "look_up": Kind(files.look_up, 4.5, ("read_file",), True),
    "second_question": Kind(files.second_question, 1.5, ("read_file",), True),
    "look_up_two": Kind(files.look_up_two, 1.6, ("read_file",)),
    "log": Kind(files.find_error, 2.0, ("read_file",), True),
    "list": Kind(files.list_folder, 4.0, ("list_files",)),
    "write": Kind(files.write, 1.8, ("write_file",)),
    "write_two": Kind(files.write_two, 1.0, ("write_file",)),
    "copy": Kind(files.copy_file, 6.0, ("read_file", "write_file"), True),
    "add_files": Kind(sums.add_files, 1.4, ("read_file", "calculator")),
    "weather": Kind(sums.weather, 2.8, ("get_weather",)),
    "edit": Kind(edits.edit, 8.0, ("read_file", "write_file"), True),
    "write_code": Kind(code.write_code, 1.8, ("write_file",)),
    "fix": Kind(code.fix, 3.2, ("read_file", "write_file", "run_tests")),
    "small_talk": Kind(talk.small_talk, 0.5, ()),
    "fallback": Kind(talk.fallback, 0.6, ()),
}
"""Tasks; the ones that are hard to learn are drawn more often."""

SYSTEMS = (
    None,
    None,
    "You are a helpful agent.",
    "You are a coding agent. Work in the current directory.",
    "Answer briefly.",
    "You are a careful assistant with tools.",
)
SMALLEST = ("list_files", "read_file", "write_file", "run_tests")
"""What agentloop declares to its embedded model."""

_SYSTEM_CHARACTERS = 1700  # of a system block beside its schemas
_PER_TOKEN = 5.3


def episode(
    seed: int | str, kinds: list[str] | None = None, *, room: int | None = None, long: float = 0.0, shown: bool = True
) -> Episode:
    """The episode of `seed`: one to four tasks, the tasks of `kinds`, or as many as about fill `room` tokens.

    long: the share of the tasks that use a long file, where there is room for one. shown: whether the system block will
    be rendered; without it nobody knows of `edit_file`, so that it is not used.
    """
    r = random.Random(f"episode {seed}")
    effort: Effort = r.choice(["low", "low", "medium", "xhigh", "xhigh", None])
    declared = _declared(r, kinds) if shown else list(CORE)
    tools = [shuffled(r, schema_of(name)) for name in declared]
    head = (len(json.dumps(tools)) + _SYSTEM_CHARACTERS) / _PER_TOKEN if shown else 0.0
    script = Script(r, effort, declared, room, head)
    drawn: list[str] = []
    count = len(kinds) if kinds else r.choice([1, 2, 2, 3, 3, 4])
    while not drawn or (len(drawn) < count if kinds or room is None else script.left > 0):
        script.large = r.random() < long and script.left > 500
        kind = kinds[len(drawn)] if kinds else _kind(r, declared, script.large)
        script.large = script.large and KINDS[kind].long
        KINDS[kind].write(script, r)
        drawn.append(kind)
    if effort is not None and r.random() < 0.25:
        cut_thoughts(script.messages, r)
    system = r.choice(SYSTEMS)
    first = [{"role": "system", "content": system}] if system else []
    return Episode(first + script.messages, tools, effort, drawn)


def _kind(r: random.Random, declared: list[str], large: bool) -> str:
    """A kind of task for which all tools are declared; for a long file one that can use it."""
    possible = {name: kind for name, kind in KINDS.items() if declared and set(kind.tools) <= set(declared)}
    if large:
        more = {n: k for n, k in possible.items() if k.long and (n != "edit" or "edit_file" in declared)}
        possible = more or possible
    return r.choices(list(possible), [kind.weight for kind in possible.values()])[0]


def _declared(r: random.Random, kinds: list[str] | None) -> list[str]:
    """The tools that the kinds call and some more, in any order; mostly as most programs declare them."""
    x = r.random()
    if kinds is None and x < 0.15:
        names = list(SMALLEST)
    elif x < 0.55:
        names = list(CORE)
    else:
        needed = kinds or r.choices(list(KINDS), [kind.weight for kind in KINDS.values()], k=r.randint(1, 3))
        names = sorted({name for kind in needed for name in KINDS[kind].tools}) or ["read_file"]
        rest = [name for name in CORE if name not in names]
        names += r.sample(rest, r.randint(0, len(rest)))
    if r.random() < 0.45:
        names.append("edit_file")
    if r.random() < 0.1:
        names.append(r.choice(OTHERS))
    if r.random() < 0.6:
        return sorted(names, key=USUAL.index)
    r.shuffle(names)
    return names
