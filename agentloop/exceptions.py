"""The errors that agentloop raises, in one tree; arguments out of range are a ValueError.

    AgentLoopError
    ├── EngineError
    │   ├── ModelLoadError          the file cannot become a model
    │   ├── ContextFull             the tokens do not fit; nothing was decoded
    │   ├── DecodeError             llama.cpp refused or failed a batch; the state was repaired
    │   ├── DecodeCancelled         a cancel took effect; the sequence can go on
    │   ├── SnapshotError           saved state that cannot be used
    │   ├── ConstraintError         a grammar that does not compile, or that no token can continue
    │   ├── SteeringError           (a ValueError too) steering answered what the engine cannot use
    │   └── ClosedError             the engine or the sequence was closed before
    ├── TemplateError
    │   ├── TemplateNotFound        the model file carries no chat template
    │   ├── InvalidKnob             a knob of the template with a value that it does not have
    │   ├── InvalidMessage          a message that the template would refuse; names its index
    │   └── TemplateRenderError     the template itself raised or went over its bounds
    ├── ToolError
    │   ├── ToolDefinitionError     a callable that cannot become a tool
    │   ├── ToolPathError           a path outside the workspace
    │   ├── ArgumentsError          arguments that do not fit the tool's schema
    │   ├── ToolServerError         a tool server that cannot be started, reached or understood
    │   ├── ModelRetry              raised in a tool: the model should try again
    │   ├── ToolFailed              raised in a tool: the call failed, the model is told
    │   └── ApprovalRequired        raised in a tool: ask a person first
    ├── RunError                    carries the conversation, which can go on
    │   ├── ConversationFull        (a ContextFull too) what a run was to append does not fit
    │   ├── UsageLimitExceeded
    │   ├── UnexpectedModelBehavior
    │   └── RunCancelled
    ├── ConversationError           a conversation was asked for something that its state forbids
    ├── InvalidOption               (a TypeError too) an argument of a type that cannot be meant
    └── MissingExtra                (an ImportError too) an optional package is not installed

Each message says what happened and what to do next; the attributes carry the same as data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = [
    "AgentLoopError",
    "ApprovalRequired",
    "ArgumentsError",
    "ClosedError",
    "ConstraintError",
    "ContextFull",
    "ConversationError",
    "ConversationFull",
    "DecodeCancelled",
    "DecodeError",
    "EngineError",
    "InvalidKnob",
    "InvalidMessage",
    "InvalidOption",
    "MissingExtra",
    "ModelLoadError",
    "ModelRetry",
    "RunCancelled",
    "RunError",
    "SnapshotError",
    "SteeringError",
    "TemplateError",
    "TemplateNotFound",
    "TemplateRenderError",
    "ToolDefinitionError",
    "ToolError",
    "ToolFailed",
    "ToolPathError",
    "ToolServerError",
    "UnexpectedModelBehavior",
    "UsageLimitExceeded",
]


class AgentLoopError(Exception):
    """The root of the tree: `except AgentLoopError` catches everything that agentloop raises."""


class EngineError(AgentLoopError):
    """Something below the tokens: a model file, a context, a decode, a snapshot."""


class ModelLoadError(EngineError):
    """A model file that cannot be loaded.

    `path` is the file, `reason` one of `missing`, `not_a_file`, `not_gguf`, `truncated`,
    `unsupported_version`, `vocabulary_only`, `no_decoder`, `draft_mismatch`, `refused`.
    """

    def __init__(self, path: str | Path, reason: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = str(path)
        self.reason = reason


class ContextFull(EngineError):
    """`needed` tokens were to be decoded where only `available` of `n_ctx` are free. Nothing was decoded."""

    def __init__(self, needed: int, available: int, n_ctx: int) -> None:
        super().__init__(
            f"{needed} tokens do not fit: {available} of {n_ctx} context tokens are free. "
            "Shorten the input, compact the conversation, or load the engine with a larger n_ctx."
        )
        self.needed = needed
        self.available = available
        self.n_ctx = n_ctx


class DecodeError(EngineError):
    """llama.cpp answered `code` for a batch that starts at `position`; the sequence stands where it stood before."""

    def __init__(self, code: int, position: int, message: str) -> None:
        super().__init__(f"decode at position {position} failed with code {code}: {message}")
        self.code = code
        self.position = position


class DecodeCancelled(EngineError):
    """A cancel took effect. The sequence is consistent: `extend` or `generate` may be called again."""


class SnapshotError(EngineError):
    """Saved state that cannot be restored; `reason` is `truncated`, `altered`, `foreign`, `version`, `missing`..."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ClosedError(EngineError):
    """The engine or the sequence was closed before this call."""


class ConstraintError(EngineError):
    """A grammar that does not compile, or in which no token can go on."""


class SteeringError(EngineError, ValueError):
    """Steering answered what the engine cannot use; the message says what it must be. The sequence is consistent."""


