"""An agent runtime that owns the conversation as tokens and runs the model in process.

    from agentloop import Agent, Engine, tool

    @tool
    def add(a: int, b: int) -> int:
        "Add two numbers."
        return a + b

    agent = Agent(Engine.load(), tools=[add], instructions="Compute with the tools.")
    result = agent.run_sync("What is 2 + 3?")
    print(result.output, result.usage.recomputed)

What was decoded is the history; nothing that was decoded is ever decoded again.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agent import Agent, AgentRun, DeferredToolRequests, DeferredToolResults, RunResult
    from .calls import Call
    from .context import RunContext
    from .conversation import Compaction, Conversation, Thinking
    from .engine import CancelToken, Engine, Sampling
    from .exceptions import (
        AgentLoopError,
        ApprovalRequired,
        ContextFull,
        ConversationFull,
        ModelLoadError,
        ModelRetry,
        RunCancelled,
        RunError,
        SnapshotError,
        ToolFailed,
        UnexpectedModelBehavior,
        UsageLimitExceeded,
    )
    from .limits import TurnUsage, Usage, UsageLimits
    from .tools import Tool, ToolApproved, ToolDenied, tool

__all__ = [
    "Agent",
    "AgentLoopError",
    "AgentRun",
    "ApprovalRequired",
    "Call",
    "CancelToken",
    "Compaction",
    "ContextFull",
    "Conversation",
    "ConversationFull",
    "DeferredToolRequests",
    "DeferredToolResults",
    "Engine",
    "ModelLoadError",
    "ModelRetry",
    "RunCancelled",
    "RunContext",
    "RunError",
    "RunResult",
    "Sampling",
    "SnapshotError",
    "Thinking",
    "Tool",
    "ToolApproved",
    "ToolDenied",
    "ToolFailed",
    "TurnUsage",
    "UnexpectedModelBehavior",
    "Usage",
    "UsageLimitExceeded",
    "UsageLimits",
    "tool",
]

_HOMES = {
    "agent": ("Agent", "AgentRun", "DeferredToolRequests", "DeferredToolResults", "RunResult"),
    "calls": ("Call",),
    "context": ("RunContext",),
    "conversation": ("Compaction", "Conversation", "Thinking"),
    "engine": ("CancelToken", "Engine", "Sampling"),
    "exceptions": (
        "AgentLoopError",
        "ApprovalRequired",
        "ContextFull",
        "ConversationFull",
        "ModelLoadError",
        "ModelRetry",
        "RunCancelled",
        "RunError",
        "SnapshotError",
        "ToolFailed",
        "UnexpectedModelBehavior",
        "UsageLimitExceeded",
    ),
    "limits": ("TurnUsage", "Usage", "UsageLimits"),
    "tools": ("Tool", "ToolApproved", "ToolDenied", "tool"),
}
"""Where each name is defined. It is imported when it is first asked for: the command line answers at once, and a Ctrl-C
while the libraries load is caught there."""

_PARTS = ("agent", "conversation", "engine", "events", "exceptions", "limits", "templates", "testing", "tools")


def __getattr__(name: str) -> Any:
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is not None:
        value = getattr(import_module(f".{home}", __name__), name)
        globals()[name] = value
        return value
    if name in _PARTS:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
