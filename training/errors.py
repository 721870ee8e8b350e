"""What agentloop itself says of a call that went wrong, in its exact words. A test compares with the real tools."""

from __future__ import annotations

from collections.abc import Sequence

from agentloop.arguments import check_call
from agentloop.calls import Call
from agentloop.exceptions import ModelRetry, ToolFailed
from agentloop.tools.execute import ToolDenied, error_line
from agentloop.tools.workspace import _not_found

from .schemas import schema_of

__all__ = [
    "DENIED",
    "bad_call",
    "directory_missing",
    "edited",
    "failed",
    "file_missing",
    "is_directory",
    "stopped",
    "timed_out",
]

DENIED = ToolDenied().message


def failed(text: str) -> str:
    """The line that the model reads when a tool fails with `text`."""
    return error_line(ToolFailed(text))


def file_missing(path: str, near: str | None) -> str:
    """`read_file` on a path that does not exist; `near` is the most alike file of the workspace."""
    return failed(f"file not found: {path}." + (f" Did you mean {near}?" if near else ""))


def directory_missing(path: str, near: str | None) -> str:
    """`list_files` on a folder that does not exist."""
    return failed(f"directory not found: {path}." + (f" Did you mean {near}?" if near else ""))


def is_directory(path: str) -> str:
    """`read_file` on a folder."""
    return failed(f"{path} is a directory, not a file.")


def timed_out(tool: str, seconds: float = 60) -> str:
    """A tool that took too long."""
    return f"Error: {tool} timed out after {seconds:g} s."


def stopped(seconds: float = 60) -> str:
    """`run_tests` when the tests took too long."""
    return failed(f"the tests did not finish within {seconds:g} s and were stopped")


def edited(path: str, text: str, old: str) -> str:
    """What `edit_file` says when the file's `text` holds `old` once, more than once, or not at all."""
    lines, at = [], text.find(old)
    while at >= 0:
        lines.append(text.count("\n", 0, at) + 1)
        at = text.find(old, at + len(old))
    if not lines:
        return failed(_not_found(path, old, text))
    if len(lines) > 1:
        count = f"old occurs {len(lines)} times in {path} (lines {', '.join(map(str, lines[:10]))})"
        return failed(f"{count}; include the lines around it to make it unique")
    return f"Edited {path} at line {lines[0]}."


def bad_call(name: str, arguments: dict[str, str], declared: Sequence[str]) -> str:
    """The answer to a call that does not fit the schemas of the `declared` tools. Raises ValueError if it fits."""
    checked = check_call(Call(name, dict(arguments)), [schema_of(tool) for tool in declared])
    if checked.status == "ok":
        raise ValueError(f"the call of {name} with {arguments} is valid; there is no error to word")
    return error_line(ModelRetry(checked.error or ""))
