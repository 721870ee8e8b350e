"""Messages to text and back. Knows no engine."""

from __future__ import annotations

from .base import ReplyEnd, Segment, StrictCalls, Template, join
from .budget import ForcedClose, ReasoningBudget
from .detect import for_model
from .gguf import JinjaTemplate
from .lfm2_5 import Lfm25
from .loops import Loop, LoopDetector
from .qwen3_6 import Qwen35, Qwen36
from .qwen3_8 import Qwen38
from .reply import Reply, ReplyReader
from .sandbox import TemplateRefused

__all__ = [
    "ForcedClose",
    "JinjaTemplate",
    "Lfm25",
    "Loop",
    "LoopDetector",
    "Qwen35",
    "Qwen36",
    "Qwen38",
    "ReasoningBudget",
    "Reply",
    "ReplyEnd",
    "ReplyReader",
    "Segment",
    "StrictCalls",
    "Template",
    "TemplateRefused",
    "for_model",
    "join",
]
