"""The world of a task: files in a folder, the weather, a module with its tests; and the tools over it.

The tools on files are agentloop's own, over a temporary folder. No test runner is started: a small process calls the
functions and says what it would say, in pytest's words.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from agentloop.tools import Tool, workspace_tools
from agentloop.tools.samples import calculator

__all__ = ["CODE", "Desk", "World", "computed", "module_source", "test_report"]

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


@dataclass(frozen=True)
class World:
    """Files by path, what the weather is, and the functions that the tests test, in `module`."""

    files: dict[str, str] = field(default_factory=dict[str, str])
    weather: dict[str, str] = field(default_factory=dict[str, str])
    module: str = ""
    functions: tuple[str, ...] = ()


class Desk:
    """A folder with the files of one world at a time, and the tools that work on it, `edit_file` if it is asked for."""

    def __init__(self, folder: Path, *, edits: bool) -> None:
        self.folder = folder
        self.world = World()
        self.edits = edits

    def lay(self, world: World) -> None:
        """This world in place of the last one."""
        self.world = world
        for left in self.folder.iterdir():
            if left.is_dir():
                shutil.rmtree(left)
            else:
                left.unlink()
        for path, text in world.files.items():
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())

    def files(self) -> dict[str, str]:
        """What the folder holds now."""
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return {path.relative_to(self.folder).as_posix(): path.read_bytes().decode() for path in found}

    def tools(self) -> list[Tool]:
        """The tools that the embedded model knows; with `edit_file` in the order in which agentloop hands them out."""

        def run_tests() -> str:
            """Run the test suite and return its report."""
            return test_report(self.files().get(self.world.module, ""), self.world)

        def get_weather(city: str) -> str:
            """Return the current weather in a city.

            Args:
                city: Name of the city.
            """
            return self.world.weather.get(city, f"Error: no such city: {city}.")

        by_name = {tool.name: tool for tool in workspace_tools(self.folder)}
        names = ["read_file", "write_file", "list_files"]
        if self.edits:
            names = ["list_files", "read_file", "write_file", "edit_file"]
        return [*(by_name[name] for name in names), Tool(run_tests), calculator, Tool(get_weather)]


def computed(expression: str) -> str:
    """What the calculator says."""
    return str(calculator(expression))


def module_source(names: tuple[str, ...], broken: str = "") -> str:
    """A module of one-line functions, `broken` with its wrong expression."""
    bodies = [(name, *CODE[name]) for name in names]
    return "\n\n\n".join(
        f"def {name}({parameters}):\n    return {wrong if name == broken else right}"
        for name, parameters, right, wrong in bodies
    )


def test_report(source: str, world: World) -> str:
    """What a test runner would say of the world's module with this source, in pytest's words. A model wrote the source:
    it runs in another process, for ten seconds at most."""
    stem = world.module.rsplit("/", 1)[-1].removesuffix(".py")
    tested = [(name, *CODE[name][:2]) for name in world.functions]
    order = json.dumps([source, tested, INPUTS[1], INPUTS[2]])
    try:
        command = [sys.executable, "-I", "-c", _TRIAL]
        done = subprocess.run(command, input=order, capture_output=True, text=True, timeout=10, check=False)
        found: list[str] | str = json.loads(done.stdout.rpartition(_MARK)[2])
    except subprocess.TimeoutExpired:
        found = "Timeout"
    except ValueError:
        found = "SystemExit"
    if isinstance(found, str):
        return f"ERROR test_{stem}.py - {found}\n1 error"
    failures = [
        f"FAILED test_{stem}.py::test_{name} - {said}"
        for name, said in zip(world.functions, found, strict=True)
        if said
    ]
    passed = len(world.functions) - len(failures)
    counts = [f"{len(failures)} failed"] * bool(failures) + [f"{passed} passed"] * bool(passed)
    return "\n".join([*failures, ", ".join(counts)])


_MARK = "--- what the tests say:"
_TRIAL = f"""
import json, sys
source, tested, one, two = json.load(sys.stdin)
scope, said = {{}}, []
try:
    exec(source, scope)
except Exception as error:
    said = type(error).__name__
else:
    for name, parameters, right in tested:
        names = parameters.split(", ")
        for values in one if len(names) == 1 else two:
            wanted = eval(right, dict(zip(names, values)))
            try:
                got = scope.get(name)(*values)
            except Exception as error:
                said.append(f"{{type(error).__name__}}: {{error}}")
                break
            if got != wanted:
                said.append(f"assert {{got}} {{'is' if isinstance(wanted, bool) else '=='}} {{wanted}}")
                break
        else:
            said.append("")
print({_MARK!r} + json.dumps(said))
"""
