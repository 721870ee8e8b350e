"""Tasks on code: write small functions, repair the one that a test says is wrong."""

from __future__ import annotations

import random

from . import errors
from .edits import replace
from .functions import FUNCTIONS, function_source, module_source
from .reading import change, denied, read
from .writing import CHECKS, DONE, Script, and_list

__all__ = ["fix", "write_code"]


def write_code(s: Script, r: random.Random) -> None:
    """Write a module of one to three functions."""
    path, names = s.path("py"), r.sample(list(FUNCTIONS), r.choice([1, 1, 2, 2, 3]))
    noun = "function" if len(names) == 1 else "functions"
    s.ask(
        [f"Write {and_list(names)} in {path}.", f"Create {path} with the {noun} {and_list(names)}."],
        [
            f"Write the {noun} {and_list(names)} in {path}.",
            f"I need {and_list(names)} in {path}.",
            f"Make a module {path} with {and_list(names)}.",
        ],
    )
    text = module_source(names)
    thoughts = [
        f"I write {path} with {and_list(names)}.",
        CHECKS["write"],
        *(f"{n} returns {FUNCTIONS[n][1]}." for n in names),
    ]
    if change(s, r, thoughts, path, text):
        s.answer([f"{path} is written.", DONE["changed"]], f"I wrote {and_list(names)} in {path}.")


def fix(s: Script, r: random.Random) -> None:
    """Run the tests, read the module, repair it, run the tests again."""
    path, names = s.path("py"), r.sample(list(FUNCTIONS), r.choice([1, 2, 2, 3, 3, 3, 4, 5]))
    if r.random() < 0.15:
        names = r.sample(["add", "subtract", "multiply"], 3)
        path = r.choice([name for name in ("calc.py", "math_ops.py") if name not in s.paths] or [path])
        s.paths.add(path)
    by_edit = "edit_file" in s.declared
    twins = by_edit and r.random() < 0.06
    if twins:  # add returns what subtract returns
        names = ["add", "subtract", *(name for name in names if name not in ("add", "subtract", "distance"))][:4]
        r.shuffle(names)
    bug = "add" if twins else r.choice(names)
    s.ask(
        [f"The tests fail. Fix the bug in {path}.", f"Fix the failing test in {path}."],
        [
            f"A test of {path} fails, please fix it.",
            f"There is a bug in {path}. Fix it.",
            f"Make the tests of {path} pass.",
            f"Repair {path}, its tests fail.",
        ],
    )
    s.call(
        ["I run the tests to see what fails.", CHECKS["run"], f"Then I read {path} and repair it."], ("run_tests", {})
    )
    x = r.random()
    if x < 0.02:
        denied(s, "run the tests")
        return
    if x < 0.05:
        s.result(errors.timed_out("run_tests") if x < 0.03 else errors.stopped())
        s.call(["The tests took too long, so I run them once more."], ("run_tests", {}))
    s.result(_report(r, path, names, bug))
    found = read(s, r, path, [f"test_{bug} fails, so I read {path}.", f"The function {bug} must be wrong."])
    if found is None:
        return
    path, text = found, module_source(names, bug)
    s.result(text)
    right, wrong = FUNCTIONS[bug][1:]
    thoughts = [f"{bug} returns {wrong}, it must return {right}.", "The rest of the file stays as it is."]
    if by_edit:
        old, new = function_source(bug, broken=True), function_source(bug)
        if twins:
            s.call(
                thoughts,
                ("edit_file", {"path": path, "old": old.split("\n")[1], "new": new.split("\n")[1]}),
                learn=False,
            )
            s.result(errors.edited(path, text, old.split("\n")[1]))
            thoughts = [f"return {wrong} occurs twice, so I include the line before it.", thoughts[1]]
        done = replace(s, r, thoughts, path, text, old, new)
    else:
        done = change(s, r, thoughts, path, module_source(names))
    if not done:
        return
    s.call(["I run the tests again.", CHECKS["run"]], ("run_tests", {}))
    count = len(names)
    s.result(f"{count} passed")
    s.answer(
        [f"All {count} tests pass now." if count > 1 else "The test passes now.", DONE["changed"]],
        f"I fixed {bug} in {path}: it returned {wrong} and now returns {right}. The tests pass.",
    )


def _report(r: random.Random, path: str, names: list[str], bug: str) -> str:
    """The condensed report of a test run: one line for the failure, then the counts."""
    stem = path.rsplit("/", 1)[-1].removesuffix(".py")
    folder = "tests/" if r.random() < 0.2 else ""
    right, wrong = FUNCTIONS[bug][1:]
    scope = {name: r.randint(1, 12) for name in FUNCTIONS[bug][0].split(", ")}
    for _ in range(40):
        if eval(wrong, dict(scope)) != eval(right, dict(scope)):
            break
        scope = {name: r.randint(-9, 12) or 1 for name in scope}
    got, wanted = eval(wrong, dict(scope)), eval(right, dict(scope))
    same = "is" if isinstance(wanted, bool) and r.random() < 0.5 else "=="
    counts = "1 failed" if len(names) == 1 else f"1 failed, {len(names) - 1} passed"
    return f"FAILED {folder}test_{stem}.py::test_{bug} - assert {got} {same} {wanted}\n{counts}"
