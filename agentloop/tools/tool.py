"""A Python callable as a tool: a name, a description, a JSON schema, and a call with typed arguments."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from jsonschema.exceptions import SchemaError
from jsonschema.validators import Draft202012Validator, validator_for
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential, wait_random

from agentloop.arguments import validate_arguments
from agentloop.exceptions import ToolDefinitionError
from agentloop.tools.results import result_text
from agentloop.tools.schema import FunctionSchema
from agentloop.tools.threads import run_in_thread

if TYPE_CHECKING:
    from agentloop.context import RunContext

__all__ = ["Tool", "TransientRetry", "tool"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class TransientRetry:
    """Errors that go away by themselves: call the function again, at most `attempts` times in all, unseen by the model.

    Seconds between two attempts start at `wait`, double, stay below `max_wait`, and have some noise.
    """

    on: tuple[type[BaseException], ...] = (ConnectionError, TimeoutError)
    attempts: int = 3
    wait: float = 0.2
    max_wait: float = 10.0

    def retrying(self) -> AsyncRetrying:
        """The tenacity object that does it; a new one for each call."""
        return AsyncRetrying(
            retry=retry_if_exception_type(self.on),
            stop=stop_after_attempt(self.attempts),
            wait=wait_exponential(multiplier=self.wait, max=self.max_wait) + wait_random(0, self.wait),
            reraise=True,
        )


class Tool:
    """A callable that a model may call.

    `function`: a function, method, `functools.partial` or object with `__call__`, sync or async; a first parameter
    annotated `RunContext` receives the run's context and is not shown to the model. `name` and `description` default to
    the function's name and docstring. `timeout`: seconds one call may take. `sequential`: never runs beside another
    call. `requires_approval`: a person decides before each call. `max_retries`: how often in a row the model may get
    the call wrong. `strict`: arguments are taken only in their exact type, the schema closes itself with
    `additionalProperties: false`, and the model can only write calls that fit it, where its template has a grammar of
    calls. `transient`: errors after which the function is called again.

    Raises `ToolDefinitionError` if the signature cannot become a JSON schema.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
        sequential: bool = False,
        requires_approval: bool = False,
        max_retries: int = 1,
        strict: bool = False,
        takes_context: bool | None = None,
        transient: TransientRetry | None = None,
    ) -> None:
        self.function = function
        self.name = name or _name_of(function)
        _check_name(self.name)
        _check_bounds(self.name, function, timeout, max_retries)
        self._function_schema: FunctionSchema | None = FunctionSchema(
            function, self.name, takes_context=takes_context, strict=strict
        )
        self.takes_context = self._function_schema.takes_context
        self.parameters: dict[str, Any] = self._function_schema.parameters
        self.description = description if description is not None else self._function_schema.description
        self.timeout = timeout
        self.sequential = sequential
        self.requires_approval = requires_approval
        self.max_retries = max_retries
        self.strict = strict
        self.transient = transient

    @classmethod
    def from_schema(
        cls,
        function: Callable[..., Awaitable[Any] | Any],
        *,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
        takes_context: bool = False,
        timeout: float | None = None,
        sequential: bool = False,
        requires_approval: bool = False,
        max_retries: int = 1,
        transient: TransientRetry | None = None,
    ) -> Tool:
        """A tool whose schema comes from elsewhere. `function` gets the arguments, checked by jsonschema, as keywords.

        Raises `ToolDefinitionError` if `parameters` is no JSON schema of an object.
        """
        _check_name(name)
        _check_bounds(name, function, timeout, max_retries)
        self = cls.__new__(cls)
        self.function = function
        self.name = name
        self.description = description
        self.parameters = _object_schema(name, parameters)
        self._function_schema = None
        self.takes_context = takes_context
        self.timeout = timeout
        self.sequential = sequential
        self.requires_approval = requires_approval
        self.max_retries = max_retries
        self.strict = False
        self.transient = transient
        return self

    @property
    def schema(self) -> dict[str, Any]:
        """The declaration in OpenAI form: `{"type": "function", "function": {"name", "description", "parameters"}}`."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    async def invoke(self, arguments: Mapping[str, Any], ctx: RunContext[Any] | None = None) -> Any:
        """Validate the arguments and call the function; returns what it returned.

        A sync function runs in a worker thread. If the call is cancelled or timed out from outside, it returns at once;
        the thread cannot be stopped and ends by itself. Raises `ArgumentsError`, and whatever the function raises.
        """
        if self._function_schema is not None:
            args, kwargs = self._function_schema.bind(arguments)
        else:
            validate_arguments(arguments, self.parameters)
            args, kwargs = [], dict(arguments)
        if self.takes_context:
            args = [ctx, *args]
        if self.transient is None:
            return await self._once(args, kwargs)
        return await self.transient.retrying()(self._once, args, kwargs)

    async def call(self, arguments: Mapping[str, Any], ctx: RunContext[Any] | None = None) -> str:
        """As `invoke`, with the returned value as text (`result_text`)."""
        value = await self.invoke(arguments, ctx)
        return result_text(value)

    async def _once(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        bound = functools.partial(self.function, *args, **kwargs)
        if _is_async(self.function):
            return await bound()
        value = await run_in_thread(bound, f"tool {self.name}")
        return await value if inspect.isawaitable(value) else value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, as if it had not been decorated."""
        return self.function(*args, **kwargs)

    def replaced(self, **changes: Any) -> Tool:
        """A copy with other attributes (`name`, `description`, `timeout`, `requires_approval`, ...)."""
        unknown = [key for key in changes if key.startswith("_") or not hasattr(self, key) or key == "schema"]
        if unknown:
            raise TypeError(f"a tool has no attribute {', '.join(unknown)} to replace")
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.__dict__.update(changes)
        _check_name(copy.name)
        return copy

    def __repr__(self) -> str:
        return f"Tool({self.name}: {', '.join(self.parameters.get('properties', {}))})"


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    sequential: bool = False,
    requires_approval: bool = False,
    max_retries: int = 1,
    strict: bool = False,
    takes_context: bool | None = None,
    transient: TransientRetry | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a `Tool` of a function: `@tool`, or `@tool(timeout=5)` with the options of `Tool`."""
    if function is None:
        return functools.partial(Tool, **options)
    return Tool(function, **options)


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or (
        not inspect.isroutine(function)
        and not inspect.isclass(function)
        and inspect.iscoroutinefunction(type(function).__call__)
    )


def _name_of(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ToolDefinitionError(
            name, "a tool's name has letters, digits, _ . - and starts with a letter or _; pass name=..."
        )


def _check_bounds(name: str, function: Any, timeout: float | None, max_retries: int) -> None:
    if not callable(function):
        raise ToolDefinitionError(name, f"a value of type {type(function).__name__} cannot be called")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ToolDefinitionError(
            name, "a generator has many results; return one, and tell the way with ctx.progress(...)"
        )
    if timeout is not None and not timeout > 0:
        raise ToolDefinitionError(name, f"a timeout of {timeout} s lets no call finish; give more than 0 or None")
    if max_retries < 0:
        raise ToolDefinitionError(name, f"max_retries is {max_retries}; give 0 or more")


def _object_schema(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    schema = dict(parameters)
    if schema.get("type", "object") != "object":
        raise ToolDefinitionError(name, f'its parameters must be a schema of "type": "object", not {schema["type"]!r}')
    try:
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
    except SchemaError as exc:
        raise ToolDefinitionError(name, f"its parameters are no JSON schema: {exc.message}") from None
    for parameter in schema.get("properties", {}):
        if not parameter or re.search(r"[<>\n\r]", parameter):
            raise ToolDefinitionError(name, "a parameter's name may hold neither < nor > nor a line break", parameter)
    first = {"type": "object"}
    first.update({key: schema[key] for key in ("properties", "required") if key in schema})
    return {**first, **{key: value for key, value in schema.items() if key not in first}}
