"""What a run used, and what it may use.

Tokens are counted where they are paid. `reused` tokens were in the live state when a turn began and cost nothing,
`new` ones were appended and decoded once, `recomputed` rows were decoded a second time (0 in a run that only appends),
`generated` ones were produced by the model or forced by steering.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from .exceptions import UsageLimitExceeded

__all__ = ["TurnUsage", "Usage", "UsageLimits"]


@dataclass(frozen=True, slots=True)
class TurnUsage:
    """Tokens and wall seconds of one model turn: what was appended for it, and the reply.

    `reasoning` is the part of `generated` that lies inside reasoning. `drafted` and `accepted` count speculated tokens
    by drafter name. `finish_reason` is "end", "length", "stopped", "context", "cancelled" or "failed".
    """

    reused: int = 0
    new: int = 0
    recomputed: int = 0
    generated: int = 0
    reasoning: int = 0
    prefill_s: float = 0.0
    draft_s: float = 0.0
    decode_s: float = 0.0
    drafted: Mapping[str, int] = field(default_factory=dict[str, int])
    accepted: Mapping[str, int] = field(default_factory=dict[str, int])
    finish_reason: str = ""

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens per second of drafting and decoding; 0.0 when nothing was generated."""
        seconds = self.decode_s + self.draft_s
        return self.generated / seconds if seconds > 0 else 0.0


@dataclass(slots=True)
class Usage:
    """The model turns of a run (of a conversation, of several agents) and their sums. Grows while a run goes on."""

    turns: list[TurnUsage] = field(default_factory=list[TurnUsage])
    tool_calls: int = 0
    seconds: float = 0.0
    """Wall clock of the run, tools included."""

    @property
    def requests(self) -> int:
        """Model turns."""
        return len(self.turns)

    @property
    def reused(self) -> int:
        return sum(t.reused for t in self.turns)

    @property
    def new(self) -> int:
        return sum(t.new for t in self.turns)

    @property
    def recomputed(self) -> int:
        return sum(t.recomputed for t in self.turns)

    @property
    def generated(self) -> int:
        return sum(t.generated for t in self.turns)

    @property
    def reasoning(self) -> int:
        return sum(t.reasoning for t in self.turns)

    @property
    def prefill_s(self) -> float:
        return sum(t.prefill_s for t in self.turns)

    @property
    def draft_s(self) -> float:
        return sum(t.draft_s for t in self.turns)

    @property
    def decode_s(self) -> float:
        return sum(t.decode_s for t in self.turns)

    @property
    def drafted(self) -> dict[str, int]:
        return _merged(t.drafted for t in self.turns)

    @property
    def accepted(self) -> dict[str, int]:
        return _merged(t.accepted for t in self.turns)

    @property
    def input_tokens(self) -> int:
        """Prompt tokens that had to be decoded: `new` and `recomputed` ones."""
        return self.new + self.recomputed

    @property
    def output_tokens(self) -> int:
        """The same as `generated`."""
        return self.generated

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def incr(self, other: Usage) -> None:
        """Add another run's turns and calls to this one, as for an agent that was called as a tool."""
        self.turns.extend(other.turns)
        self.tool_calls += other.tool_calls

    def __add__(self, other: Usage) -> Usage:
        return Usage([*self.turns, *other.turns], self.tool_calls + other.tool_calls, self.seconds + other.seconds)

    def to_dict(self) -> dict[str, Any]:
        """JSON values: the sums, and `turns` one by one."""
        names = ("requests", "tool_calls", "reused", "new", "recomputed", "generated", "reasoning")
        sums: dict[str, Any] = {name: getattr(self, name) for name in names}
        sums |= {name: getattr(self, name) for name in ("prefill_s", "draft_s", "decode_s", "seconds")}
        turns = [{f.name: _plain(getattr(turn, f.name)) for f in fields(turn)} for turn in self.turns]
        return {**sums, "turns": turns}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Usage:
        """Read `to_dict`; unknown names are left out."""
        known = {f.name for f in fields(TurnUsage)}
        turns = [TurnUsage(**{k: v for k, v in turn.items() if k in known}) for turn in data.get("turns", [])]
        return cls(turns, int(data.get("tool_calls", 0)), float(data.get("seconds", 0.0)))


@dataclass(frozen=True, slots=True)
class UsageLimits:
    """Bounds of one run; None is no bound. Reaching one raises UsageLimitExceeded, which carries the conversation.

    `request_limit` bounds model turns, `tool_calls_limit` calls that were run. Token bounds count what `Usage` counts:
    `input_tokens_limit` prompt tokens that had to be decoded (reused ones are free), `output_tokens_limit` generated
    ones, `reasoning_tokens_limit` those inside reasoning, `total_tokens_limit` in and out together. `seconds_limit` is
    wall clock, tools included. Output bounds are exact: the reply is cut at the token that reaches them. The bound on
    reasoning does not raise: reasoning is closed at it, and the model goes on with its answer.
    """

    request_limit: int | None = 50
    tool_calls_limit: int | None = None
    input_tokens_limit: int | None = None
    output_tokens_limit: int | None = None
    reasoning_tokens_limit: int | None = None
    total_tokens_limit: int | None = None
    seconds_limit: float | None = None

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if value is not None and not value >= 0:
                raise ValueError(f"{f.name} must be None or a number >= 0, not {value!r}")

    def check_before_request(self, usage: Usage, new_tokens: int = 0) -> None:
        """Raise UsageLimitExceeded when another model turn, with `new_tokens` of prompt, would go over a bound."""
        self._check("request_limit", usage.requests, 1)
        self._check("input_tokens_limit", usage.input_tokens, new_tokens)
        self._check("output_tokens_limit", usage.output_tokens, 1)
        self._check("total_tokens_limit", usage.total_tokens, new_tokens + 1)
        self.check_time(usage)

    def check_before_tools(self, usage: Usage, calls: int) -> None:
        """Raise UsageLimitExceeded when `calls` more tool calls would go over the bound."""
        self._check("tool_calls_limit", usage.tool_calls, calls)

    def check_time(self, usage: Usage) -> None:
        """Raise UsageLimitExceeded when the wall clock in `usage.seconds` is over the bound."""
        self._check("seconds_limit", usage.seconds)

    def output_room(self, usage: Usage) -> int | None:
        """How many tokens the model may still generate, None for no bound."""
        rooms: list[int] = []
        if self.output_tokens_limit is not None:
            rooms.append(self.output_tokens_limit - usage.output_tokens)
        if self.total_tokens_limit is not None:
            rooms.append(self.total_tokens_limit - usage.total_tokens)
        return max(0, min(rooms)) if rooms else None

    def _check(self, name: str, used: float, more: float = 0) -> None:
        value = getattr(self, name)
        if value is not None and used + more > value:
            raise UsageLimitExceeded(name, value, used, more=more)


def _merged(counts: Any) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
