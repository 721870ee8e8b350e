"""What a conversation records of its turns."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..calls import Call
from ..limits import TurnUsage

if TYPE_CHECKING:
    from ..templates import Reply, ReplyEnd

__all__ = ["Difference", "ReplyFinish", "Turn", "TurnReply", "find_difference"]

ReplyFinish = Literal["end", "length", "stopped", "context", "cancelled", "failed", "prefilled"]
"""How a reply ended: as `FinishReason` of the engine, or `cancelled`, `failed` by an error of the
engine, `prefilled` where none was made."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One model turn: the messages appended for it, and the reply.

    Messages `[first, reply)` of the conversation are what was appended, message `reply` is the model's. Tokens
    `[start, prompt_end)` spell what was appended, `[prompt_end, end)` the reply.
    """

    first: int
    reply: int
    start: int
    prompt_end: int
    end: int
    ended: ReplyEnd
    finish: ReplyFinish
    usage: TurnUsage = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Turn:
        """Read `to_dict`; raises TypeError or KeyError for anything else."""
        return cls(**{**data, "usage": TurnUsage(**data["usage"])})


@dataclass(frozen=True, slots=True)
class TurnReply:
    """A reply as it was read. `call_ids` name its calls in the messages, in the same order. `message` is the assistant
    message that was recorded, in OpenAI form. `stop_reason` says why steering ended it, when `finish` is "stopped".
    """

    reply: Reply
    call_ids: tuple[str, ...]
    message: dict[str, Any]
    finish: ReplyFinish
    stop_reason: str | None
    usage: TurnUsage

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls in order; only those with status "ok" may run."""
        return self.reply.calls

    @property
    def content(self) -> str:
        """The answer's text."""
        return self.reply.content

    @property
    def reasoning(self) -> str:
        """The reasoning's text."""
        return self.reply.reasoning


class Difference(NamedTuple):
    """Where a conversation's own bytes part from the template's text of its messages: `at` is the byte, `own` and
    `rendered` are what stands there on, up to 80 bytes."""

    at: int
    own: bytes
    rendered: bytes


def find_difference(own: bytes, rendered: bytes, *, complete: bool) -> Difference | None:
    """Where `own` is no beginning of `rendered`, or, when it is `complete`, not all of it but white space."""
    if rendered.startswith(own) and not (complete and rendered[len(own) :].strip()):
        return None
    shorter = min(len(own), len(rendered))
    at = next((i for i, (a, b) in enumerate(zip(own, rendered, strict=False)) if a != b), shorter)
    return Difference(at, own[at : at + 80], rendered[at : at + 80])
