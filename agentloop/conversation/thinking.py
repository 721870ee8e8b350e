"""Thinking: how much a model reasons before it answers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

from ..exceptions import InvalidOption

__all__ = ["Effort", "Thinking"]

Effort = Literal["low", "medium", "xhigh"]

_AT_LENGTH = 256
"""Tokens; "xhigh" asks for validated assumptions and considered alternatives, which take more."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """`effort` is asked of the model in words, by its template; None leaves the template's own default.

    `budget` is enforced: at most so many reasoning tokens a turn, then `close` (None: the template's own words) and the
    end of reasoning are put in, and the model goes on with its answer or call. `enabled=False` starts every reply
    behind an empty reasoning, as the template writes it; models know that form better than what `budget=0` leaves.

    Words and budget must not contradict each other: `close` without a budget is a ValueError, and a budget that cuts
    short what `effort="xhigh"` asks for gives a warning.
    """

    effort: Effort | None = "low"
    budget: int | None = None
    close: str | None = None
    enabled: bool = True

    def __post_init__(self) -> None:
        if self.effort not in (None, "low", "medium", "xhigh"):
            raise ValueError(f"effort must be 'low', 'medium', 'xhigh' or None, not {self.effort!r}")
        if self.budget is not None and self.budget < 0:
            raise ValueError(f"budget must be None or a number of tokens >= 0, not {self.budget!r}")
        if self.close is not None and self.budget is None:
            raise ValueError("close is put in when a budget is used up; give budget=... too, or leave close out")
        if self.enabled and self.effort == "xhigh" and self.budget is not None and self.budget < _AT_LENGTH:
            warnings.warn(
                f"effort='xhigh' asks the model to think at length, and budget={self.budget} cuts it short; "
                f"use effort='low', or a budget of {_AT_LENGTH} or more",
                stacklevel=3,
            )

    @classmethod
    def of(cls, value: Thinking | str | bool | None) -> Thinking:
        """Short forms: an effort's name, True or None for the default, False for no reasoning. InvalidOption for
        anything else."""
        if isinstance(value, Thinking):
            return value
        if isinstance(value, str):
            return cls(effort=value)  # type: ignore[arg-type]  # checked when it is made
        if value is not None and not isinstance(value, bool):
            raise InvalidOption("thinking", value, "Thinking(budget=256), an effort's name, or False")
        return cls() if value is None or value else cls(effort=None, enabled=False)

    def knobs(self) -> dict[str, Any]:
        """The template's knobs for it."""
        if not self.enabled:
            return {"enable_thinking": False}
        return {} if self.effort is None else {"reasoning_effort": self.effort}
