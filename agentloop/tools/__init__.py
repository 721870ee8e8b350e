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
from agentloop.tools.toolset import CombinedToolset, FunctionToolset, Toolset, collect_tools
from agentloop.tools.workspace import Workspace, workspace_tools

__all__ = [
    "ApprovalRequest",
    "CombinedToolset",
    "FunctionToolset",
    "ResultCap",
    "Tool",
    "ToolApproved",
    "ToolDenied",
    "ToolEvent",
    "ToolResult",
    "Toolset",
    "TransientRetry",
    "Workspace",
    "collect_tools",
    "result_text",
    "run_calls",
    "tool",
    "workspace_tools",
]
