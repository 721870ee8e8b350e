"""The schema of a signature, byte for byte, and signatures that cannot have one."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import threading
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from agentloop.context import RunContext
from agentloop.exceptions import ArgumentsError, ToolDefinitionError
from agentloop.tools.schema import FunctionSchema
from agentloop.tools.tool import Tool, tool


def text(function: Callable[..., Any]) -> str:
    return json.dumps(FunctionSchema(function, "f").parameters)


def google(path: str, count: int = 3) -> None:
    """Read a file.

    Reads it line by line.

    Args:
        path: Path of
            the file.
        count (int): How many lines.

    Returns:
        Nothing.
    """


def numpy(path: str, count: int = 3) -> None:
    """Read a file.

    Reads it line by line.

    Parameters
    ----------
    path : str
        Path of
        the file.
    count : int
        How many lines.

    Returns
    -------
    None
    """


def sphinx(path: str, count: int = 3) -> None:
    """Read a file.

    Reads it line by line.

    :param path: Path of
        the file.
    :param count: How many lines.
    :type count: int
    :returns: Nothing.
    """


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_docstring_styles(function: Callable[..., Any]) -> None:
    schema = FunctionSchema(function, "f")
    assert schema.description == "Read a file.\n\nReads it line by line."
    assert json.dumps(schema.parameters) == (
        '{"type": "object", "properties": {"path": {"type": "string", "description": "Path of the file."}, '
        '"count": {"type": "integer", "description": "How many lines.", "default": 3}}, "required": ["path"]}'
    )


def test_a_docstring_without_sections_is_the_description() -> None:
    def f(a: int) -> None:
        """Note: this text has a colon.
        And a second line.

        Example: f(1)
        """

    schema = FunctionSchema(f, "f")
    assert schema.description.startswith("Note: this text has a colon.\nAnd a second line.")
    assert "Example: f(1)" in schema.description


def test_no_docstring_and_no_parameters() -> None:
    def f() -> None: ...

    schema = FunctionSchema(f, "f")
    assert (schema.description, json.dumps(schema.parameters)) == (
        "",
        '{"type": "object", "properties": {}, "required": []}',
    )


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    title: str = "origin"


class Node(BaseModel):
    value: int
    children: list[Node] = []


class Range(TypedDict):
    low: int
    high: int


def test_types() -> None:
    def f(
        flag: bool,
        ratio: float,
        names: list[str],
        limits: dict[str, int],
        kind: Literal["a", "b"],
        color: Color,
        point: Point,
        span: Range,
        maybe: int | None = None,
        anything: Any = None,
    ) -> None: ...

    schema = json.loads(text(f))
    properties = schema["properties"]
    assert properties["flag"] == {"type": "boolean"}
    assert properties["ratio"] == {"type": "number"}
    assert properties["names"] == {"type": "array", "items": {"type": "string"}}
    assert properties["limits"] == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert properties["kind"] == {"type": "string", "enum": ["a", "b"]}
    assert properties["color"] == {"$ref": "#/$defs/Color"}
    assert properties["maybe"] == {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    assert list(schema) == ["type", "properties", "required", "$defs"]
    assert schema["$defs"]["Point"] == {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "title": {"type": "string", "default": "origin"}},
        "required": ["x"],
    }


def test_the_word_title_goes_as_a_keyword_and_stays_as_a_name() -> None:
    def f(title: str, node: Node) -> None: ...

    schema = json.loads(text(f))
    assert list(schema["properties"]) == ["title", "node"]
    assert '"title": "' not in json.dumps(schema)
    children = schema["$defs"]["Node"]["properties"]["children"]
    assert children["items"] == {"$ref": "#/$defs/Node"}


def test_type_and_description_stand_first() -> None:
    def f(n: Annotated[int, Field(gt=0, le=9, description="own words")] = 5) -> None:
        """F.

        Args:
            n: the docstring's words
        """

    assert list(json.loads(text(f))["properties"]["n"])[:2] == ["type", "description"]
    assert json.loads(text(f))["properties"]["n"]["description"] == "own words"


def test_a_text_in_annotated_is_a_description() -> None:
    def f(n: Annotated[int, "How many."], m: Annotated[int, "Lost."]) -> None:
        """F.

        :param m: The docstring goes first.
        """

    properties = FunctionSchema(f, "f").parameters["properties"]
    assert properties["n"] == {"type": "integer", "description": "How many."}
    assert properties["m"]["description"] == "The docstring goes first."


def test_field_as_default() -> None:
    def f(n: int = Field(3, description="How many."), m: int = Field(description="Needed.")) -> int:
        return n + m

    schema = FunctionSchema(f, "f")
    assert schema.parameters["required"] == ["m"]
    assert schema.parameters["properties"]["n"] == {"type": "integer", "description": "How many.", "default": 3}
    assert schema.bind({"m": 1}) == ([], {"n": 3, "m": 1})


def test_names_that_pydantic_would_not_take() -> None:
    def f(copy: int, _private: int, model_config: int, json: str) -> None: ...

    schema = FunctionSchema(f, "f")
    assert list(schema.parameters["properties"]) == ["copy", "_private", "model_config", "json"]
    assert schema.bind({"copy": 1, "_private": 2, "model_config": 3, "json": "x"})[1]["_private"] == 2


def test_binding_makes_python_values() -> None:
    def f(point: Point, color: Color, when: set[int], n: int = 7) -> None: ...

    args, kwargs = FunctionSchema(f, "f").bind({"point": {"x": 1}, "color": "red", "when": [1, 1]})
    assert args == []
    assert kwargs == {"point": Point(1), "color": Color.RED, "when": {1}}  # n is left to the function's own default


def test_binding_positional_only_and_keyword_only() -> None:
    def f(a: int, b: int = 2, /, c: int = 3, *, d: int) -> tuple[int, ...]:
        return a, b, c, d

    args, kwargs = FunctionSchema(f, "f").bind({"a": 1, "d": 4})
    assert f(*args, **kwargs) == (1, 2, 3, 4)


def test_keyword_arguments_of_any_name() -> None:
    def f(a: int, **rest: Point) -> None: ...

    schema = FunctionSchema(f, "f")
    assert schema.parameters["additionalProperties"] == {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "title": {"type": "string", "default": "origin"}},
        "required": ["x"],
    }
    assert schema.bind({"a": 1, "p": {"x": 2}}) == ([], {"a": 1, "p": Point(2)})
    with pytest.raises(ArgumentsError, match=r"^p\.x: "):
        schema.bind({"a": 1, "p": {"x": "no"}})


def test_binding_errors_name_the_place() -> None:
    def f(points: list[Point]) -> None: ...

    schema = FunctionSchema(f, "f")
    with pytest.raises(ArgumentsError) as caught:
        schema.bind({"points": [{"x": 1}, {"x": "one"}]})
    assert caught.value.path == "points[1].x"
    with pytest.raises(ArgumentsError, match='unknown parameter "pointz"; declared parameters: points'):
        schema.bind({"pointz": []})


def test_strict_takes_exact_types_only() -> None:
    def f(n: int) -> int:
        return n

    assert FunctionSchema(f, "f").bind({"n": "5"}) == ([], {"n": 5})
    strict = FunctionSchema(f, "f", strict=True)
    assert strict.parameters["additionalProperties"] is False
    with pytest.raises(ArgumentsError):
        strict.bind({"n": "5"})


def test_run_context_is_not_in_the_schema() -> None:
    def typed(ctx: RunContext[int], a: int) -> None: ...

    def bare(ctx: RunContext, a: int) -> None: ...  # type: ignore[type-arg]

    def none(a: int, ctx: str) -> None: ...

    assert FunctionSchema(typed, "f").takes_context
    assert FunctionSchema(bare, "f").takes_context
    assert not FunctionSchema(none, "f").takes_context
    assert list(FunctionSchema(typed, "f").parameters["properties"]) == ["a"]


def test_local_types_behind_string_annotations() -> None:
    class Local(BaseModel):
        n: int

    @tool
    def f(local: Local) -> int:
        return local.n

    assert f.parameters["$defs"]["Local"]["properties"] == {"n": {"type": "integer"}}


class Counter:
    def __init__(self, start: int) -> None:
        self.start = start

    def plus(self, n: int) -> int:
        """Add n.

        Args:
            n: What to add.
        """
        return self.start + n

    def __call__(self, times: int) -> int:
        """Multiply."""
        return self.start * times


def test_methods_partials_and_callable_objects() -> None:
    assert FunctionSchema(Counter(1).plus, "f").parameters["properties"]["n"]["description"] == "What to add."
    called = FunctionSchema(Counter(2), "f")
    assert (called.description, list(called.parameters["properties"])) == ("Multiply.", ["times"])

    def f(a: int, b: int, c: int = 1) -> int:
        """Sum."""
        return a + b + c

    partial = FunctionSchema(functools.partial(f, 1, c=5), "f")
    assert (partial.description, partial.parameters["required"]) == ("Sum.", ["b"])
    assert list(partial.parameters["properties"]) == ["b"]


def star(*args: int) -> None: ...
def bare(value) -> None: ...  # type: ignore[no-untyped-def]
def lock(value: threading.Lock) -> None: ...
def function(value: Callable[[int], int]) -> None: ...
def unknown(value: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def arbitrary(value: Counter) -> None: ...
def keyword_context(*, ctx: RunContext[int]) -> None: ...


@pytest.mark.parametrize(
    ("function", "parameter", "said"),
    [
        (star, "args", "take a list parameter instead"),
        (Counter.plus, "self", "make the tool of the bound method"),
        (bare, "value", "annotate it, for example `value: str`"),
        (lock, "value", "has no JSON schema"),
        (function, "value", "has no JSON schema"),
        (unknown, "value", "'Missing' cannot be resolved"),
        (arbitrary, "value", "the type Counter has no JSON schema"),
        (keyword_context, None, "its first parameter must be positional"),
    ],
)
def test_signatures_that_cannot_become_a_schema(function: Callable[..., Any], parameter: str | None, said: str) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        Tool(function, name="f")
    assert (caught.value.tool, caught.value.parameter) == ("f", parameter)
    assert said in str(caught.value)
