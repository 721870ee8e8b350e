"""What demo, chat and run share: an engine from the options, one run that is shown, Ctrl-C that stops it."""

from __future__ import annotations

import errno
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from ..agent import Agent, RunResult
from ..conversation import Conversation, Thinking
from ..engine import Engine
from ..limits import Usage, UsageLimits
from ..tools import ApprovalRequest, Tool
from ..tools.samples import calculator, get_weather
from ..tools.workspace import workspace_tools
from .transcript import Transcript

__all__ = ["KNOWN_TOOLS", "follow", "load_engine", "make_agent", "stop_on_interrupt", "tools_for", "turn_rows"]

KNOWN_TOOLS = ("list_files", "read_file", "write_file", "run_tests")
"""The workspace tools that the embedded model was trained on; it is given no others."""


def load_engine(model: str | None, *, n_ctx: int, threads: int | None) -> Engine:
    """The engine of a model file, None for the embedded model. One sequence lives in it. Raises ModelLoadError."""
    return Engine.load(model, n_ctx=n_ctx, threads=threads, sequences=1)


def tools_for(model: str | None, workspace: str | None, *, commands: bool = False) -> list[Tool]:
    """The tools a session has. `commands` adds run_command, for models other than the embedded one.

    Raises ToolDefinitionError when the workspace is no folder.
    """
    if workspace is None:
        return [calculator, get_weather] if model is None else []
    if model is None:
        return workspace_tools(workspace, allow=KNOWN_TOOLS)
    tools = workspace_tools(workspace)
    return tools if commands else [tool for tool in tools if tool.name != "run_command"]


def make_agent(
    engine: Engine,
    tools: list[Tool],
    *,
    effort: str,
    system: str | None = None,
    max_turns: int = 50,
    max_tokens: int | None = None,
    approve: Callable[[ApprovalRequest], Any] | None = None,
) -> Agent[None]:
    """An agent with greedy decoding; `effort` is "none" or an effort of `Thinking`."""
    return Agent(
        engine,
        tools=tools,
        instructions=system,
        thinking=Thinking.of(False if effort == "none" else effort),
        limits=UsageLimits(request_limit=max_turns),
        max_tokens=max_tokens,
        approve=approve,
    )


async def follow(
    agent: Agent[None],
    prompt: str,
    transcript: Transcript | None,
    *,
    conversation: Conversation | None = None,
    usage: Usage | None = None,
) -> RunResult[Any]:
    """One run to its end, each event shown as it comes; Ctrl-C stops it. Raises what the run raises."""
    async with agent.stream(prompt, conversation=conversation, usage=usage or Usage()) as run:
        with stop_on_interrupt(run.cancel):
            try:
                async for event in run:
                    if transcript is not None:
                        transcript.show(event)
            finally:
                if transcript is not None:
                    transcript.end()
        return run.result


@contextmanager
def stop_on_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """Inside the block the first Ctrl-C calls `stop`; a second one interrupts the program as ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_interrupt(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        stop()

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def turn_rows(usage: Usage) -> list[dict[str, Any]]:
    """The turns as JSON rows. Seconds of drafting count as decoding."""
    return [
        {
            "reused": turn.reused,
            "new": turn.new,
            "recomputed": turn.recomputed,
            "generated": turn.generated,
            "prefill_s": round(turn.prefill_s, 6),
            "decode_s": round(turn.draft_s + turn.decode_s, 6),
        }
        for turn in usage.turns
    ]


def ask_person(console: Console) -> Callable[[ApprovalRequest], bool]:
    """Asks on the terminal before a command runs. Anything but yes is no."""

    def approve(request: ApprovalRequest) -> bool:
        shown = ", ".join(f"{name}={value!r}" for name, value in request.call.arguments.items())
        console.print(f"{request.call.name}({shown})")
        try:
            return input("run it? [y/N] ").strip().lower() in ("y", "yes")
        except EOFError:
            return False

    return approve


def existing_folder(path: str) -> Path:
    """The folder as an absolute path; FileNotFoundError or NotADirectoryError with its name when it is none."""
    folder = Path(path)
    if not folder.exists():
        raise FileNotFoundError(errno.ENOENT, "no such folder", path)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
    return folder.resolve()
