"""What can be set for one run, and for one tool of an agent."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

if TYPE_CHECKING:
    from ..conversation import Conversation
    from ..engine.seam import CancelToken, Sampling
    from ..events import Event
    from ..limits import Usage, UsageLimits
    from ..tools import TransientRetry
    from .result import DeferredToolResults
    from .run import Approve

__all__ = ["CallOptions", "RunOptions", "ToolOptions"]


class RunOptions(TypedDict, total=False):
    """Keyword arguments of `run`, `run_sync` and `stream`.

    `conversation`: go on with it; its instructions and declared tools stay as they are. `limits`, `sampling`,
    `max_tokens`, `approve`: instead of the agent's. `usage`: count into this one, as a tool does that runs another
    agent. `cancel`: `cancel.cancel()`, from any thread, stops the run. `on_event` is called with each event on the
    event loop's thread. `deferred_tool_results`: decisions on the calls that the conversation waits for. `save_to`:
    write the conversation to this file after every step, so that a killed process loses nothing.
    """

    conversation: Conversation | None
    limits: UsageLimits | None
    usage: Usage | None
    sampling: Sampling | None
    max_tokens: int | None
    cancel: CancelToken | None
    on_event: Callable[[Event], None] | None
    approve: Approve | None
    deferred_tool_results: DeferredToolResults | None
    save_to: str | PathLike[str] | None


class CallOptions(TypedDict, total=False):
    """How a tool may be called; see `Tool`."""

    timeout: float | None
    sequential: bool
    requires_approval: bool
    max_retries: int
    strict: bool
    transient: TransientRetry | None


class ToolOptions(CallOptions, total=False):
    """Keyword arguments of `agent.tool` and `agent.tool_plain`; see `Tool`."""

    name: str | None
    description: str | None
