"""A tool call as the model wrote it and as far as it was understood."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Call", "CallStatus"]

CallStatus = Literal["ok", "incomplete", "malformed", "unknown_tool", "invalid_arguments"]
"""`ok`: complete, closed, declared and valid; only such a call may run. `incomplete`: cut by a limit or a cancel.
`malformed`: not the grammar of a call, or ambiguous. `unknown_tool`: no such tool is declared.
`invalid_arguments`: the arguments do not fit the tool's schema."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call. `raw` holds the bytes that the model wrote, decoded as UTF-8.

    `arguments` holds JSON values typed by the tool's schema; where no schema is known, every value is the text between
    its tags. `error` says, for any status but `ok`, what is wrong in words that the model can act on. `repairs` names
    what a tolerant reader had to mend ("missing_opener", "json_style", ...); empty for a canonical call.
    """

    name: str
    arguments: dict[str, Any]
    status: CallStatus = "ok"
    raw: str = ""
    error: str | None = None
    repairs: tuple[str, ...] = field(default=())
