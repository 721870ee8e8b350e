"""agentloop's errors as those that a pydantic-ai application catches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic_ai.exceptions import ModelAPIError, ModelContextWindowExceededError, UserError

from ...exceptions import (
    AgentLoopError,
    ClosedError,
    ContextFull,
    ConversationError,
    ModelLoadError,
    TemplateError,
    ToolError,
)

__all__ = ["mapped"]


@contextmanager
def mapped(model_name: str) -> Iterator[None]:
    """Inside the block: a full context is ModelContextWindowExceededError, what the caller can mend is UserError, any
    other error of the engine is ModelAPIError, on which a FallbackModel goes to the next model."""
    try:
        yield
    except ContextFull as error:
        raise ModelContextWindowExceededError(model_name, str(error)) from error
    except (ClosedError, ConversationError, ModelLoadError, TemplateError, ToolError, ValueError) as error:
        raise UserError(f"{model_name}: {error}") from error
    except AgentLoopError as error:
        raise ModelAPIError(model_name, str(error)) from error
