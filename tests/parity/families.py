"""Our templates by the file name of the official one."""

from __future__ import annotations

from agentloop.templates import Qwen38
from agentloop.templates.base import Template
from agentloop.templates.lfm2_5 import Lfm25
from agentloop.templates.qwen3_6 import Qwen35, Qwen36

__all__ = ["FAMILIES"]

FAMILIES: dict[str, Template] = {
    "qwen3_8": Qwen38(),
    "qwen3_6": Qwen36(),
    "qwen3_5_think": Qwen35(),
    "lfm2_2_5": Lfm25(),
}
