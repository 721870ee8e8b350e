"""Tasks on code: write small functions, repair the one that a test says is wrong."""

from __future__ import annotations

import random

from . import errors
from .files import read, wrote
from .words import file_path
from .writing import Script, and_list

__all__ = ["FUNCTIONS", "fix", "module_source", "write_code"]

FUNCTIONS: dict[str, tuple[str, str, str]] = {
    "add": ("a, b", "a + b", "a - b"),
    "subtract": ("a, b", "a - b", "a + b"),
    "multiply": ("a, b", "a * b", "a + b"),
    "square": ("x", "x * x", "x + x"),
    "double": ("x", "2 * x", "3 * x"),
    "triple": ("x", "3 * x", "2 * x"),
    "half": ("x", "x / 2", "x * 2"),
    "is_even": ("n", "n % 2 == 0", "n % 2 == 1"),
    "is_odd": ("n", "n % 2 == 1", "n % 2 == 0"),
    "maximum": ("a, b", "a if a > b else b", "a if a < b else b"),
    "minimum": ("a, b", "a if a < b else b", "a if a > b else b"),
    "negate": ("x", "-x", "x"),
    "increment": ("n", "n + 1", "n - 1"),
    "decrement": ("n", "n - 1", "n + 1"),
    "area": ("w, h", "w * h", "w + h"),
    "perimeter": ("w, h", "2 * (w + h)", "w + h"),
}
"""By name: parameters, the right expression, a wrong one."""


def module_source(names: list[str], broken: str | None = None) -> str:
    """One-line functions, two empty lines between them; `broken` returns its wrong expression."""
    parts = []
    for name in names:
        parameters, right, wrong = FUNCTIONS[name]
        parts.append(f"def {name}({parameters}):\n    return {wrong if name == broken else right}")
    return "\n\n\n".join(parts)


def write_code(s: Script, r: random.Random) -> None:
    path, names = file_path(r, "py"), r.sample(list(FUNCTIONS), r.choice([1, 1, 2, 2, 3]))
    noun = "function" if len(names) == 1 else "functions"
    s.user(r.choice([f"Write {and_list(names)} in {path}.", f"Create {path} with the {noun} {and_list(names)}."]))
    s.call(
        [f"I write {path} with {and_list(names)}.", s.check(), *(f"{n} returns {FUNCTIONS[n][1]}." for n in names)],
        ("write_file", {"path": path, "content": module_source(names)}),
    )
    wrote(s, path, module_source(names))
    s.answer([f"{path} is written.", s.done()], f"I wrote {and_list(names)} in {path}.")


def fix(s: Script, r: random.Random) -> None:
    """Run the tests, read the module, write it back repaired, run the tests again."""
    path, names = file_path(r, "py"), r.sample(list(FUNCTIONS), r.choice([1, 2, 2, 3, 3, 3, 4]))
    if r.random() < 0.15:
        path, names = r.choice(["calc.py", "math_ops.py"]), r.sample(["add", "subtract", "multiply"], 3)
    bug = r.choice(names)
    s.user(
        r.choice(
            [
                f"The tests fail. Fix the bug in {path}.",
                f"Fix the failing test in {path}.",
                f"A test of {path} fails, please fix it.",
            ]
        )
    )
    s.call(["I run the tests to see what fails.", s.check(), f"Then I read {path} and repair it."], ("run_tests", {}))
    if r.random() < 0.03:
        s.result(errors.timed_out("run_tests"))
        s.call(["The tests took too long, so I run them once more."], ("run_tests", {}))
    s.result(_report(r, path, names, bug))
    path = read(s, r, path, [f"test_{bug} fails, so I read {path}.", f"The function {bug} must be wrong.", s.check()])
    s.result(module_source(names, bug))
    right, wrong = FUNCTIONS[bug][1:]
    s.call(
        [f"{bug} returns {wrong}, it must return {right}.", "The rest of the file stays as it is.", s.check()],
        ("write_file", {"path": path, "content": module_source(names)}),
    )
    wrote(s, path, module_source(names))
    s.call(["I run the tests again.", s.check()], ("run_tests", {}))
    count = len(names)
    s.result(f"{count} passed")
    s.answer(
        [f"All {count} tests pass now." if count > 1 else "The test passes now.", s.done()],
        f"I fixed {bug} in {path}: it returned {wrong} and now returns {right}. The tests pass.",
    )


def _report(r: random.Random, path: str, names: list[str], bug: str) -> str:
    """The condensed report of a test run: one line for the failure, then the counts."""
    stem = path.rsplit("/", 1)[-1].removesuffix(".py")
    folder = "tests/" if r.random() < 0.2 else ""
    right, wrong = FUNCTIONS[bug][1:]
    scope = {name: r.randint(0, 12) for name in FUNCTIONS[bug][0].split(", ")}
    got, wanted = eval(wrong, dict(scope)), eval(right, dict(scope))
    same = "is" if isinstance(wanted, bool) and r.random() < 0.5 else "=="
    counts = "1 failed" if len(names) == 1 else f"1 failed, {len(names) - 1} passed"
    return f"FAILED {folder}test_{stem}.py::test_{bug} - assert {got} {same} {wanted}\n{counts}"
