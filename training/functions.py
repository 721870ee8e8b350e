"""Small functions with one line each, a right one and a wrong one: what modules of episodes are made of."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["FUNCTIONS", "function_source", "module_source"]

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
    "cube": ("x", "x * x * x", "x * x"),
    "average": ("a, b", "(a + b) / 2", "a + b / 2"),
    "divide": ("a, b", "a / b", "a * b"),
    "remainder": ("a, b", "a % b", "a // b"),
    "power": ("a, b", "a ** b", "a * b"),
    "distance": ("a, b", "abs(a - b)", "a - b"),
    "absolute": ("x", "abs(x)", "x"),
    "is_zero": ("n", "n == 0", "n != 0"),
    "is_positive": ("n", "n > 0", "n < 0"),
    "is_negative": ("n", "n < 0", "n > 0"),
    "last_digit": ("n", "n % 10", "n // 10"),
    "volume": ("w, h, d", "w * h * d", "w * h + d"),
    "sum_three": ("a, b, c", "a + b + c", "a + b - c"),
    "percent": ("a, b", "100 * a / b", "a / b"),
}
"""By name: parameters, the right expression, a wrong one."""


def function_source(name: str, *, broken: bool = False) -> str:
    """Two lines, without a newline at the end; `broken` returns its wrong expression."""
    parameters, right, wrong = FUNCTIONS[name]
    return f"def {name}({parameters}):\n    return {wrong if broken else right}"


def module_source(names: Sequence[str], broken: str | None = None) -> str:
    """Functions with two empty lines between them, one of them maybe `broken`."""
    return "\n\n\n".join(function_source(name, broken=name == broken) for name in names)
