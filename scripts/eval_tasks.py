"""Seeded tasks for a small agent model: what is asked, in which world, and what has to be called and answered.

A task is judged by its calls, by its answers, and by what the files hold at the end, all byte for byte. Only the texts
of an edit are free: what it does to the file counts.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from eval_names import FOLDERS, PLAIN, SKIES, Names
from eval_world import CODE, World, computed, module_source

__all__ = ["SEPARATORS", "SHORT", "Call", "Maker", "Step", "Task", "change", "copy", "find_value", "kept", "lines_of"]

Call = tuple[str, dict[str, str]]

SEPARATORS = (" = ", ": ", "=")
EXTENSIONS = ("toml", "cfg", "txt")


@dataclass(frozen=True)
class Step:
    """One request: the calls of each model turn, in any order within the turn, and the answer."""

    prompt: str
    turns: tuple[tuple[Call, ...], ...]
    answer: str


@dataclass(frozen=True)
class Task:
    """Requests in one conversation, the world before the first, the files behind the last. `edits`: the model has
    `edit_file`."""

    steps: tuple[Step, ...]
    world: World
    after: dict[str, str] = field(default_factory=dict[str, str])
    edits: bool = False


Maker = Callable[[random.Random], Task]


def kept(world: World, *steps: Step, edits: bool = False) -> Task:
    """A task that leaves the files as they are."""
    return Task(steps, world, world.files, edits)


def lines_of(settings: dict[str, str], separator: str) -> str:
    """A file of settings."""
    return "\n".join(f"{key}{separator}{value}" for key, value in settings.items())


def _and(items: list[str]) -> str:
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def _two(make: Callable[[], str]) -> tuple[str, str]:
    first = second = make()
    while second == first:
        second = make()
    return first, second


def _read(path: str) -> Call:
    return ("read_file", {"path": path})


def _write(path: str, text: str) -> Call:
    return ("write_file", {"path": path, "content": text})


# -- code


def _repair(r: random.Random, path: str, names: tuple[str, ...], *, edits: bool) -> Task:
    bug = r.choice(names)
    parameters, right, wrong = CODE[bug]
    broken, mended = module_source(names, bug), module_source(names)
    world = World({path: broken}, module=path, functions=names)
    head = f"def {bug}({parameters}):\n    return "
    edit: Call = ("edit_file", {"path": path, "old": head + wrong, "new": head + right})
    tests: Call = ("run_tests", {})
    step = Step(
        r.choice((f"The tests fail. Fix the bug in {path}.", f"Fix the failing test in {path}.")),
        ((tests,), (_read(path),), (edit if edits else _write(path, mended),), (tests,)),
        f"I fixed {bug} in {path}: it returned {wrong} and now returns {right}. The tests pass.",
    )
    return Task((step,), world, {path: mended}, edits)


def repair(r: random.Random, *, edits: bool = False) -> Task:
    return _repair(r, PLAIN.path(r, "py"), tuple(r.sample(sorted(CODE), r.randint(1, 3))), edits=edits)


def repair_edit(r: random.Random) -> Task:
    return repair(r, edits=True)


def neighbours(r: random.Random) -> Task:
    """The demo's task and those beside it: its three functions in any order, any of them broken, other file names."""
    path = r.choice(("calc", "math_ops", "numbers", "helpers")) + ".py"
    return _repair(r, path, tuple(r.sample(("add", "multiply", "subtract"), 3)), edits=False)


def write_code(r: random.Random) -> Task:
    path = PLAIN.path(r, "py")
    names = tuple(r.sample(sorted(CODE), r.randint(1, 2)))
    noun = "function" if len(names) == 1 else "functions"
    said = _and(list(names))
    prompt = r.choice((f"Write {said} in {path}.", f"Create {path} with the {noun} {said}."))
    source = module_source(names)
    step = Step(prompt, ((_write(path, source),),), f"I wrote {said} in {path}.")
    return Task((step,), World(module=path, functions=names), {path: source})


# -- numbers and weather


def arithmetic(r: random.Random, names: Names = PLAIN) -> Task:
    a, b, sign = names.number(r, 999), names.number(r, 99), r.choice("+-*")
    worded = {
        "+": (f"What is {a} plus {b}?", f"Add {a} and {b}."),
        "-": (f"What is {a} minus {b}?", f"Subtract {b} from {a}."),
        "*": (f"What is {a} times {b}?", f"Multiply {a} by {b}."),
    }[sign]
    sum_ = f"{a} {sign} {b}"
    prompt = r.choice((f"What is {sum_}?", f"Compute {sum_}.", *worded))
    return kept(World(), Step(prompt, ((("calculator", {"expression": sum_}),),), f"{sum_} = {computed(sum_)}."))


