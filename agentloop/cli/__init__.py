"""The `agentloop` command: demo, chat, run, inspect and bench."""

from __future__ import annotations

from .entry import main

__all__ = ["main"]
