"""The embedded default model: a few megabytes of package data, so that everything runs without a download.

README.md beside this file is its card: origin, data, size and measured scores.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["default_model_path"]


def default_model_path() -> Path:
    """The GGUF file of the embedded model. `Engine.load()` without a path loads it."""
    return Path(__file__).with_name("tiny-hybrid.gguf")
