"""What reading a reply gives: events on the way, a `Reply` at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ..calls import Call

__all__ = [
    "CallDelta",
    "CallEnd",
    "FinishReason",
    "Phase",
    "PhaseChange",
    "ReasoningDelta",
    "Reply",
    "ReplyEvent",
    "TextDelta",
]

Phase = Literal["reasoning", "content", "call"]

FinishReason = Literal["end", "length", "stopped", "context", "cancelled", "failed"]
"""Why no more tokens come. All but `end` cut the reply: a call that is not closed and settled is `incomplete` then."""


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More reasoning. The deltas join to the reply's `reasoning`."""

    text: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More content. The deltas join to a beginning of the reply's `content`; text behind calls comes with the reply."""

    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """More of a call, as the model wrote it. `name` is known once the function's tag is complete."""

    index: int
    name: str | None
    text: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """A call was closed and what follows confirms it. What counts is the reply: only what stands behind the call may
    show that a tag in one of its values was no end of it."""

    index: int
    call: Call


@dataclass(frozen=True, slots=True)
class PhaseChange:
    """From here on the reply is in `phase`."""

    phase: Phase


ReplyEvent = ReasoningDelta | TextDelta | CallDelta | CallEnd | PhaseChange


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply as it was understood. `reasoning` and `content` are trimmed of white space, as templates do.

    `reasoning_complete`: the reasoning was closed (always true where there was none to close). `repairs` names what had
    to be mended, in the reply and in its calls; empty for a canonical reply.
    """

    reasoning: str = ""
    content: str = ""
    calls: tuple[Call, ...] = ()
    reasoning_complete: bool = True
    repairs: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Neither content nor a call: nothing that could count as an answer."""
        return not self.content and not self.calls

    def to_message(self) -> dict[str, Any]:
        """The assistant message in OpenAI form: `reasoning_content` where there is reasoning, `tool_calls` (arguments
        as mappings, calls that may not run included) where there are calls."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [
                {"type": "function", "function": {"name": call.name or "unknown", "arguments": dict(call.arguments)}}
                for call in self.calls
            ]
        return message
