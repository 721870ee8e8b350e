"""RunContext: the one thing that a tool receives of the run that calls it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from .limits import Usage, UsageLimits

if TYPE_CHECKING:
    from .conversation import Conversation

__all__ = ["RunContext"]

Deps = TypeVar("Deps", default=Any)


@dataclass(slots=True)
class RunContext(Generic[Deps]):
    """Write it as the first parameter's annotation, `ctx: RunContext[MyDeps]`, and a tool gets it; the model never sees
    that parameter.

    `deps` is what `run(deps=...)` was given. `usage` and `limits` are the run's own; an agent called as a tool passes
    them on. `step` counts model turns from 1, `retry` the failed tries of this tool so far. `tool_call_approved` is
    True when a person approved this call.
    """

    deps: Deps
    usage: Usage = field(default_factory=Usage)
    limits: UsageLimits | None = None
    conversation: Conversation | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    retry: int = 0
    step: int = 0
    tool_call_approved: bool = False
    on_progress: Callable[[str], None] | None = field(default=None, repr=False)

    def progress(self, message: str) -> None:
        """Tell whoever watches the run how far this tool is: a ToolProgress event. Safe from any thread."""
        if self.on_progress is not None:
            self.on_progress(message)
