"""Tasks on numbers: arithmetic, the sum of two files, the weather."""

from __future__ import annotations

import random

from agentloop.tools.samples import calculator

from . import errors
from .reading import denied, mistake
from .words import SKIES, alike, city, related
from .writing import CHECKS, DONE, Script, and_list

__all__ = ["add_files", "arithmetic", "weather"]

_WORDED = {
    "+": ("What is {a} plus {b}?", "Add {a} and {b}.", "What is the sum of {a} and {b}?", "How much is {a} plus {b}?"),
    "-": ("What is {a} minus {b}?", "Subtract {b} from {a}.", "Take {b} away from {a}.", "How much is {a} minus {b}?"),
    "*": ("What is {a} times {b}?", "Multiply {a} by {b}.", "Take {a} times {b}.", "How much is {a} times {b}?"),
    "/": ("What is {a} divided by {b}?", "Divide {a} by {b}.", "How much is {a} divided by {b}?"),
}
"""By sign: two usual wordings, then others."""


def arithmetic(s: Script, r: random.Random) -> None:
    """Compute an expression with the calculator; two operands are asked for in words, too."""
    x = r.random()
    if x < 0.04:
        _by_zero(s, r)
        return
    if x < 0.72:
        sign = r.choice("++--**/")
        a, b = _operands(r, sign)
        expression = f"{a} {sign} {b}"
        texts = [text.format(a=a, b=b) for text in _WORDED[sign]]
        worded, more = texts[:2], texts[2:]
    else:
        expression, worded, more = _expression(r), [], []
    if not worded and r.random() < 0.3:
        expression = expression.replace(" ", "")
    result = str(calculator(expression))
    if len(result) > 18:
        arithmetic(s, r)
        return
    s.ask(
        [*worded, *worded, f"What is {expression}?", f"Compute {expression}."],
        [
            *more,
            f"Calculate {expression}.",
            f"How much is {expression}?",
            f"Evaluate {expression}.",
        ],
    )
    thoughts = [f"I compute {expression} with the calculator.", CHECKS["run"], "The calculator gives the exact value."]
    if r.random() < 0.03:
        s.call(thoughts, ("calculator", {}), learn=False)
        s.result(errors.bad_call("calculator", {}, s.declared))
        thoughts = ["The expression was missing, so I call the tool again.", *thoughts[1:]]
    s.call(thoughts, ("calculator", {"expression": expression}))
    if r.random() < 0.012:
        denied(s, f"compute {expression}")
        return
    s.result(result)
    s.answer([f"The result is {result}.", DONE["computed"]], f"{expression} = {result}.")


def _operands(r: random.Random, sign: str) -> tuple[str, str]:
    a = r.randint(0, 10 ** r.choice([1, 2, 3, 3, 4, 4, 5, 6]) - 1)
    if sign == "/":
        b = r.choice([2, 4, 5, 8, 10, r.randint(2, 99)])
        return (str(a), str(b)) if b in (2, 4, 5, 8, 10) else (str(b * r.randint(1, 99)), str(b))
    b = r.randint(0, 99 if sign == "*" else 10 ** r.randint(1, 4) - 1)
    if r.random() < 0.06:
        b = alike(r)
    x = r.random()
    fraction = f"{b % 1000}.{r.choice((5, 25, 75, r.randint(1, 99)))}"
    if x < 0.10:
        return f"{a % 10000}.{r.randint(1, 99)}", str(b)
    if x < 0.18:
        return f"{a % 10000}.{r.randint(1, 99)}", fraction
    return str(a), fraction if x < 0.26 else str(b)


def _expression(r: random.Random) -> str:
    """Three operands, with parentheses or without."""
    a, b, c = (r.randint(1, 10 ** r.randint(1, 3) - 1) for _ in range(3))
    one, two = r.choice("+-*"), r.choice("+-*")
    return r.choice([f"{a} {one} {b} {two} {c}", f"({a} {one} {b}) {two} {c}", f"{a} {one} ({b} {two} {c})"])


def _by_zero(s: Script, r: random.Random) -> None:
    a = r.randint(0, 10 ** r.randint(1, 4) - 1)
    s.ask([f"What is {a} / 0?", f"Compute {a} / 0."], [f"What is {a} divided by 0?", f"Divide {a} by 0."])
    s.call([f"I compute {a} / 0 with the calculator.", CHECKS["run"]], ("calculator", {"expression": f"{a} / 0"}))
    s.result(errors.failed("division by zero"))
    s.answer(["A division by zero has no result."], f"{a} / 0 has no result: division by zero.")


def add_files(s: Script, r: random.Random) -> None:
    """Read two files in one turn, then add their numbers."""
    first, second = s.path("txt"), s.path("txt")
    a, b = r.randint(0, 10 ** r.randint(1, 4) - 1), r.randint(0, 10 ** r.randint(1, 4) - 1)
    if r.random() < 0.2:
        total = alike(r)
        a = r.randint(0, total)
        b = total - a
    s.ask(
        [
            f"Read {first} and {second} and add the numbers.",
            f"What is the sum of the numbers in {first} and {second}?",
        ],
        [f"Add the numbers in {first} and {second}.", f"Add the number in {first} to the number in {second}."],
    )
    s.call(
        [f"I read {first} and {second} first.", "Both files can be read in one step.", CHECKS["read"]],
        ("read_file", {"path": first}),
        ("read_file", {"path": second}),
    )
    s.files.update((first, second))
    s.result(str(a))
    s.result(str(b))
    s.call([f"The numbers are {a} and {b}.", CHECKS["run"]], ("calculator", {"expression": f"{a} + {b}"}))
    s.result(str(a + b))
    s.answer([f"The sum is {a + b}.", DONE["computed"]], f"{a} + {b} = {a + b}.")


def weather(s: Script, r: random.Random) -> None:
    """Look up one to three cities in one turn."""
    cities: list[str] = []
    for _ in range(r.choice([1, 1, 2, 2, 3, 3])):
        name = related(r, cities[-1]).capitalize() if cities and r.random() < 0.12 else city(r)
        if name not in cities:
            cities.append(name)
    asked = and_list(cities)
    s.ask(
        [
            f"What is the weather in {asked}?",
            f"How is the weather in {asked}?",
            f"Tell me the weather in {asked}.",
        ],
        [f"Look up the weather in {asked}.", f"What is the weather like in {asked}?", f"Weather in {asked}?"],
    )
    how_many = "One call for each city." if len(cities) > 1 else "One call is enough."
    thoughts = [f"I look up the weather in {asked}.", how_many, CHECKS["run"]]
    if len(cities) == 1:
        wrong = r.choice(("location", "place", "name"))
        thoughts = mistake(s, r, thoughts, "get_weather", {"city": cities[0]}, wrong, "city")
    s.call(thoughts, *(("get_weather", {"city": c}) for c in cities))
    if len(cities) == 1 and r.random() < 0.02:
        denied(s, "look up the weather")
        return
    skies = r.sample(SKIES, 1 if r.random() < 0.3 else len(SKIES))
    warmth = r.choice((range(-9, 40), range(-9, 40), (1, 2, 10, 12, 20, 21, 22, -1, -2)))
    said = [f"{r.choice(skies)}, {r.choice(warmth)} degrees" for _ in cities]
    for text in said:
        s.result(text)
    s.answer([DONE["told"], "I report each city."], " ".join(f"{c}: {t}." for c, t in zip(cities, said, strict=True)))
