"""Toolsets: made, changed, combined, opened and closed."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from agentloop.context import RunContext
from agentloop.exceptions import ToolDefinitionError
from agentloop.tools import CombinedToolset, FunctionToolset, Tool, Toolset, collect_tools


def add(a: int, b: int) -> int:
    return a + b


def remove(path: str) -> None: ...


def names(toolset: Toolset, ctx: RunContext[Any] | None = None) -> list[str]:
    return [tool.name for tool in anyio.run(toolset.tools, ctx)]


def test_functions_and_decorators() -> None:
    toolset = FunctionToolset([add, Tool(remove)])

    @toolset.tool
    def plain() -> None: ...

    @toolset.tool(name="other", timeout=2)
    def with_options(ctx: RunContext[int]) -> int:
        return ctx.deps

    assert names(toolset) == ["add", "remove", "plain", "other"]
    assert with_options.timeout == 2
    toolset.remove("plain")
    assert names(toolset) == ["add", "remove", "other"]
    with pytest.raises(ToolDefinitionError, match="already"):
        toolset.add(add)


def test_changed_toolsets() -> None:
    toolset = FunctionToolset([add, remove])
    assert names(toolset.prefixed("fs")) == ["fs_add", "fs_remove"]
    assert names(toolset.renamed({"add": "plus"})) == ["plus", "remove"]
    assert names(toolset.filtered(lambda ctx, tool: tool.name == "add")) == ["add"]
    guarded = toolset.approval_required(lambda ctx, tool: tool.name == "remove")
    assert [tool.requires_approval for tool in anyio.run(guarded.tools)] == [False, True]
    assert [tool.requires_approval for tool in anyio.run(toolset.approval_required().tools)] == [True, True]
    assert [tool.requires_approval for tool in anyio.run(toolset.tools)] == [False, False]


def test_a_filter_sees_the_context_each_time() -> None:
    admin = FunctionToolset([add, remove]).filtered(lambda ctx, tool: ctx is not None and ctx.deps == "admin")
    assert names(admin, RunContext(deps="guest")) == []
    assert names(admin, RunContext(deps="admin")) == ["add", "remove"]


def test_a_renamed_tool_runs_under_its_new_name() -> None:
    (tool,) = anyio.run(FunctionToolset([add]).prefixed("math").tools)
    assert tool.schema["function"]["name"] == "math_add"
    assert anyio.run(tool.call, {"a": 1, "b": 2}) == "3"


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="two tools have this name"):
        anyio.run(collect_tools, [add, FunctionToolset([add])])
    assert [tool.name for tool in anyio.run(collect_tools, [add, FunctionToolset([add]).prefixed("x")])] == [
        "add",
        "x_add",
    ]


class Opened(FunctionToolset):
    def __init__(self, log: list[str], name: str, fail: bool = False) -> None:
        super().__init__()
        self.log, self.name, self.fail = log, name, fail

    async def __aenter__(self) -> Opened:
        if self.fail:
            raise OSError("cannot open")
        self.log.append(f"open {self.name}")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.log.append(f"close {self.name}")


def test_a_combination_opens_all_and_closes_all() -> None:
    log: list[str] = []

    async def main(fail: bool) -> None:
        inner = Opened(log, "b", fail).prefixed("p").filtered(lambda ctx, tool: True)
        async with CombinedToolset([Opened(log, "a"), inner, add]) as combined:
            assert [tool.name for tool in await combined.tools()] == ["add"]

    anyio.run(main, False)
    assert log == ["open a", "open b", "close b", "close a"]
    log.clear()
    with pytest.raises(OSError, match="cannot open"):
        anyio.run(main, True)
    assert log == ["open a", "close a"]
