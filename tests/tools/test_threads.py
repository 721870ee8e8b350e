"""Threads beside the event loop, and that one which never ends holds nothing up."""

from __future__ import annotations

import contextvars
import subprocess
import sys
import threading

import anyio
import anyio.to_thread
import pytest

from agentloop.tools.threads import run_in_thread

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def test_results_errors_and_context_variables() -> None:
    def stop() -> None:
        raise StopIteration

    async def main() -> None:
        variable.set("here")
        assert await run_in_thread(variable.get) == "here"
        assert await run_in_thread(threading.get_ident) != threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            await run_in_thread(lambda: 1 / 0)
        with pytest.raises(SystemExit):
            await run_in_thread(sys.exit)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await run_in_thread(stop)

    anyio.run(main)


def test_threads_left_behind_do_not_use_up_the_limit() -> None:
    release = threading.Event()

    async def main() -> str:
        limit = int(anyio.to_thread.current_default_thread_limiter().total_tokens)
        for _ in range(limit + 1):
            with anyio.move_on_after(0.001):
                await run_in_thread(release.wait)
        return await run_in_thread(lambda: "free")

    try:
        assert anyio.run(main) == "free"
    finally:
        release.set()


def test_a_tool_that_never_returns_does_not_keep_the_process() -> None:
    script = """
import threading, anyio
from agentloop.calls import Call
from agentloop.tools import run_calls, tool

@tool(timeout=0.05)
def hang() -> None:
    threading.Event().wait()

async def main():
    print([result.outcome for result in await run_calls([Call("hang", {})], [hang])])

anyio.run(main)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "['timeout']\n", "")
