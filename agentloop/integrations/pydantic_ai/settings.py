"""Settings of a request: pydantic-ai's own, those that only this model has, and what they become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings, ToolOrOutput

from ...conversation import Thinking
from ...conversation.constraining import ToolChoice
from ...conversation.thinking import Effort
from ...engine.seam import Sampling

__all__ = ["AgentLoopModelSettings", "read_choice", "read_sampling", "read_thinking"]


class AgentLoopModelSettings(ModelSettings, total=False):
    """pydantic-ai's settings and these. `temperature` 0, the default, is greedy; `thinking` is an effort, and part of a
    conversation's head: another one begins another conversation."""

    agentloop_thinking_budget: int
    """At most so many reasoning tokens a request; then the reasoning is closed and the answer follows."""

    agentloop_min_p: float
    """Tokens with less than this share of the most probable one's probability are left out."""

    agentloop_repetition_penalty: float
    """Larger than 1: tokens that came before get less likely."""

    agentloop_strict: bool
    """False: calls are not held to their schemas while they are written, only validated. A tool's own `strict=False`
    does the same for that tool."""


_SAMPLING = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "agentloop_min_p": "min_p",
    "agentloop_repetition_penalty": "repetition_penalty",
}
_EFFORTS: dict[str, Effort] = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "xhigh",
    "xhigh": "xhigh",
    "max": "xhigh",
}


def read_sampling(settings: Mapping[str, Any], base: Sampling) -> Sampling:
    """`base` with what the settings say. ValueError for values out of their bounds."""
    given = {own: settings[name] for name, own in _SAMPLING.items() if settings.get(name) is not None}
    return replace(base, **given)


def read_thinking(value: Any, base: Thinking) -> Thinking:
    """The unified `thinking` setting: None leaves `base`, True turns it on, False off, an effort sets that."""
    if value is None or (value is True and base.enabled):
        return base
    if value is False:
        return Thinking.of(False)
    if value is True:
        return Thinking()
    return replace(base, enabled=True, effort=_EFFORTS[value])


def read_choice(settings: Mapping[str, Any], params: ModelRequestParameters) -> tuple[ToolChoice, bool]:
    """What may be called, and whether the user themselves asked for a call to be made (else the kind of output did).

    Raises UserError for a choice that names no tool there is.
    """
    value = settings.get("tool_choice")
    functions = {tool.name for tool in params.declared_function_tools}
    outputs = {tool.name for tool in params.output_tools}
    text = params.allow_text_output
    if value is None or value == "auto":
        return ToolChoice(required=not text), False
    if value == "none" or value == []:
        return ToolChoice(bool(outputs) and not text, frozenset(outputs)), False
    if value == "required":
        if not functions:
            raise UserError('tool_choice="required", but the agent has no function tools; use "auto"')
        return ToolChoice(required=True), True
    if isinstance(value, ToolOrOutput):
        names = (set(value.function_tools) & functions) | outputs
        if value.function_tools and not names:
            raise UserError(f"tool_choice names no tool of the agent; it has: {_listed(functions | outputs)}")
        return ToolChoice(not text, frozenset(names)), False
    names = set(value) & (functions | outputs)
    if not names:
        raise UserError(f"tool_choice={value!r} names no tool of the agent; it has: {_listed(functions | outputs)}")
    return ToolChoice(True, frozenset(names)), True


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"
