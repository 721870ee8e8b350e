"""Seeded tasks for a small agent model: what is asked, the world it is asked in, and how success is told.

A world is a dict of files; tools change it. A task succeeds by what is true at the end, not by how it got there.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["CODE", "KINDS", "Task", "World", "module_source", "test_report"]

STEMS = ("app", "calc", "config", "geometry", "helpers", "math_ops", "notes", "numbers", "report", "shape", "store")
FOLDERS = ("data", "docs", "lib", "src")
KEYS = ("city", "color", "depth", "host", "level", "limit", "mode", "owner", "port", "retries", "speed", "theme")
WORDS = ("amber", "bridge", "candle", "copper", "falcon", "forest", "garden", "lantern", "maple", "mirror", "silver")
CITIES = ("Athens", "Berlin", "Boston", "Cairo", "Dublin", "Lima", "Madrid", "Oslo", "Paris", "Rome", "Tokyo", "Vienna")
SKIES = ("clear", "cloudy", "foggy", "rainy", "sunny", "windy")

CODE: dict[str, tuple[str, str, str]] = {
    "add": ("a, b", "a + b", "a - b"),
    "area": ("w, h", "w * h", "w + h"),
    "decrement": ("n", "n - 1", "n + 1"),
    "double": ("x", "2 * x", "3 * x"),
    "half": ("x", "x / 2", "x * 2"),
    "increment": ("n", "n + 1", "n - 1"),
    "is_even": ("n", "n % 2 == 0", "n % 2 == 1"),
    "is_odd": ("n", "n % 2 == 1", "n % 2 == 0"),
    "maximum": ("a, b", "a if a > b else b", "a if a < b else b"),
    "minimum": ("a, b", "a if a < b else b", "a if a > b else b"),
    "multiply": ("a, b", "a * b", "a + b"),
    "negate": ("x", "-x", "x"),
    "perimeter": ("w, h", "2 * (w + h)", "w + h"),
    "square": ("x", "x * x", "x + x"),
    "subtract": ("a, b", "a - b", "a + b"),
    "triple": ("x", "3 * x", "2 * x"),
}
"""By function name: parameters, the right expression, a wrong one."""

INPUTS = {1: ((3,), (4,), (7,)), 2: ((2, 3), (7, 4), (9, 5))}


@dataclass
class World:
    """Files by path, what the weather is, and the functions that the tests test, in `module`."""

    files: dict[str, str] = field(default_factory=dict[str, str])
    weather: dict[str, str] = field(default_factory=dict[str, str])
    module: str = ""
    functions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """`solved(world, answer)` is asked once, when the agent has answered."""

    prompt: str
    world: World
    solved: Callable[[World, str], bool]


def module_source(names: tuple[str, ...], broken: str = "") -> str:
    """A module of one-line functions, `broken` with its wrong expression."""
    bodies = [(name, *CODE[name]) for name in names]
    return "\n\n\n".join(
        f"def {name}({parameters}):\n    return {wrong if name == broken else right}"
        for name, parameters, right, wrong in bodies
    )


def test_report(world: World) -> str:
    """What a test runner would say of the world's module, in pytest's words."""
    stem = world.module.rsplit("/", 1)[-1].removesuffix(".py")
    scope: dict[str, object] = {}
    try:
        exec(world.files.get(world.module, ""), scope)
    except Exception as error:
        return f"ERROR test_{stem}.py - {type(error).__name__}\n1 error"
    failures = []
    for name in world.functions:
        failure = _failure(name, scope.get(name))
        if failure:
            failures.append(f"FAILED test_{stem}.py::test_{name} - {failure}")
    passed = len(world.functions) - len(failures)
    counts = [f"{len(failures)} failed"] * bool(failures) + [f"{passed} passed"] * bool(passed)
    return "\n".join([*failures, ", ".join(counts)])


def _failure(name: str, function: object) -> str:
    parameters, right, _ = CODE[name]
    names = parameters.split(", ")
    for values in INPUTS[len(names)]:
        wanted = eval(right, dict(zip(names, values, strict=True)))
        try:
            got = function(*values)  # type: ignore[operator]
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        if got != wanted:
            return f"assert {got} {'is' if isinstance(wanted, bool) else '=='} {wanted}"
    return ""


def _path(r: random.Random, *extensions: str) -> str:
    folder = r.choice(FOLDERS) + "/" if r.random() < 0.3 else ""
    return f"{folder}{r.choice(STEMS)}.{r.choice(extensions)}"


def _settings(r: random.Random) -> dict[str, str]:
    keys = r.sample(KEYS, r.randint(2, 5))
    return {key: r.choice([str(r.randint(1, 9999)), r.choice(WORDS), r.choice(CITIES)]) for key in keys}


def _lines(settings: dict[str, str]) -> str:
    return "\n".join(f"{key} = {value}" for key, value in settings.items())


def _and(items: list[str]) -> str:
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def repair(r: random.Random) -> Task:
    path = _path(r, "py")
    names = tuple(r.sample(sorted(CODE), r.randint(1, 3)))
    world = World({path: module_source(names, r.choice(names))}, module=path, functions=names)
    wordings = (f"The tests fail. Fix the bug in {path}.", f"Fix the failing test in {path}.")
    return Task(r.choice(wordings), world, lambda w, answer: "failed" not in test_report(w) and bool(answer))


def neighbours(r: random.Random) -> Task:
    """The demo's task and those beside it: its three functions in any order, any of them broken, other file names."""
    path = r.choice(("calc", "math_ops", "numbers", "helpers")) + ".py"
    names = tuple(r.sample(("add", "multiply", "subtract"), 3))
    world = World({path: module_source(names, r.choice(names))}, module=path, functions=names)
    wordings = (f"The tests fail. Fix the bug in {path}.", f"Fix the failing test in {path}.")
    return Task(r.choice(wordings), world, lambda w, answer: test_report(w) == "3 passed" and bool(answer))


