"""Run the tests of the current folder where pytest is not installed.

Runs as a script on the standard library alone. It takes what most small projects have: files `test_*.py` or
`*_test.py` with functions `test_*()` without parameters and `unittest` classes. A failed `assert left == right` names
both values. The report has pytest's short form.
"""

from __future__ import annotations

import ast
import asyncio
import functools
import inspect
import os
import sys
import time
import traceback
import types
import unittest
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["main"]

_SKIPPED = {"node_modules", "__pycache__", "venv", "build", "dist"}
_OPERATORS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}


class _ShowValues(ast.NodeTransformer):
    """`assert a == b` becomes an assert whose message holds both values; each side is evaluated once."""

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        test = node.test
        if node.msg is not None or not isinstance(test, ast.Compare) or len(test.ops) != 1:
            return node
        left, right = ast.Name("@left", ast.Load()), ast.Name("@right", ast.Load())
        sides = [
            ast.Assign([ast.Name("@left", ast.Store())], test.left),
            ast.Assign([ast.Name("@right", ast.Store())], test.comparators[0]),
        ]
        template = ast.Constant(f"assert %r {_OPERATORS[type(test.ops[0])]} %r")
        message = ast.BinOp(template, ast.Mod(), ast.Tuple([left, right], ast.Load()))
        check = ast.Assert(ast.Compare(left, test.ops, [right]), message)
        return [ast.fix_missing_locations(ast.copy_location(part, node)) for part in (*sides, check)]  # type: ignore[return-value]


def _files() -> Iterator[str]:
    for folder, folders, names in os.walk("."):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("."))
        for name in sorted(names):
            if name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py")):
                yield os.path.normpath(os.path.join(folder, name))


def _load(path: str) -> types.ModuleType:
    with open(path, encoding="utf-8") as file:
        tree = _ShowValues().visit(ast.parse(file.read(), path))
    name = os.path.splitext(path)[0].replace(os.sep, ".")
    module = types.ModuleType(name)
    module.__file__ = os.path.abspath(path)
    sys.modules[name] = module
    sys.path.insert(0, os.path.dirname(module.__file__))
    exec(compile(tree, path, "exec"), module.__dict__)
    return module


def _tests(path: str, module: types.ModuleType) -> Iterator[tuple[str, Callable[[], Any]]]:
    for name, value in list(vars(module).items()):
        if inspect.isclass(value) and issubclass(value, unittest.TestCase) and value.__module__ == module.__name__:
            for method in unittest.defaultTestLoader.getTestCaseNames(value):
                yield f"{path}::{name}::{method}", _Case(value(method))
        elif inspect.isclass(value) and name.startswith("Test") and value.__module__ == module.__name__:
            for method in [key for key in vars(value) if key.startswith("test")]:
                yield f"{path}::{name}::{method}", functools.partial(_call_method, value, method)
        elif inspect.isfunction(value) and name.startswith("test"):
            yield f"{path}::{name}", value


def _call_method(owner: type, method: str) -> Any:
    return getattr(owner(), method)()


class _Case:
    def __init__(self, case: unittest.TestCase) -> None:
        self.case = case

    def __call__(self) -> None:
        result = unittest.TestResult()
        self.case.run(result)
        if result.skipped:
            raise unittest.SkipTest(result.skipped[0][1])
        for _, trace in [*result.errors, *result.failures]:
            raise _Reported(trace)
        if result.unexpectedSuccesses:
            raise _Reported("AssertionError: unexpected success")


class _Reported(Exception):
    """A failure whose traceback is text already."""


def _first_line(error: BaseException) -> str:
    if isinstance(error, _Reported):
        lines = [line for line in str(error).splitlines() if line and not line.startswith((" ", "Traceback"))]
        return _as_assert(lines[0] if lines else "failed")
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    lines = [line for line in text.splitlines() if line and not line.startswith((" ", "\t"))]
    return _as_assert(lines[0] if lines else type(error).__name__)


def _as_assert(line: str) -> str:
    """`AssertionError: assert 1 == 2` and unittest's `AssertionError: 1 != 2` in the one form that pytest has."""
    name, _, rest = line.partition(": ")
    if name != "AssertionError" or not rest:
        return line
    if rest.startswith("assert "):
        return rest
    left, sign, right = rest.partition(" != ")
    return f"assert {left} == {right}" if sign and " : " not in right else line


def main(details: bool) -> int:
    counts = {"failed": 0, "passed": 0, "skipped": 0, "error": 0}
    report: list[str] = []
    begin = time.perf_counter()
    for path in _files():
        try:
            module = _load(path)
        except (Exception, SystemExit) as exc:
            counts["error"] += 1
            report.append(f"ERROR {path} - {_first_line(exc)}")
            continue
        for name, function in _tests(path, module):
            try:
                value = function()
                if inspect.iscoroutine(value):
                    asyncio.run(value)
            except unittest.SkipTest:
                counts["skipped"] += 1
            except (Exception, SystemExit) as exc:
                counts["failed"] += 1
                if details:
                    traceback.print_exception(type(exc), exc, exc.__traceback__, file=sys.stdout)
                report.append(f"FAILED {name} - {_first_line(exc)}")
            else:
                counts["passed"] += 1
    parts = [f"{n} {'errors' if kind == 'error' and n > 1 else kind}" for kind, n in counts.items() if n]
    total = f"{', '.join(parts) or 'no tests ran'} in {time.perf_counter() - begin:.2f}s"
    sys.stdout.write("\n".join(["", "short test summary info", *report, total, ""]))
    return 1 if report else 0 if parts else 5


if __name__ == "__main__":
    sys.path[0] = os.getcwd()  # not the folder of this script
    sys.exit(main("--details" in sys.argv[1:]))
