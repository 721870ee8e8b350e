"""Tools of MCP servers, over stdio or streamable HTTP, through the official `mcp` package (extra `mcp`).

async with MCPServerStdio("python", ["server.py"]) as server:
    agent = Agent(engine, tools=[server])
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from typing_extensions import Self

from agentloop.exceptions import ToolFailed, ToolServerError
from agentloop.tools.results import result_text
from agentloop.tools.schema import tidy_schema
from agentloop.tools.tool import Tool
from agentloop.tools.toolset import Toolset

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult

    from agentloop.context import RunContext

__all__ = ["MCPServer", "MCPServerStdio", "MCPServerStreamableHTTP"]

logger = logging.getLogger(__name__)

_SHOWN_LOG = 500  # characters of a server's stderr that an error shows
_PAGES = 100  # of a tool listing


class MCPServer(Toolset):
    """A connection to one server; `tools` lists what it offers, anew after the server said that it changed.

    `timeout`: seconds to connect in, and to list; `call_timeout`: seconds for one call (None: the run's own limits).
    Entering it twice shares one connection. Raises `ToolServerError` where the server cannot be used.
    """

    def __init__(self, label: str, *, timeout: float = 10, call_timeout: float | None = None) -> None:
        self.label = label
        self.timeout = timeout
        self.call_timeout = call_timeout
        self._users = 0
        self._lock = asyncio.Lock()
        self._client: Client | None = None
        self._owner: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._listed: list[Tool] | None = None

    @contextlib.asynccontextmanager
    async def _connect(self, **options: Any) -> AsyncIterator[Client]:
        """The client, open. Subclasses choose the transport; `options` go to the client."""
        raise TypeError(f"{type(self).__name__} must override _connect()")
        yield

    def _last_words(self) -> str:
        """What the server wrote before it failed, for the error."""
        return ""

    async def __aenter__(self) -> Self:
        async with self._lock:
            if self._users == 0:
                await self._open()
            self._users += 1
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        async with self._lock:
            self._users -= 1
            if self._users == 0:
                await self._close()

    async def _open(self) -> None:
        _require_mcp(self.label)
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._listed = None
        self._owner = asyncio.create_task(self._own(ready), name=f"mcp {self.label}")
        try:
            await asyncio.wait_for(asyncio.shield(ready), self.timeout)
        except BaseException as exc:
            ready.cancel()
            await self._close()
            if isinstance(exc, asyncio.TimeoutError):
                raise ToolServerError(
                    self.label, f"no answer within {self.timeout:g} s{self._last_words()}; is it an MCP server?"
                ) from None
            if isinstance(exc, Exception):
                raise ToolServerError(self.label, f"{_reason(exc)}{self._last_words()}") from exc
            raise

    async def _own(self, ready: asyncio.Future[None]) -> None:
        """Holds the connection in a task of its own: it is entered and left in the same one, whoever uses it."""
        try:
            async with self._connect(message_handler=self._notified) as client:
                self._client = client
                listening = asyncio.create_task(self._listen(client))
                if not ready.done():
                    ready.set_result(None)
                try:
                    await self._stop.wait()
                finally:
                    listening.cancel()
                    await asyncio.gather(listening, return_exceptions=True)
        except BaseException as exc:
            if not ready.done():
                ready.set_exception(exc if isinstance(exc, Exception) else ToolServerError(self.label, "cancelled"))
            else:
                logger.info("connection to %s ended", self.label, exc_info=exc)
            if not isinstance(exc, Exception):
                raise
        finally:
            self._client = None

    async def _close(self) -> None:
        owner, self._owner = self._owner, None
        if owner is None:
            return
        self._stop.set()
        done, _ = await asyncio.wait([owner], timeout=self.timeout)
        if not done:
            owner.cancel()
            await asyncio.gather(owner, return_exceptions=True)

    async def _notified(self, message: Any) -> None:
        if type(message).__name__ == "ToolListChangedNotification":
            self._listed = None

    async def _listen(self, client: Client) -> None:
        """Newer servers tell of changes only to those who subscribe; older ones cannot, and tell everybody."""
        with contextlib.suppress(Exception):
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._listed = None

    def _connected(self) -> Client:
        if self._client is None:
            raise ToolServerError(self.label, "not connected; use it in `async with server:`" + self._last_words())
        return self._client

    async def tools(self, ctx: RunContext[Any] | None = None) -> list[Tool]:
        if self._listed is not None:
            return list(self._listed)
        client = self._connected()
        found: list[Tool] = []
        try:
            with anyio.fail_after(self.timeout):
                cursor: str | None = None
                for _ in range(_PAGES):
                    page = await client.list_tools(cursor=cursor, cache_mode="refresh")
                    found += [self._tool(item) for item in page.tools]
                    cursor = page.next_cursor
                    if cursor is None:
                        break
        except Exception as exc:
            raise ToolServerError(self.label, f"its tools cannot be listed: {_reason(exc)}") from exc
        self._listed = found
        return list(found)

    def _tool(self, item: Any) -> Tool:
        remote = str(item.name)

        async def call(ctx: RunContext[Any] | None, /, **arguments: Any) -> str:
            return await self._call(remote, arguments, ctx)

        return Tool.from_schema(
            call,
            name=re.sub(r"[^A-Za-z0-9_.-]", "_", remote)[:64],
            description=item.description or "",
            parameters=tidy_schema(item.input_schema),
            takes_context=True,
            timeout=self.call_timeout,
        )

    async def _call(self, name: str, arguments: dict[str, Any], ctx: RunContext[Any] | None) -> str:
        client = self._connected()

        async def report(progress: float, total: float | None, message: str | None) -> None:
            if ctx is not None:
                ctx.progress(message or (f"{progress:g}" if total is None else f"{progress:g} of {total:g}"))

        try:
            result = await client.call_tool(name, arguments, progress_callback=report)
        except Exception as exc:
            raise ToolFailed(f"the tool server could not run {name}: {_reason(exc)}") from exc
        text = _text(result)
        if result.is_error:
            raise ToolFailed(text or f"{name} failed without saying why")
        return text


class MCPServerStdio(MCPServer):
    """A server that runs as a child process and ends with the connection. Its stderr is kept from the terminal."""

    def __init__(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        timeout: float = 10,
        call_timeout: float | None = None,
    ) -> None:
        super().__init__(command, timeout=timeout, call_timeout=call_timeout)
        self.command = command
        self.args = list(args)
        self.env = None if env is None else dict(env)
        self.cwd = cwd
        self._log = ""

    @contextlib.asynccontextmanager
    async def _connect(self, **options: Any) -> AsyncIterator[Client]:
        from mcp import Client, StdioServerParameters, stdio_client

        server = StdioServerParameters(command=self.command, args=self.args, env=self.env, cwd=self.cwd)
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
            try:
                async with Client(stdio_client(server, errlog=log), **options) as client:
                    yield client
            finally:
                log.seek(0)
                self._log = log.read()[-_SHOWN_LOG:].strip()

    def _last_words(self) -> str:
        return f". It wrote: {self._log}" if self._log else ""


class MCPServerStreamableHTTP(MCPServer):
    """A server at a URL (`http://127.0.0.1:8000/mcp`). `headers` go with every request."""

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = 10,
        call_timeout: float | None = None,
    ) -> None:
        super().__init__(url, timeout=timeout, call_timeout=call_timeout)
        self.url = url
        self.headers = dict(headers or {})

    @contextlib.asynccontextmanager
    async def _connect(self, **options: Any) -> AsyncIterator[Client]:
        import httpx2
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client

        limits = httpx2.Timeout(self.timeout, read=None)  # a call may take as long as the run allows
        async with (
            httpx2.AsyncClient(headers=self.headers, timeout=limits) as http,
            Client(streamable_http_client(self.url, http_client=http), **options) as client,
        ):
            yield client


def _text(result: CallToolResult) -> str:
    """The text of a result; what is no text is named in its place, with its size."""
    parts: list[str] = []
    block: Any
    for block in result.content:
        kind = block.type
        if kind == "text":
            parts.append(block.text)
        elif kind in ("image", "audio"):
            size = len(block.data) * 3 // 4 - block.data.count("=")
            parts.append(f"[{kind} left out: {block.mime_type}, {size} bytes; this model reads text]")
        elif kind == "resource_link":
            parts.append(f"{block.name}: {block.uri}")
        elif kind == "resource":
            text = getattr(block.resource, "text", None)
            parts.append(text if text is not None else f"[binary resource left out: {block.resource.uri}]")
    if not parts and result.structured_content is not None:
        return result_text(result.structured_content)
    return "\n".join(parts)


def _reason(error: BaseException) -> str:
    while isinstance(inner := getattr(error, "exceptions", None), tuple) and inner:
        error = inner[0]
    return " ".join(str(error).split()) or type(error).__name__


def _require_mcp(label: str) -> None:
    try:
        import mcp  # noqa: F401
    except ImportError:
        raise ToolServerError(label, "the mcp package is missing; install agentloop[mcp]") from None
