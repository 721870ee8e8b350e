"""A conversation over a live sequence: append messages, let the model answer, go back, fork, save, load."""

from __future__ import annotations

from .compaction import Compaction, CompactionResult
from .constraining import ToolChoice
from .conversation import Conversation
from .history import from_openai, to_openai
from .saved import read_saved
from .thinking import Thinking
from .turns import Difference, Turn, TurnReply
from .worker import in_worker

__all__ = [
    "Compaction",
    "CompactionResult",
    "Conversation",
    "Difference",
    "Thinking",
    "ToolChoice",
    "Turn",
    "TurnReply",
    "from_openai",
    "in_worker",
    "read_saved",
    "to_openai",
]
