"""Messages to text and back. Knows no engine."""

from __future__ import annotations

from .base import ReplyEnd, Segment, Template, join
from .detect import for_model
from .qwen3_8 import Qwen38
from .reply import Reply, ReplyReader

__all__ = [
    "Qwen38",
    "Reply",
    "ReplyEnd",
    "ReplyReader",
    "Segment",
    "Template",
    "for_model",
    "join",
]
