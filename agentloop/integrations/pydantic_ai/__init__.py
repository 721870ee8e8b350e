"""pydantic-ai agents on agentloop's engine: `Agent(AgentLoopModel(Engine.load()))`. Needs the extra `pydantic-ai`.

pydantic-ai sends the whole history with every request. This model recognises the histories that it has answered before
and appends: a request that extends one decodes its own tokens and nothing else, on hybrid models too.
"""

from __future__ import annotations

try:
    import pydantic_ai as _  # noqa: F401
except ImportError as _error:
    raise ImportError(
        "pydantic-ai is not installed; run in agentloop's source folder: pip install '.[pydantic-ai]'"
    ) from (_error)

from .model import AgentLoopModel
from .settings import AgentLoopModelSettings

__all__ = ["AgentLoopModel", "AgentLoopModelSettings"]
