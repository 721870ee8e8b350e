"""Tasks on numbers and small talk: arithmetic, the sum of two files, the weather, greetings."""

from __future__ import annotations

import random

from . import errors
from .words import CITIES, SKIES, file_path, invented
from .writing import Script, and_list

__all__ = ["add_files", "arithmetic", "small_talk", "weather"]

TALK = (
    ("Hello!", "Hello! How can I help you?"),
    ("Hi", "Hello! How can I help you?"),
    ("Thanks!", "You are welcome."),
    ("Thank you.", "You are welcome."),
    ("Who are you?", "I am a small agent. I can read and write files, run tests, compute and look up the weather."),
    ("What can you do?", "I can read and write files, run tests, compute and look up the weather."),
    ("Good morning", "Good morning! How can I help you?"),
    ("Goodbye", "Goodbye!"),
)


def arithmetic(s: Script, r: random.Random) -> None:
    sign, a = r.choice("+-*"), r.randint(0, 10 ** r.randint(1, 4) - 1)
    b = r.randint(0, 99 if sign == "*" else 10 ** r.randint(1, 4) - 1)
    if r.random() < 0.04:
        _by_zero(s, a)
        return
    worded = {
        "+": [f"What is {a} plus {b}?", f"Add {a} and {b}."],
        "-": [f"What is {a} minus {b}?", f"Subtract {b} from {a}."],
        "*": [f"What is {a} times {b}?", f"Multiply {a} by {b}."],
    }[sign]
    expression = f"{a} {sign} {b}"
    result = str({"+": a + b, "-": a - b, "*": a * b}[sign])
    s.user(r.choice([*worded, f"What is {expression}?", f"Compute {expression}."]))
    thoughts = [f"I compute {expression} with the calculator.", s.check(), "The calculator gives the exact value."]
    if r.random() < 0.03:
        s.call(thoughts, ("calculator", {}), learn=False)
        s.result(errors.bad_call("calculator", {}, ["calculator"]))
        thoughts = ["The expression was missing, so I call the tool again.", *thoughts[1:]]
    s.call(thoughts, ("calculator", {"expression": expression}))
    s.result(result)
    s.answer([f"The result is {result}.", s.done()], f"{expression} = {result}.")


def _by_zero(s: Script, a: int) -> None:
    s.user(f"What is {a} / 0?")
    s.call([f"I compute {a} / 0 with the calculator.", s.check()], ("calculator", {"expression": f"{a} / 0"}))
    s.result(errors.failed("division by zero"))
    s.answer(["A division by zero has no result."], f"{a} / 0 has no result: division by zero.")


def add_files(s: Script, r: random.Random) -> None:
    first, second = file_path(r, "txt"), file_path(r, "txt")
    while second == first:
        second = file_path(r, "txt")
    a, b = r.randint(0, 10 ** r.randint(1, 4) - 1), r.randint(0, 10 ** r.randint(1, 4) - 1)
    s.user(
        r.choice(
            [
                f"Read {first} and {second} and add the numbers.",
                f"What is the sum of the numbers in {first} and {second}?",
            ]
        )
    )
    s.call(
        [f"I read {first} and {second} first.", "Both files can be read in one step.", s.check()],
        ("read_file", {"path": first}),
        ("read_file", {"path": second}),
    )
    s.result(str(a))
    s.result(str(b))
    s.call([f"The numbers are {a} and {b}.", s.check()], ("calculator", {"expression": f"{a} + {b}"}))
    s.result(str(a + b))
    s.answer([f"The sum is {a + b}.", s.done()], f"{a} + {b} = {a + b}.")


def weather(s: Script, r: random.Random) -> None:
    cities = r.sample(CITIES, r.choice([1, 1, 2, 2, 3, 3]))
    if r.random() < 0.1:
        cities[0] = invented(r).capitalize()
    asked = and_list(cities)
    s.user(
        r.choice(
            [
                f"What is the weather in {asked}?",
                f"How is the weather in {asked}?",
                f"Tell me the weather in {asked}.",
            ]
        )
    )
    how_many = "One call for each city." if len(cities) > 1 else "One call is enough."
    s.call([f"I look up the weather in {asked}.", how_many, s.check()], *(("get_weather", {"city": c}) for c in cities))
    said = [f"{r.choice(SKIES)}, {r.randint(-9, 39)} degrees" for _ in cities]
    for text in said:
        s.result(text)
    s.answer([s.done(), "I report each city."], " ".join(f"{c}: {t}." for c, t in zip(cities, said, strict=True)))


def small_talk(s: Script, r: random.Random) -> None:
    question, answer = r.choice(TALK)
    s.user(question)
    s.answer(["The user talks to me, so I answer without a tool.", s.done()], answer)
