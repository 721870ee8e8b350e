"""What a run gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic

from typing_extensions import TypeVar

from ..calls import Call
from ..conversation import Conversation
from ..limits import Usage
from ..tools import ToolApproved, ToolDenied

__all__ = ["DeferredCall", "DeferredToolRequests", "DeferredToolResults", "RunResult"]

Output = TypeVar("Output", default=str)


@dataclass(frozen=True, slots=True)
class DeferredCall:
    """A call that waits for a person. `reason` and `metadata` are what the tool said of it."""

    call_id: str
    call: Call
    reason: str = ""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.call.name

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that the model gave."""
        return self.call.arguments


@dataclass(frozen=True, slots=True)
class DeferredToolRequests:
    """The output of a run that stopped for decisions. Run again with the conversation and a DeferredToolResults; it may
    be saved and loaded in between. Calls beside these that could run have run; their results are kept."""

    approvals: tuple[DeferredCall, ...]


@dataclass(frozen=True, slots=True)
class DeferredToolResults:
    """Decisions by call id: True or ToolApproved (with other arguments, if you like), False or ToolDenied (with a
    message for the model). A call without a decision stays deferred."""

    approvals: Mapping[str, bool | ToolApproved | ToolDenied] = field(
        default_factory=dict[str, "bool | ToolApproved | ToolDenied"]
    )


@dataclass(frozen=True, slots=True)
class RunResult(Generic[Output]):
    """`output` is the model's answer, or DeferredToolRequests when a person has to decide first. `usage` has one entry
    a model turn of this run. `conversation` goes on with the next run. `finish_reason` is that of the last reply:
    "end", or "length" when `max_tokens` cut the answer, or "deferred"."""

    output: Output
    usage: Usage
    conversation: Conversation = field(repr=False)
    finish_reason: str = "end"
    reasoning: str = field(default="", repr=False)
    first_message: int = field(default=0, repr=False)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The whole conversation in OpenAI message form."""
        return self.conversation.messages

    @property
    def new_messages(self) -> list[dict[str, Any]]:
        """What this run appended: the prompt, replies and results."""
        return self.conversation.messages[self.first_message :]

    @property
    def deferred(self) -> DeferredToolRequests | None:
        """The calls that wait for a person, if that is why the run stopped."""
        return self.output if isinstance(self.output, DeferredToolRequests) else None
