"""What demo, chat and run share: an engine from the options, one run that is shown, Ctrl-C that stops it, and a person
who decides on calls."""

from __future__ import annotations

import errno
import signal
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import anyio

from ..agent import Agent, DeferredToolResults, RunResult
from ..conversation import Conversation, Thinking
from ..engine import Engine
from ..exceptions import RunCancelled
from ..limits import Usage, UsageLimits
from ..tools import ApprovalRequest, Tool
from ..tools.samples import calculator, get_weather
from ..tools.workspace import workspace_tools
from .asking import Person
from .transcript import Transcript

__all__ = [
    "KNOWN_TOOLS",
    "existing_folder",
    "follow",
    "load_engine",
    "make_agent",
    "run_with_person",
    "stop_on_interrupt",
    "tools_for",
    "turn_rows",
]

KNOWN_TOOLS = ("list_files", "read_file", "write_file", "edit_file", "run_tests")
"""The workspace tools that the embedded model was trained with; a calculator comes with them."""


def load_engine(
    model: str | None, *, n_ctx: int, threads: int | None, sequences: int = 1, draft: str | None = None
) -> Engine:
    """The engine of a model file, None for the embedded model, and of the file that drafts for it, if any. `sequences`
    live in it. Raises ModelLoadError."""
    return Engine.load(model, n_ctx=n_ctx, threads=threads, sequences=sequences, draft_path=draft)


def tools_for(
    model: str | None, workspace: str | None, *, commands: bool = False, ask: Collection[str] = ()
) -> list[Tool]:
    """The tools a session has. `commands` adds run_command, for models other than the embedded one; a person is asked
    before calls of those in `ask`.

    Raises ToolDefinitionError when the workspace is no folder, ValueError for a name in `ask` that no tool has.
    """
    if workspace is None:
        tools = [calculator, get_weather] if model is None else []
    elif model is None:
        tools = [*workspace_tools(workspace, allow=KNOWN_TOOLS), calculator]
    else:
        tools = [tool for tool in workspace_tools(workspace) if commands or tool.name != "run_command"]
    names = [tool.name for tool in tools]
    for name in ask:
        if name not in names:
            raise ValueError(f"--ask {name}: there is no such tool here; there are: {', '.join(names) or 'none'}")
    return [tool.replaced(requires_approval=True) if tool.name in ask else tool for tool in tools]


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
    prompt: str | None,
    transcript: Transcript | None,
    *,
    conversation: Conversation | None = None,
    usage: Usage | None = None,
    decisions: DeferredToolResults | None = None,
) -> RunResult[Any]:
    """One run to its end, each event shown as it comes; Ctrl-C stops it. Raises what the run raises."""
    usage = Usage() if usage is None else usage
    async with agent.stream(prompt, conversation=conversation, usage=usage, deferred_tool_results=decisions) as run:
        with stop_on_interrupt(run.cancel):
            try:
                async for event in run:
                    if transcript is not None:
                        transcript.show(event)
            finally:
                if transcript is not None:
                    transcript.end()
        return run.result


def run_with_person(
    agent: Agent[None],
    prompt: str | None,
    transcript: Transcript | None,
    person: Person | None,
    *,
    conversation: Conversation | None = None,
    usage: Usage | None = None,
) -> RunResult[Any]:
    """Run until there is an answer. Calls that need a decision end the run; `person` is asked here, on the main thread,
    where Ctrl-C can reach the question, and the run goes on with the decisions. All runs count into one usage, so a
    limit holds for all of them together. Without a person the result may be deferred.

    Raises what runs raise, and RunCancelled, with the conversation, when the question is interrupted.
    """
    usage = Usage() if usage is None else usage
    result = anyio.run(partial(follow, agent, prompt, transcript, conversation=conversation, usage=usage))
    while person is not None and result.deferred is not None:
        try:
            decisions = person.decide(result.deferred)
        except KeyboardInterrupt:
            raise RunCancelled("nobody decided on the call", result.conversation) from None
        more = partial(follow, conversation=result.conversation, usage=usage, decisions=decisions)
        result = anyio.run(partial(more, agent, None, transcript))
    return result


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


def existing_folder(path: str) -> Path:
    """The folder as an absolute path; FileNotFoundError or NotADirectoryError with its name when it is none."""
    folder = Path(path)
    if not folder.exists():
        raise FileNotFoundError(errno.ENOENT, "no such folder", path)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
    return folder.resolve()
