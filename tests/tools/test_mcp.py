"""Tools of real MCP server processes, over stdio and over streamable HTTP on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import anyio
import pytest

from agentloop.calls import Call
from agentloop.context import RunContext
from agentloop.exceptions import ToolServerError
from agentloop.tools import ToolEvent, ToolResult, run_calls

mcp = pytest.importorskip("mcp", reason="the mcp extra is not installed")

from agentloop.tools.mcp import MCPServer, MCPServerStdio, MCPServerStreamableHTTP  # noqa: E402

SCRIPT = str(Path(__file__).with_name("mcp_server.py"))


def stdio(**options: float) -> MCPServer:
    return MCPServerStdio(sys.executable, [SCRIPT, "stdio"], timeout=60, **options)


@pytest.fixture
def http() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, SCRIPT, "http", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(600):
            assert process.poll() is None
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            anyio.run(anyio.sleep, 0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


async def calling(server: MCPServer, *calls: Call, events: list[ToolEvent] | None = None) -> list[ToolResult]:
    return await run_calls(
        calls,
        await server.tools(),
        lambda index, call: RunContext(deps=None),
        on_event=None if events is None else events.append,
    )


async def everything(server: MCPServer) -> None:
    events: list[ToolEvent] = []
    async with server:
        tools = {tool.name: tool for tool in await server.tools()}
        assert tools["add"].schema == {
            "type": "function",
            "function": {
                "name": "add",
                "description": "Add two numbers.",
                "parameters": {
                    "type": "object",
                    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                    "required": ["a", "b"],
                },
            },
        }
        added, wrong, broken, picture, slow = await calling(
            server,
            Call("add", {"a": 1, "b": 2}),
            Call("add", {"a": "one", "b": 2}),
            Call("broken", {}),
            Call("picture", {}),
            Call("slow", {}),
            events=events,
        )
        assert (added.outcome, added.content) == ("ok", "3")
        assert (wrong.outcome, wrong.content) == ("retry", 'Error: a must be an integer, got "one"')
        assert broken.outcome == "failed"
        assert broken.content.startswith("Error: ")
        assert picture.content == "[image left out: image/png, 8 bytes; this model reads text]\nseen"
        assert slow.content == "done"
        assert [event.message for event in events if event.kind == "progress"] == ["half way"]
        assert "grown" not in tools
        await calling(server, Call("grow", {}))
        for _ in range(500):
            if "grown" in [tool.name for tool in await server.tools()]:
                break
            await anyio.sleep(0.01)
        (grown,) = await calling(server, Call("grown", {}))
        assert grown.content == "I am new"


def test_over_stdio() -> None:
    anyio.run(everything, stdio())


def test_over_streamable_http(http: str) -> None:
    anyio.run(everything, MCPServerStreamableHTTP(http, timeout=60))


def test_the_servers_process_ends_with_the_connection() -> None:
    async def pid_of() -> int:
        server = MCPServerStdio("/bin/sh", ["-c", f'PID=$$ exec "{sys.executable}" "{SCRIPT}" stdio'], timeout=60)
        async with server:
            (answer,) = await calling(server, Call("environment", {"name": "PID"}))
            pid = int(answer.content)
            os.kill(pid, 0)
        return pid

    pid = anyio.run(pid_of)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_servers_environment_is_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hidden")

    async def main() -> list[str]:
        server = MCPServerStdio(sys.executable, [SCRIPT, "stdio"], env={"GIVEN": "yes"}, timeout=60)
        async with server:
            names = ["GIVEN", "SOME_API_KEY"]
            return [r.content for r in await calling(server, *[Call("environment", {"name": n}) for n in names])]

    assert anyio.run(main) == ["yes", "(not set)"]


def test_a_server_that_dies_in_a_call_fails_that_call_and_the_next() -> None:
    async def main() -> list[ToolResult]:
        async with stdio() as server:
            results = await calling(server, Call("die", {}))
            return results + await calling(server, Call("add", {"a": 1, "b": 2}))

    results = anyio.run(main)
    assert [r.outcome for r in results] == ["failed", "failed"]
    assert "the tool server could not run die" in results[0].content


def test_entering_twice_shares_one_connection() -> None:
    async def main() -> str:
        server = stdio()
        async with server:
            async with server:
                await server.tools()
            (result,) = await calling(server, Call("add", {"a": 1, "b": 1}))
        return result.content

    assert anyio.run(main) == "2"


def test_a_connection_may_be_left_in_another_task() -> None:
    async def main() -> None:
        server = stdio()
        async with anyio.create_task_group() as group:
            group.start_soon(server.__aenter__)
        assert len(await server.tools()) > 3
        async with anyio.create_task_group() as group:
            group.start_soon(server.__aexit__)

    anyio.run(main)


def test_a_cancelled_call_leaves_the_connection_usable() -> None:
    async def main() -> list[str]:
        async with stdio() as server:
            tools = await server.tools()
            with anyio.move_on_after(0.001):
                await run_calls([Call("slow", {})] * 20, tools)
            return [r.content for r in await calling(server, Call("add", {"a": 2, "b": 2}))]

    assert anyio.run(main) == ["4"]


async def enter(server: MCPServer) -> None:
    async with server:
        pass


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: MCPServerStdio(sys.executable, ["-c", "raise SystemExit('no licence')"]), "It wrote: no licence"),
        (lambda: MCPServerStdio("/nonexistent/program"), "No such file"),
        (
            lambda: MCPServerStdio(sys.executable, ["-c", "import time; time.sleep(300)"], timeout=1),
            "no answer within 1 s",
        ),
        (lambda: MCPServerStreamableHTTP("http://127.0.0.1:9/mcp"), "tool server http://127.0.0.1:9/mcp: "),
    ],
)
def test_servers_that_cannot_be_used(make: Callable[[], MCPServer], said: str) -> None:
    with pytest.raises(ToolServerError) as caught:
        anyio.run(enter, make())
    assert said in str(caught.value)


def test_tools_without_a_connection() -> None:
    tools: Callable[[], Awaitable[object]] = stdio().tools
    with pytest.raises(ToolServerError, match="async with server"):
        anyio.run(tools)