def write_code(r: random.Random) -> Task:
    path = _path(r, "py")
    names = tuple(r.sample(sorted(CODE), r.randint(1, 2)))
    world = World(module=path, functions=names)
    return Task(f"Write {_and(list(names))} in {path}.", world, lambda w, _: test_report(w) == f"{len(names)} passed")


def arithmetic(r: random.Random) -> Task:
    a, b, sign = r.randint(2, 999), r.randint(2, 99), r.choice("+-*")
    value = {"+": a + b, "-": a - b, "*": a * b}[sign]
    return Task(f"What is {a} {sign} {b}?", World(), lambda _, answer: answer.rstrip(".").endswith(str(value)))


def look_up(r: random.Random) -> Task:
    path, settings = _path(r, "toml", "cfg", "txt"), _settings(r)
    key = r.choice(sorted(settings))
    world = World({path: _lines(settings)})
    return Task(f"What is the {key} in {path}?", world, lambda _, answer: f" is {settings[key]}." in answer)


def edit(r: random.Random) -> Task:
    path, settings = _path(r, "toml", "cfg", "txt"), _settings(r)
    key, value = r.choice(sorted(settings)), str(r.randint(1, 9999))
    wanted = _lines({**settings, key: value})
    world = World({path: _lines(settings)})
    return Task(f"Set {key} to {value} in {path}.", world, lambda w, _: w.files[path].strip() == wanted)


def write(r: random.Random) -> Task:
    path, text = _path(r, "txt", "md"), " ".join(r.choices(WORDS, k=r.randint(1, 5)))
    return Task(f'Write "{text}" to {path}.', World(), lambda w, _: w.files.get(path, "").strip() == text)


def list_folder(r: random.Random) -> Task:
    folder = r.choice(FOLDERS)
    names = sorted({f"{r.choice(STEMS)}.{r.choice(('py', 'txt', 'md'))}" for _ in range(r.randint(1, 4))})
    world = World({f"{folder}/{name}": "" for name in names})
    return Task(f"List the files in {folder}.", world, lambda _, answer: all(name in answer for name in names))


def add_files(r: random.Random) -> Task:
    first, second = r.sample(STEMS, 2)
    a, b = r.randint(0, 999), r.randint(0, 999)
    world = World({f"{first}.txt": str(a), f"{second}.txt": str(b)})
    prompt = f"Read {first}.txt and {second}.txt and add the numbers."
    return Task(prompt, world, lambda _, answer: answer.rstrip(".").endswith(str(a + b)))


def weather(r: random.Random) -> Task:
    cities = r.sample(CITIES, r.randint(1, 3))
    said = {city: f"{r.choice(SKIES)}, {r.randint(-5, 35)} degrees" for city in cities}
    prompt = f"What is the weather in {_and(cities)}?"
    return Task(prompt, World(weather=said), lambda _, answer: all(f"{c}: {said[c]}" in answer for c in cities))


KINDS: dict[str, Callable[[random.Random], Task]] = {
    "demo": neighbours,
    "repair": repair,
    "write_code": write_code,
    "arithmetic": arithmetic,
    "write": write,
    "add_files": add_files,
    "weather": weather,
    "list": list_folder,
    "look_up": look_up,
    "edit": edit,
}
"""Every kind of task, by name."""
