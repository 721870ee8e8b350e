"""What is given to an agent or a run and cannot be meant is refused at once, with what to pass instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from ..conversation import Compaction, Conversation
from ..engine.seam import CancelToken, EngineLike, Sampling
from ..exceptions import ConversationError, InvalidOption
from ..limits import Usage, UsageLimits
from ..tools import ResultCap, Tool
from ..tools.toolset import Toolset
from .result import DeferredToolResults, RunResult

__all__ = [
    "OF_AGENTS",
    "check_conversation",
    "check_engine",
    "check_prompt",
    "check_run",
    "check_settings",
    "tool_list",
]

_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "limits": ((UsageLimits,), "UsageLimits(request_limit=5)"),
    "usage": ((Usage,), "Usage()"),
    "sampling": ((Sampling,), "Sampling(temperature=0.7)"),
    "cancel": ((CancelToken,), "CancelToken()"),
    "deferred_tool_results": ((DeferredToolResults,), "DeferredToolResults({call_id: True})"),
    "compaction": ((Compaction,), "Compaction()"),
    "result_cap": ((ResultCap, int), "a number of tokens, or a ResultCap"),
    "max_tokens": ((int,), "a number of tokens"),
    "retries": ((int,), "a number"),
    "tool_timeout": ((int, float), "a number of seconds"),
    "save_to": ((str, PathLike), "the name of a file"),
    "name": ((str,), "text"),
    "strict": ((bool,), "True or False"),
}
OF_AGENTS = (
    "sampling",
    "limits",
    "max_tokens",
    "retries",
    "approve",
    "result_cap",
    "tool_timeout",
    "compaction",
    "strict",
    "name",
)
"""The settings of an agent that are checked by their types."""

_CALLED = ("approve", "on_event")
_LEAST = {"max_tokens": 1, "retries": 0, "result_cap": 1}


def check_settings(settings: Mapping[str, Any]) -> None:
    """Settings by name; None is fine where there is a default. Raises InvalidOption, and ValueError for a number that
    is too small."""
    for name, value in settings.items():
        if value is None and name not in ("retries", "strict"):
            continue
        if name in _CALLED:
            if not callable(value):
                raise InvalidOption(name, value, "a function")
            continue
        kinds, example = _KINDS[name]
        is_flag = isinstance(value, bool) and bool not in kinds
        if is_flag or not isinstance(value, kinds):
            raise InvalidOption(name, value, example)
        if name in _LEAST and isinstance(value, int) and value < _LEAST[name]:
            raise ValueError(f"{name} must be >= {_LEAST[name]}, not {value}")


def check_run(options: Mapping[str, Any], known: Iterable[str]) -> None:
    """The options of one run. Raises InvalidOption besides for a name that there is not, and ConversationError for a
    file that could not be written after the first step."""
    unknown = sorted(options.keys() - set(known))
    if unknown:
        raise InvalidOption("option", unknown[0], f"one of {', '.join(sorted(known))}")
    check_settings({name: value for name, value in options.items() if name != "conversation"})
    check_conversation(options.get("conversation"))
    if (place := options.get("save_to")) is not None and not Path(place).absolute().parent.is_dir():
        raise ConversationError(f"there is no folder {Path(place).absolute().parent} to save {Path(place).name} in")


def check_engine(engine: Any) -> None:
    """Raises InvalidOption for what is no engine."""
    if engine is None or isinstance(engine, EngineLike):
        return
    text = isinstance(engine, (str, PathLike))
    raise InvalidOption("engine", engine, f"Engine.load({str(engine)!r})" if text else "Engine.load(path)")


def check_conversation(conversation: Any) -> None:
    """Raises InvalidOption for what is no conversation."""
    if conversation is None or isinstance(conversation, Conversation):
        return
    if isinstance(conversation, RunResult):
        example = "result.conversation"
    elif isinstance(conversation, (str, PathLike)):
        example = f"Conversation.load({str(conversation)!r}, engine)"
    elif isinstance(conversation, Sequence):
        example = "Conversation(engine, messages=[...])"
    else:
        example = "a Conversation"
    raise InvalidOption("conversation", conversation, example)


def check_prompt(prompt: Any) -> None:
    """Raises InvalidOption for what is neither text nor a list of parts."""
    if prompt is not None and not isinstance(prompt, (str, list)):
        raise InvalidOption("prompt", prompt, "text, or a list of parts such as {'type': 'text', 'text': ...}")


def tool_list(tools: Any) -> list[Any]:
    """The tools one by one. Raises InvalidOption for one tool that stands in no list, and for what is no tool."""
    if isinstance(tools, (Tool, Toolset)) or callable(tools):
        name = getattr(tools, "name", None) or getattr(tools, "__name__", type(tools).__name__)
        raise InvalidOption("tools", tools, f"a list: tools=[{name}]")
    if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
        raise InvalidOption("tools", tools, "a list of functions, Tools and Toolsets")
    found = list(tools)
    for tool in found:
        if not isinstance(tool, (Tool, Toolset)) and not callable(tool):
            raise InvalidOption("a tool", tool, "a function, a Tool or a Toolset")
    return found
