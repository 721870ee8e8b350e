"""Python callables and the calls of a model: schemas, typed arguments, execution. Knows no token."""

from agentloop.tools.execute import (
    ApprovalRequest,
    ToolApproved,
    ToolDenied,
    ToolEvent,
    ToolResult,
    run_calls,
)
from agentloop.tools.results import ResultCap, result_text
from agentloop.tools.tool import Tool, TransientRetry, tool

__all__ = [
    "ApprovalRequest",
    "ResultCap",
    "Tool",
    "ToolApproved",
    "ToolDenied",
    "ToolEvent",
    "ToolResult",
    "TransientRetry",
    "result_text",
    "run_calls",
    "tool",
]