def add_files(r: random.Random) -> Task:
    first, second = _two(lambda: PLAIN.path(r, "txt"))
    a, b = r.randint(0, 999), r.randint(0, 999)
    prompt = r.choice(
        (
            f"Read {first} and {second} and add the numbers.",
            f"What is the sum of the numbers in {first} and {second}?",
        )
    )
    turns = ((_read(first), _read(second)), (("calculator", {"expression": f"{a} + {b}"}),))
    return kept(World({first: str(a), second: str(b)}), Step(prompt, turns, f"{a} + {b} = {a + b}."))


def weather(r: random.Random, names: Names = PLAIN, count: int | None = None) -> Task:
    cities = names.cities(r, count or r.randint(1, 3))
    said = {city: f"{r.choice(SKIES)}, {r.randint(-5, 35)} degrees" for city in cities}
    asked = _and(cities)
    prompt = r.choice(
        (f"What is the weather in {asked}?", f"How is the weather in {asked}?", f"Tell me the weather in {asked}.")
    )
    calls = tuple(("get_weather", {"city": city}) for city in cities)
    return kept(World(weather=said), Step(prompt, (calls,), " ".join(f"{c}: {t}." for c, t in said.items())))


def weather_three(r: random.Random) -> Task:
    return weather(r, count=3)


# -- files


def _asked(r: random.Random, key: str, path: str) -> str:
    return r.choice(
        (
            f"What is the {key} in {path}?",
            f"Which {key} does {path} set?",
            f"Look up {key} in {path}.",
            f"Read {path} and tell me the {key}.",
        )
    )


def find_value(r: random.Random, names: Names, settings: dict[str, str]) -> Task:
    """Look up one of these settings; in half of the worlds the file ends as files do, in a line break."""
    path, key = names.path(r, *EXTENSIONS), r.choice(sorted(settings))
    world = World({path: lines_of(settings, r.choice(SEPARATORS)) + r.choice(("", "\n"))})
    return kept(world, Step(_asked(r, key, path), ((_read(path),),), f"The {key} in {path} is {settings[key]}."))


def look_up(r: random.Random, names: Names = PLAIN) -> Task:
    return find_value(r, names, names.settings(r, r.randint(2, 9)))


def follow_up(r: random.Random) -> Task:
    """A second question on a file that was read is answered at once."""
    path, settings = PLAIN.path(r, *EXTENSIONS), PLAIN.settings(r, r.randint(2, 9))
    first, second = r.sample(sorted(settings), 2)
    world = World({path: lines_of(settings, r.choice(SEPARATORS))})
    step = Step(_asked(r, first, path), ((_read(path),),), f"The {first} in {path} is {settings[first]}.")
    return kept(world, step, Step(f"And the {second}?", (), f"The {second} in {path} is {settings[second]}."))


def read_two(r: random.Random) -> Task:
    """Two files, read in one turn."""
    p1, p2 = _two(lambda: PLAIN.path(r, *EXTENSIONS))
    one, two = PLAIN.settings(r, r.randint(2, 6)), PLAIN.settings(r, r.randint(2, 6))
    k1, k2 = r.choice(sorted(one)), r.choice(sorted(two))
    world = World({p: lines_of(s, r.choice(SEPARATORS)) for p, s in ((p1, one), (p2, two))})
    prompt = f"What is the {k1} in {p1} and the {k2} in {p2}?"
    answer = f"The {k1} in {p1} is {one[k1]}. The {k2} in {p2} is {two[k2]}."
    return kept(world, Step(prompt, ((_read(p1), _read(p2)),), answer))


def retry(r: random.Random) -> Task:
    """The path is not quite right: the tool names the one that was meant."""
    path, settings = PLAIN.path(r, *EXTENSIONS), PLAIN.settings(r, r.randint(2, 9))
    folder, _, name = path.rpartition("/")
    stem, extension = name.rsplit(".", 1)
    other = r.choice([e for e in ("toml", "cfg", "txt", "yaml") if e != extension])
    wrong = r.choice((f"{stem}s.{extension}", f"{stem}.{other}", f"{stem[:-1]}.{extension}", f"my_{name}"))
    wrong = wrong if not folder or r.random() < 0.3 else f"{folder}/{wrong}"
    key = r.choice(sorted(settings))
    world = World({path: lines_of(settings, r.choice(SEPARATORS))})
    step = Step(_asked(r, key, wrong), ((_read(wrong),), (_read(path),)), f"The {key} in {path} is {settings[key]}.")
    return kept(world, step)


