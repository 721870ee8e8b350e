"""A saved conversation as one HTML page: a timeline of what was decoded, drafted, accepted and called, and its text."""

from __future__ import annotations

from .page import page, write_page
from .reading import read_trace

__all__ = ["page", "read_trace", "write_page"]
