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
