"""agentloop's engine inside other frameworks. Each module needs the framework that it is named after."""

from __future__ import annotations

__all__: list[str] = []
