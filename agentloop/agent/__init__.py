"""The agent: a loop over a conversation, with tools, limits, events and a way to stop."""

from __future__ import annotations

from .agent import Agent
from .options import RunOptions
from .result import DeferredCall, DeferredToolRequests, DeferredToolResults, RunResult
from .stream import AgentRun
from .telemetry import InstrumentationSettings

__all__ = [
    "Agent",
    "AgentRun",
    "DeferredCall",
    "DeferredToolRequests",
    "DeferredToolResults",
    "InstrumentationSettings",
    "RunOptions",
    "RunResult",
]
