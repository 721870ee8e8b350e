"""Drafters: guesses of the next tokens that cost little. One protocol, see `base`."""

from __future__ import annotations

from .base import Draft, Drafter, DrafterFactory
from .block import BlockFactory
from .block_plan import BlockPlan
from .draft_model import DraftModelFactory
from .mtp import MtpFactory
from .suffix import SuffixFactory

__all__ = [
    "BlockFactory",
    "BlockPlan",
    "Draft",
    "DraftModelFactory",
    "Drafter",
    "DrafterFactory",
    "MtpFactory",
    "SuffixFactory",
]
