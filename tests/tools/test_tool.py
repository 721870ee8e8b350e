"""Tool: names, options, calls of sync and async functions, schemas from elsewhere."""

from __future__ import annotations

import functools
import threading
from typing import Any

import anyio
import pytest

from agentloop.context import RunContext
from agentloop.exceptions import ArgumentsError, ToolDefinitionError
from agentloop.tools import Tool, TransientRetry, tool


def test_schema_has_the_form_that_models_know() -> None:
    @tool
    def read_file(path: str) -> str:
        """Read a text file and return its content.

        Args:
            path: Path of the file to read.
        """
        return path

    assert str(read_file.schema) == str(
        {
            "type": "function",
            "function": {
                "name": "read_file",
                "description": "Read a text file and return its content.",
                "parameters": {
                    "type": "object",
                    "properties": {"path": {"type": "string", "description": "Path of the file to read."}},
                    "required": ["path"],
                },
            },
        }
    )


def test_a_decorated_function_can_still_be_called() -> None:
    @tool(name="plus", description="Add.", timeout=2, sequential=True, requires_approval=True, max_retries=3)
    def add(a: int, b: int) -> int:
        return a + b

    assert add(1, 2) == 3
    assert (add.name, add.description, add.timeout, add.max_retries) == ("plus", "Add.", 2, 3)
    assert add.sequential
    assert add.requires_approval


def test_sync_functions_run_beside_the_event_loop() -> None:
    @tool
    def where() -> int:
        return threading.get_ident()

    assert anyio.run(where.invoke, {}) != threading.get_ident()


def test_async_functions_run_on_it() -> None:
    async def where() -> int:
        return threading.get_ident()

    class Callable_:
        async def __call__(self, n: int) -> int:
            return n

    assert anyio.run(Tool(where).invoke, {}) == threading.get_ident()
    assert anyio.run(Tool(functools.partial(where), name="p").invoke, {}) == threading.get_ident()
    assert anyio.run(Tool(Callable_()).call, {"n": 4}) == "4"


def test_a_sync_function_that_returns_an_awaitable() -> None:
    async def later() -> str:
        return "late"

    assert anyio.run(Tool(lambda: later(), name="f").call, {}) == "late"


def test_the_context_comes_first() -> None:
    @tool
    def deps(ctx: RunContext[str], n: int) -> str:
        return ctx.deps * n

    assert anyio.run(deps.call, {"n": 2}, RunContext(deps="ab")) == "abab"


def test_a_call_validates_before_it_runs() -> None:
    ran = []

    @tool
    def f(n: int) -> None:
        ran.append(n)

    with pytest.raises(ArgumentsError, match=r"^n: "):
        anyio.run(f.call, {"n": "many"})
    assert ran == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"function": lambda: None}, "starts with a letter"),
        ({"function": print, "name": "a b"}, "starts with a letter"),
        ({"function": 5, "name": "f"}, "int cannot be called"),
        ({"function": lambda: None, "name": "f", "timeout": 0}, "lets no call finish"),
        ({"function": lambda: None, "name": "f", "max_retries": -1}, "give 0 or more"),
    ],
)
def test_what_is_no_tool(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ToolDefinitionError, match=said):
        Tool(**arguments)


def test_generators_are_no_tools() -> None:
    def many() -> Any:
        yield 1

    with pytest.raises(ToolDefinitionError, match=r"ctx\.progress"):
        Tool(many)


def test_transient_errors_are_retried_unseen() -> None:
    tries: list[int] = []

    @tool(transient=TransientRetry(on=(ConnectionError,), attempts=3, wait=0.001))
    def flaky(fail: int) -> str:
        tries.append(1)
        if len(tries) <= fail:
            raise ConnectionError(f"try {len(tries)}")
        return "there"

    assert anyio.run(flaky.call, {"fail": 2}) == "there"
    assert len(tries) == 3
    tries.clear()
    with pytest.raises(ConnectionError, match="try 3"):
        anyio.run(flaky.call, {"fail": 9})
    assert len(tries) == 3


def test_other_errors_are_not_retried() -> None:
    tries: list[int] = []

    @tool(transient=TransientRetry(wait=0.001))
    def wrong() -> None:
        tries.append(1)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        anyio.run(wrong.call, {})
    assert len(tries) == 1


def test_a_schema_from_elsewhere() -> None:
    async def f(**arguments: Any) -> Any:
        return arguments

    made = Tool.from_schema(
        f, name="f", description="F.", parameters={"required": ["a b"], "properties": {"a b": {"type": "integer"}}}
    )
    assert list(made.parameters) == ["type", "properties", "required"]
    assert anyio.run(made.call, {"a b": 1}) == '{"a b": 1}'
    with pytest.raises(ArgumentsError, match="a b must be an integer"):
        anyio.run(made.call, {"a b": "x"})


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "string"},
        {"type": "object", "properties": {"a": {"type": "text"}}},
        {"type": "object", "properties": {"a>": {"type": "string"}}},
    ],
)
def test_schemas_that_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(ToolDefinitionError):
        Tool.from_schema(print, name="f", description="", parameters=parameters)


def test_replaced_makes_a_copy() -> None:
    @tool
    def f() -> None: ...

    other = f.replaced(name="g", timeout=3)
    assert (f.name, other.name, other.timeout, f.timeout) == ("f", "g", 3, None)
    with pytest.raises(ToolDefinitionError):
        f.replaced(name="not a name")
    with pytest.raises(TypeError, match="colour"):
        f.replaced(colour="red")