class InvalidOption(AgentLoopError, TypeError):
    """An argument `option` whose `value` is of a type that cannot be meant; the message says what to pass instead."""

    def __init__(self, option: str, value: object, instead: str) -> None:
        shown = repr(value) if isinstance(value, (str, int, float)) else f"an object of type {type(value).__name__}"
        super().__init__(f"{option} cannot be {shown}; pass {instead}")
        self.option = option
        self.value = value


class TemplateError(AgentLoopError):
    """Messages could not become bytes."""


class TemplateNotFound(TemplateError):
    """The model file carries no chat template and none was given."""


class InvalidKnob(TemplateError, ValueError):
    """A template knob with a name or value that the template does not have; `allowed` lists what it has."""

    def __init__(self, knob: str, value: object, allowed: tuple[object, ...]) -> None:
        super().__init__(f"{knob}={value!r} is not supported; use one of {', '.join(map(repr, allowed))}")
        self.knob = knob
        self.value = value
        self.allowed = allowed


class InvalidMessage(TemplateError):
    """The message at `index` (None: the list as a whole) is one that the template refuses."""

    def __init__(self, index: int | None, message: str) -> None:
        super().__init__(message if index is None else f"message {index}: {message}")
        self.index = index


class TemplateRenderError(TemplateError):
    """The template raised, or went over its bounds of time or size."""


class ToolError(AgentLoopError):
    """Something about a tool."""


class ToolDefinitionError(ToolError):
    """A callable whose signature cannot become a JSON schema; `tool` and `parameter` name the place."""

    def __init__(self, tool: str, message: str, parameter: str | None = None) -> None:
        where = f"tool {tool!r}" if parameter is None else f"tool {tool!r}, parameter {parameter!r}"
        super().__init__(f"{where}: {message}")
        self.tool = tool
        self.parameter = parameter


class ToolPathError(ToolError):
    """A path that leaves the workspace folder."""


class ArgumentsError(ToolError):
    """Arguments that do not fit a tool's JSON schema.

    `path` names the place (`"items[0].price"`, `""` for the arguments as a whole), `rule` the JSON schema keyword that
    refused it (`"type"`, `"required"`, `"enum"`...), `value` what stood there. The message is meant for the model.
    """

    def __init__(self, path: str, rule: str, value: Any, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.rule = rule
        self.value = value


class ToolServerError(ToolError):
    """A tool server (MCP) cannot be started, reached or understood; `server` is its command or address."""

    def __init__(self, server: str, message: str) -> None:
        super().__init__(f"tool server {server}: {message}")
        self.server = server


class ModelRetry(ToolError):
    """Raise it in a tool: the message goes to the model, which should call again; counts against the tool's retries."""


class ToolFailed(ToolError):
    """Raise it in a tool: the message goes to the model as the call's result; not a retry."""


class ApprovalRequired(ToolError):
    """Raise it in a tool: a person has to approve this call first. `metadata` goes to the handler."""

    def __init__(self, message: str = "approval required", metadata: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.metadata = metadata or {}


class RunError(AgentLoopError):
    """A run ended without a result. `conversation` can go on: pass it to the next run. It is None where the run ended
    before it had one."""

    def __init__(self, message: str, conversation: Any = None) -> None:
        super().__init__(message)
        self.conversation = conversation


class ConversationFull(RunError, ContextFull):
    """A run needed more context than there is. What it was to append was taken back or waits; `conversation` can go on
    with something shorter."""

    def __init__(self, needed: int, available: int, n_ctx: int, conversation: Any = None) -> None:
        ContextFull.__init__(self, needed, available, n_ctx)
        self.conversation = conversation


class UsageLimitExceeded(RunError):
    """A limit of `UsageLimits` was reached: `limit` is its name, `value` what it allows, `used` what was used, `more`
    what the next step needs at least."""

    def __init__(self, limit: str, value: float, used: float, conversation: Any = None, *, more: float = 0) -> None:
        needs = f", the next step needs {more:g} more" if more else ""
        super().__init__(
            f"{limit} of {value:g} reached ({used:g} used{needs}). Raise the limit and run again with this "
            "conversation.",
            conversation,
        )
        self.more = more
        self.limit = limit
        self.value = value
        self.used = used


class UnexpectedModelBehavior(RunError):
    """The model went on failing after its retries were used up; `reason` names the kind."""

    def __init__(self, reason: str, message: str, conversation: Any = None) -> None:
        super().__init__(message, conversation)
        self.reason = reason


class RunCancelled(RunError):
    """The run was cancelled. `conversation` is whole and can go on; None where the run had not begun."""


class ConversationError(AgentLoopError):
    """A conversation was asked for something that its state forbids; the message says what to do first."""


class MissingExtra(AgentLoopError, ImportError):
    """`feature` needs optional packages that are not installed: those of the extra `extra` of this package."""

    def __init__(self, extra: str, feature: str) -> None:
        super().__init__(
            f"{feature} needs packages that are not installed; in agentloop's source folder: pip install '.[{extra}]'"
        )
        self.extra = extra
        self.feature = feature
