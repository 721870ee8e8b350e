"""`agentloop trace FILE`: one HTML page of a saved conversation."""

from __future__ import annotations

from ..trace import write_page

__all__ = ["trace"]


def trace(saved: str, *, out: str | None) -> int:
    """Write the page and say where it is."""
    print(f"written to {write_page(saved, out)}")
    return 0
