"""The embedded model, loaded when an agent without an engine first needs one, and shared by all of them."""

from __future__ import annotations

import threading

from ..engine.seam import EngineLike

__all__ = ["default_engine"]

_lock = threading.Lock()
_engine: EngineLike | None = None


def default_engine() -> EngineLike:
    """The engine of the embedded model; blocks while it loads. Raises ModelLoadError."""
    global _engine
    with _lock:
        if _engine is None or getattr(_engine, "closed", False):
            from ..engine import Engine

            _engine = Engine.load()
        return _engine
