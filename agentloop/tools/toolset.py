"""Groups of tools: made of functions, of a server, of other groups; filtered, renamed, with a prefix.

A toolset is asked for its tools before every model turn, so the answer may change while a run goes on. It is an async
context manager; most have nothing to open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Union, overload

from typing_extensions import Self

from agentloop.exceptions import ToolDefinitionError
from agentloop.tools.tool import Tool

if TYPE_CHECKING:
    from agentloop.context import RunContext

__all__ = ["CombinedToolset", "FunctionToolset", "ToolSource", "Toolset", "collect_tools"]


class Toolset:
    """A group of tools. Subclasses say which in `tools`, and open what they need in `__aenter__`."""

    async def tools(self, ctx: RunContext[Any] | None = None) -> list[Tool]:
        """The tools on offer now."""
        raise TypeError(f"{type(self).__name__} must override tools()")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        return None

    def filtered(self, keep: Callable[[RunContext[Any] | None, Tool], bool]) -> Toolset:
        """Only the tools for which `keep(ctx, tool)` is true, asked anew before every turn."""
        return _Changed(self, lambda ctx, tool: tool if keep(ctx, tool) else None)

    def prefixed(self, prefix: str) -> Toolset:
        """Every tool under the name `prefix_name`."""
        return _Changed(self, lambda _, tool: tool.replaced(name=f"{prefix}_{tool.name}"))

    def renamed(self, names: Mapping[str, str]) -> Toolset:
        """Tools under other names: `{old: new}`; the rest keep theirs."""
        return _Changed(self, lambda _, tool: tool.replaced(name=names.get(tool.name, tool.name)))

    def approval_required(self, needs: Callable[[RunContext[Any] | None, Tool], bool] | None = None) -> Toolset:
        """A person decides before each call of the tools for which `needs(ctx, tool)` is true (None: of all)."""

        def change(ctx: RunContext[Any] | None, tool: Tool) -> Tool:
            return tool.replaced(requires_approval=True) if needs is None or needs(ctx, tool) else tool

        return _Changed(self, change)


class FunctionToolset(Toolset):
    """Tools made of Python functions; more can be added at any time."""

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for item in tools:
            self.add(item)

    def add(self, item: Tool | Callable[..., Any]) -> Tool:
        """Add a tool or a function. Raises `ToolDefinitionError` if the name is taken."""
        tool = item if isinstance(item, Tool) else Tool(item)
        if tool.name in self._tools:
            raise ToolDefinitionError(tool.name, "the toolset has a tool of this name already")
        self._tools[tool.name] = tool
        return tool

    def remove(self, name: str) -> None:
        """Take a tool away. Raises `KeyError` if there is none of this name."""
        del self._tools[name]

    @overload
    def tool(self, function: Callable[..., Any], /) -> Tool: ...

    @overload
    def tool(self, function: None = None, /, **options: Any) -> Callable[[Callable[..., Any]], Tool]: ...

    def tool(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Decorator: add the function, with the options of `Tool`. Its first parameter may be a `RunContext`."""
        if function is None:
            return lambda decorated: self.add(Tool(decorated, **options))
        return self.add(Tool(function, **options))

    async def tools(self, ctx: RunContext[Any] | None = None) -> list[Tool]:
        return list(self._tools.values())


class CombinedToolset(Toolset):
    """Several toolsets as one; opened and closed together."""

    def __init__(self, sources: Sequence[ToolSource]) -> None:
        self.sources = list(sources)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for source in self.sources:
                if isinstance(source, Toolset):
                    await stack.enter_async_context(source)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    async def tools(self, ctx: RunContext[Any] | None = None) -> list[Tool]:
        return await collect_tools(self.sources, ctx)


class _Changed(Toolset):
    def __init__(self, inner: Toolset, change: Callable[[RunContext[Any] | None, Tool], Tool | None]) -> None:
        self.inner = inner
        self.change = change

    async def __aenter__(self) -> Self:
        await self.inner.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.inner.__aexit__(*exc_info)

    async def tools(self, ctx: RunContext[Any] | None = None) -> list[Tool]:
        changed = [self.change(ctx, tool) for tool in await self.inner.tools(ctx)]
        return [tool for tool in changed if tool is not None]


ToolSource = Union[Tool, Toolset, Callable[..., Any]]  # noqa: UP007  (evaluated on 3.10)
"""What an agent takes as tools: a tool, a toolset, or a plain function."""


async def collect_tools(sources: Iterable[ToolSource], ctx: RunContext[Any] | None = None) -> list[Tool]:
    """All tools of `sources`, in order. Raises `ToolDefinitionError` if two have the same name."""
    found: dict[str, Tool] = {}
    for source in sources:
        if isinstance(source, Toolset):
            tools = await source.tools(ctx)
        else:
            tools = [source if isinstance(source, Tool) else Tool(source)]
        for tool in tools:
            if tool.name in found:
                raise ToolDefinitionError(tool.name, "two tools have this name; rename one or give it a prefix")
            found[tool.name] = tool
    return list(found.values())
