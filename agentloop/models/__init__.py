"""The embedded default model and a block drafter for it: package data, so that everything runs without a download.

README.md beside this file is their card: origin, data, size and measured scores.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["default_drafter_path", "default_model_path"]


def default_model_path() -> Path:
    """The GGUF file of the embedded model. `Engine.load()` without a path loads it."""
    return Path(__file__).with_name("tiny-hybrid.gguf")


def default_drafter_path() -> Path:
    """The GGUF file of a DSpark block drafter for the embedded model, and for no other: a `draft_path`."""
    return Path(__file__).with_name("tiny-dspark.gguf")
