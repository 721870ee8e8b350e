"""What a run streams, in order. Every event is a frozen dataclass with a literal `kind`.

Compacted?                      the history was made shorter first
TurnStarted                     a model turn begins: its new tokens are about to be decoded
PrefillProgress*                between batches of a long prefill
(ReasoningDelta | TextDelta | CallDelta | BudgetForced)*    as the model writes
CallReady*                      a complete call, validated or with the error that forbids it
TurnEnded                       with the turn's usage
(ToolStarted | ToolProgress | ToolFinished)*    tools of one turn may interleave; results are appended in call order
Retry*                          the model is told of something to do again
... next turn ...
RunEnded                        the result, last
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Union

from .calls import Call
from .limits import TurnUsage

if TYPE_CHECKING:
    from .agent import RunResult

__all__ = [
    "BudgetForced",
    "CallDelta",
    "CallReady",
    "Compacted",
    "Event",
    "PrefillProgress",
    "ReasoningDelta",
    "Retry",
    "RunEnded",
    "TextDelta",
    "ToolFinished",
    "ToolProgress",
    "ToolStarted",
    "TurnEnded",
    "TurnStarted",
]


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A model turn begins. `step` counts from 1; `reused` tokens are in the live state, `new` ones go in now."""

    step: int
    reused: int
    new: int
    kind: Literal["turn_started"] = field(default="turn_started", init=False)


@dataclass(frozen=True, slots=True)
class Compacted:
    """The history was made shorter before this turn: from `before` tokens to `after`."""

    before: int
    after: int
    kind: Literal["compacted"] = field(default="compacted", init=False)


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    """`done` of `total` tokens of this prefill are decoded."""

    done: int
    total: int
    kind: Literal["prefill_progress"] = field(default="prefill_progress", init=False)


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of the model's reasoning."""

    text: str
    kind: Literal["reasoning_delta"] = field(default="reasoning_delta", init=False)


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the model's answer."""

    text: str
    kind: Literal["text_delta"] = field(default="text_delta", init=False)


@dataclass(frozen=True, slots=True)
class CallDelta:
    """More of the call at `index` (from 0 in its turn), as the model writes it. `name` is None until it is complete."""

    index: int
    name: str | None
    text: str
    kind: Literal["call_delta"] = field(default="call_delta", init=False)


@dataclass(frozen=True, slots=True)
class CallReady:
    """The call at `index` is read. It runs only when `call.status` is "ok"; `call_id` names it from here on."""

    index: int
    call: Call
    call_id: str
    kind: Literal["call_ready"] = field(default="call_ready", init=False)


@dataclass(frozen=True, slots=True)
class BudgetForced:
    """The reasoning budget closed the reasoning behind `reasoning_tokens` tokens."""

    reasoning_tokens: int
    reason: str
    kind: Literal["budget_forced"] = field(default="budget_forced", init=False)


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """A model turn ended."""

    step: int
    usage: TurnUsage
    kind: Literal["turn_ended"] = field(default="turn_ended", init=False)


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool runs now."""

    call_id: str
    name: str
    arguments: dict[str, Any]
    kind: Literal["tool_started"] = field(default="tool_started", init=False)


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """What a running tool reported through `RunContext.progress`."""

    call_id: str
    name: str
    message: str
    kind: Literal["tool_progress"] = field(default="tool_progress", init=False)


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A call has its result: `content` is what the model reads. `outcome` is "ok", "retry", "failed", "error",
    "timeout", "denied" or "deferred"; a call that was refused before it ran is "retry" with 0 seconds."""

    call_id: str
    name: str
    content: str
    outcome: str
    seconds: float
    kind: Literal["tool_finished"] = field(default="tool_finished", init=False)


@dataclass(frozen=True, slots=True)
class Retry:
    """The model is asked to do something again. `reason` is a short name, `message` what the model reads; `attempt`
    of `limit` tries are used."""

    reason: str
    message: str
    attempt: int
    limit: int
    kind: Literal["retry"] = field(default="retry", init=False)


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run's result; always the last event of a run that has one."""

    result: RunResult[Any]
    kind: Literal["run_ended"] = field(default="run_ended", init=False)


Event = Union[  # noqa: UP007  (a name that isinstance and get_args can take apart on 3.10)
    Compacted,
    TurnStarted,
    PrefillProgress,
    ReasoningDelta,
    TextDelta,
    CallDelta,
    CallReady,
    BudgetForced,
    TurnEnded,
    ToolStarted,
    ToolProgress,
    ToolFinished,
    Retry,
    RunEnded,
]
"""Any event of a run."""
