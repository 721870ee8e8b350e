"""A tool server for the tests, on stdio or streamable HTTP: `mcp_server.py stdio` or `mcp_server.py http PORT`."""

from __future__ import annotations

import base64
import os
import sys
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ImageContent

server = MCPServer("tests")


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def environment(name: str) -> str:
    """Return a variable of the server's environment."""
    return os.environ.get(name, "(not set)")


@server.tool()
def broken() -> str:
    """Fail."""
    raise ValueError("the disk is on fire")


@server.tool()
def picture() -> list[Any]:
    """Return an image and a word."""
    return [ImageContent(type="image", data=base64.b64encode(b"12345678").decode(), mime_type="image/png"), "seen"]


@server.tool()
async def slow(ctx: Context) -> str:
    """Report progress and return."""
    await ctx.report_progress(1, 2, "half way")
    return "done"


@server.tool()
async def grow(ctx: Context) -> str:
    """Add a tool to this server."""

    def grown() -> str:
        """Was added later."""
        return "I am new"

    server.add_tool(grown)
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "ok"


@server.tool()
def die() -> str:
    """End the server process."""
    os._exit(3)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        sys.stderr.write("starting\n")
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
