"""Drafters: guesses of the next tokens that cost little. One protocol, see `base`."""

from __future__ import annotations

from .base import Draft, Drafter, DrafterFactory
from .mtp import MtpFactory
from .suffix import SuffixFactory

__all__ = ["Draft", "Drafter", "DrafterFactory", "MtpFactory", "SuffixFactory"]
