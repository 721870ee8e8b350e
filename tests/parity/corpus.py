"""Conversations that every template has to write as the official text does: data, no code under test.

A case has a name, `messages`, maybe `tools` and `knobs`. Names are unique; the golden files refer to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from .texts import NUMBERS, TEXTS, VALUES
from .tools import ADD, EMPTY, GET_WEATHER, MANY, NESTED, READ, TOOLS, UNICODE, WRITE

__all__ = ["CASES", "Case"]

Message = dict[str, Any]


class Case(NamedTuple):
    """One conversation."""

    name: str
    messages: list[Message]
    tools: list[dict[str, Any]] | None = None
    knobs: dict[str, Any] = {}  # noqa: RUF012  (never written to)

    @property
    def prompt(self) -> bool:
        """Whether the opening of a reply follows."""
        return bool(self.knobs.get("add_generation_prompt", True))


def system(text: str) -> Message:
    return {"role": "system", "content": text}


def user(text: Any) -> Message:
    return {"role": "user", "content": text}


def said(text: str | None, reasoning: str | None = None, *calls: tuple[str, Any]) -> Message:
    message: Message = {"role": "assistant", "content": text}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [
            {"id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for i, (name, arguments) in enumerate(calls)
        ]
    return message


def result(text: str, call_id: str = "call_0") -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


ASK = user("What is the weather in Paris?")
WEATHER = ("get_weather", {"city": "Paris"})
TURN = [ASK, said("", "I need the weather.", WEATHER), result("18 degrees, sunny")]

SHAPES: dict[str, list[Message]] = {
    "one user turn": [user("Hello")],
    "system and user": [system("You are helpful."), user("Hello")],
    "empty system": [system(""), user("Hello")],
    "blank system": [system(" \n\t "), user("Hello")],
    "empty user": [user("")],
    "two turns": [user("Hello"), said("Hi!"), user("And now?")],
    "two turns with reasoning": [user("Hello"), said("Hi!", "A greeting."), user("And now?")],
    "three turns with reasoning": [
        system("Be brief."),
        user("1"),
        said("one", "first"),
        user("2"),
        said("two", "second"),
        user("3"),
    ],
    "answered": [user("Hello"), said("Hi!", "A greeting.")],
    "answered without reasoning": [user("Hello"), said("Hi!")],
    "answered with empty reasoning": [user("Hello"), said("Hi!", "")],
    "answered with blank reasoning": [user("Hello"), said("Hi!", " \n\n ")],
    "reasoning but no content": [user("Hello"), said("", "Only thoughts."), user("Well?")],
    "empty assistant": [user("Hello"), said(""), user("Well?")],
    "content none with a call": [ASK, said(None, "Look it up.", WEATHER), result("18")],
    "one call": TURN[:2],
    "one call with its result": TURN,
    "one call, result and answer": [*TURN, said("It is sunny.", "Done.")],
    "one call, result, answer, next": [*TURN, said("It is sunny.", "Done."), user("Thanks")],
    "text before a call": [ASK, said("Let me look.", "Hm.", WEATHER), result("18")],
    "multi-line text before a call": [ASK, said("Let me look.\n\nOne moment.\n", "Hm.", WEATHER), result("18")],
    "a call without reasoning": [ASK, said("", None, WEATHER), result("18")],
    "text and a call without reasoning": [ASK, said("Look.", None, WEATHER), result("18")],
    "two parallel calls": [
        ASK,
        said("", "Both.", WEATHER, ("get_weather", {"city": "Rome"})),
        result("18"),
        result("24", "call_1"),
    ],
    "text and two parallel calls": [
        ASK,
        said("Both of them.", "Both.", WEATHER, ("get_weather", {"city": "Rome"})),
        result("18"),
        result("24", "call_1"),
    ],
    "five parallel calls": [
        ASK,
        said("", "All.", *[("get_weather", {"city": c}) for c in ("Paris", "Rome", "Oslo", "Bern", "Riga")]),
        *[result(str(i), f"call_{i}") for i in range(5)],
        said("Done", "ok"),
    ],
    "parallel calls of different tools": [
        user("Do it."),
        said("", "Two.", ("add", {"a": 1, "b": 2}), ("read_file", {"path": "a.txt"})),
        result("3"),
        result("text", "call_1"),
        said("", "One more.", ("add", {"a": 3, "b": 4})),
        result("7"),
    ],
    "four steps": [
        user("Repair it."),
        said("", "Test first.", ("run_tests", {})),
        result("1 failed"),
        said("", "Read.", ("read_file", {"path": "m.py"})),
        result("def f():\n    return 1\n"),
        said("", "Write.", ("write_file", {"path": "m.py", "content": "def f():\n    return 2\n"})),
        result("Wrote 25 bytes to m.py."),
        said("", "Again.", ("run_tests", {})),
        result("3 passed"),
        said("Fixed.", "All pass."),
    ],
    "two tasks with calls": [
        *TURN,
        said("Sunny.", "a"),
        user("And Rome?"),
        said("", "b", ("get_weather", {"city": "Rome"})),
        result("24"),
        said("Warm.", "c"),
        user("Thanks"),
    ],
    "a user turn behind results": [*TURN, user("Faster, please")],
    "a user turn behind a call without result": [*TURN[:2], user("Never mind")],
    "user turns in a row": [user("One"), user("Two"), user("Three")],
    "assistant turns in a row": [user("One"), said("a", "x"), said("b", "y"), user("Two")],
    "an assistant first": [said("Welcome!", "Greet."), user("Hello")],
    "a tool response as a user turn": [
        user("Go"),
        said("", "x", WEATHER),
        user("<tool_response>\n18\n</tool_response>"),
    ],
    "a tool response as a user turn, then an answer": [
        user("Go"),
        said("", "x", WEATHER),
        user("  <tool_response>\n18\n</tool_response>\n"),
        said("Sunny", "y"),
    ],
    "a query that only begins like a tool response": [
        user("Go"),
        said("a", "x"),
        user("<tool_response> what is this tag?"),
        said("b", "y"),
    ],
    "a call without arguments": [user("Test"), said("", "x", ("run_tests", {})), result("ok")],
    "a call without its envelope": [
        user("Test"),
        {"role": "assistant", "content": "", "tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]},
        result("3"),
    ],
    "text parts": [user([{"type": "text", "text": "One, "}, {"type": "text", "text": "two."}])],
    "text parts with edges": [user([{"type": "text", "text": "  One\n"}, {"type": "text", "text": "\ntwo.  "}])],
    "no parts": [user([]), said("Nothing?", "x"), user("Right")],
    "system in parts": [
        {"role": "system", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "kind."}]},
        user("Hello"),
    ],
    "a result in parts": [
        *TURN[:2],
        {"role": "tool", "tool_call_id": "call_0", "content": [{"type": "text", "text": "18"}]},
    ],
    "an empty result": [*TURN[:2], result("")],
    "many empty results": [
        ASK,
        said("", "x", WEATHER, WEATHER, WEATHER),
        result(""),
        result("", "call_1"),
        result(" ", "call_2"),
    ],
    "reasoning with edges": [user("Hi"), said("Yes", "\n\n  thoughts\n\n"), user("More")],
    "content with edges": [user("  Hi\n"), said("\n\n Yes \n", "x"), user("\tMore\t")],
    "empty tool calls": [user("Hi"), {"role": "assistant", "content": "Yes", "tool_calls": []}, user("More")],
    "extra keys": [
        {"role": "user", "content": "Hi", "name": "someone"},
        {"role": "assistant", "content": "Yes", "refusal": None},
        user("x"),
    ],
    "a long conversation": [m for i in range(12) for m in (user(f"q{i}"), said(f"a{i}", f"r{i}"))] + [user("end")],
    "a result before any call": [user("Hi"), result("out of the blue"), said("What?", "odd")],
    "reasoning in the content of an old turn": [user("Hi"), said("<think>\nold\n</think>\n\nYes"), user("More")],
    "reasoning in the content of the last turn": [user("Hi"), said("<think>\nnew\n</think>\n\nYes")],
    "a closing tag in the content": [user("Hi"), said("It ends with </think>, see", "x"), user("More")],
}

KNOBS: dict[str, dict[str, Any]] = {
    "low": {"reasoning_effort": "low"},
    "medium": {"reasoning_effort": "medium"},
    "xhigh": {"reasoning_effort": "xhigh"},
    "not thinking": {"enable_thinking": False},
    "thinking": {"enable_thinking": True},
    "stripped": {"preserve_thinking": False},
    "preserved": {"preserve_thinking": True},
    "not thinking, low, stripped": {"enable_thinking": False, "reasoning_effort": "low", "preserve_thinking": False},
    "low, stripped": {"reasoning_effort": "low", "preserve_thinking": False},
    "no prompt": {"add_generation_prompt": False},
}

KNOB_SHAPES = (
    "one user turn",
    "empty system",
    "three turns with reasoning",
    "one call, result, answer, next",
    "text and two parallel calls",
    "a tool response as a user turn, then an answer",
    "four steps",
)

TOOL_LISTS: dict[str, list[dict[str, Any]]] = {
    "no tools": [],
    "one tool": [GET_WEATHER],
    "all tools": TOOLS,
    "a tool without parameters": [EMPTY],
    "nested schema": [NESTED],
    "unicode in the schema": [UNICODE],
    "forty tools": MANY,
    "numbers in the schema": [ADD],
}


def _cases() -> Iterator[Case]:
    for name, messages in SHAPES.items():
        yield Case(f"shape: {name}", messages)
        if "call" in name or "step" in name or "result" in name:
            yield Case(f"shape with tools: {name}", messages, TOOLS)
    for knob, knobs in KNOBS.items():
        for shape in KNOB_SHAPES:
            yield Case(f"knob {knob}: {shape}", SHAPES[shape], None, knobs)
        yield Case(f"knob {knob} with tools: two tasks", SHAPES["two tasks with calls"], TOOLS, knobs)
        yield Case(f"knob {knob} with tools and system", [system("Be brief."), *TURN], TOOLS, knobs)
    for name, tools in TOOL_LISTS.items():
        yield Case(f"tools {name}", [ASK], tools)
        yield Case(f"tools {name}, system", [system("Use them."), ASK], tools, {"reasoning_effort": "low"})
    for name, text in TEXTS.items():
        yield Case(f"text as user: {name}", [user(text)])
        yield Case(
            f"text everywhere: {name}",
            [
                system(text),
                user(f"q{text}"),
                said(text, text, ("write_file", {"path": "a", "content": text})),
                result(text),
                said(f"{text}", f"{text}{text}"),
                user("x"),
            ],
            [WRITE],
            {"reasoning_effort": "low"},
        )
    for name, value in {**VALUES, **NUMBERS}.items():
        yield Case(
            f"value: {name}", [user("Go"), said("", "x", ("store", {"value": value, "last": "end"})), result("ok")]
        )
    yield Case("value: all of them", [user("Go"), said("", "x", ("store", dict(VALUES))), result("ok")], [READ])


CASES: list[Case] = list(_cases())