def change(r: random.Random, names: Names, settings: dict[str, str], *, edits: bool) -> Task:
    """Give one of these settings another value; its line is there once, also as a part of another line."""
    path, separator = names.path(r, *EXTENSIONS), r.choice(SEPARATORS)
    text = lines_of(settings, separator)
    key = r.choice([k for k, v in sorted(settings.items()) if text.count(f"{k}{separator}{v}") == 1])
    old, new = settings[key], settings[key]
    while new == old:
        new = names.value(r)
    prompt = r.choice(
        (
            f"Set {key} to {new} in {path}.",
            f"Change {key} in {path} to {new}.",
            f"Update {path} so that {key} is {new}.",
        )
    )
    end = r.choice(("", "\n")) if edits else ""  # the model does not see it, and cannot write it back
    changed = lines_of({**settings, key: new}, separator) + end
    edit: Call = (
        "edit_file",
        {"path": path, "old": f"{key}{separator}{old}", "new": f"{key}{separator}{new}"},
    )
    turns = ((_read(path),), (edit if edits else _write(path, changed),))
    step = Step(prompt, turns, f"I changed {key} from {old} to {new} in {path}.")
    return Task((step,), World({path: text + end}), {path: changed}, edits)


def edit(r: random.Random) -> Task:
    return change(r, PLAIN, PLAIN.settings(r, r.randint(2, 5)), edits=False)


def edit_file(r: random.Random, names: Names = PLAIN) -> Task:
    return change(r, names, names.settings(r, r.randint(2, 9)), edits=True)


def write(r: random.Random, names: Names = PLAIN) -> Task:
    path, text = names.path(r, "txt", "md"), names.line(r, 5)
    prompt = r.choice(
        (f'Write "{text}" to {path}.', f'Create {path} with the text "{text}".', f'Save "{text}" in {path}.')
    )
    step = Step(prompt, ((_write(path, text),),), f'Done. I wrote "{text}" to {path}.')
    return Task((step,), World(), {path: text})


def write_two(r: random.Random) -> Task:
    """Two files, written in one turn."""
    p1, p2 = _two(lambda: PLAIN.path(r, "txt", "md"))
    t1, t2 = PLAIN.line(r, 4), PLAIN.line(r, 4)
    calls = (_write(p1, t1), _write(p2, t2))
    step = Step(f'Write "{t1}" to {p1} and "{t2}" to {p2}.', (calls,), f"Done. I wrote {p1} and {p2}.")
    return Task((step,), World(), {p1: t1, p2: t2})


def copy(r: random.Random, names: Names = PLAIN, text: str = "") -> Task:
    """Copy a file of one to nine lines, or of this text."""
    extension = r.choice(("txt", "md", "toml", "cfg"))
    path, target = _two(lambda: names.path(r, extension))
    text = text or "\n".join(names.line(r, 7) for _ in range(r.randint(1, 9)))
    prompt = r.choice((f"Copy {path} to {target}.", f"Write the content of {path} to {target}."))
    step = Step(prompt, ((_read(path),), (_write(target, text),)), f"I copied {path} to {target}.")
    return Task((step,), World({path: text}), {path: text, target: text})


def list_folder(r: random.Random) -> Task:
    folder = FOLDERS.pick(r)
    names = sorted({f"{PLAIN.stem(r)}.{r.choice(('py', 'txt', 'md'))}" for _ in range(r.randint(1, 4))})
    prompt = r.choice((f"Which files are in {folder}?", f"List the files in {folder}.", f"What does {folder} contain?"))
    step = Step(prompt, ((("list_files", {"directory": folder}),),), f"{folder} contains {_and(names)}.")
    return kept(World({f"{folder}/{name}": "" for name in names}), step)


SHORT: dict[str, Maker] = {
    "demo": neighbours,
    "repair": repair,
    "repair_edit": repair_edit,
    "write_code": write_code,
    "arithmetic": arithmetic,
    "write": write,
    "write_two": write_two,
    "add_files": add_files,
    "weather": weather,
    "weather_three": weather_three,
    "list": list_folder,
    "look_up": look_up,
    "read_two": read_two,
    "follow_up": follow_up,
    "retry": retry,
    "edit": edit,
    "edit_file": edit_file,
    "copy": copy,
}
"""The kinds of short tasks, by name."""
