"""What renderers share: collecting segments, and JSON as templates write it."""

from __future__ import annotations

import json
from typing import Any

from ..exceptions import TemplateRenderError
from .base import Segment

__all__ = ["Pieces", "to_json"]


class Pieces:
    """Collects segments; neighbours of one kind become one."""

    def __init__(self) -> None:
        self.pieces: list[Segment] = []

    def add(self, text: str, is_scaffold: bool) -> None:
        if not text:
            return
        if self.pieces and self.pieces[-1].is_scaffold == is_scaffold:
            text = self.pieces.pop().text + text
        self.pieces.append(Segment(text, is_scaffold))

    def scaffold(self, text: str) -> None:
        self.add(text, True)

    def data(self, text: str) -> None:
        self.add(text, False)


def to_json(value: Any, what: str) -> str:
    """As transformers' `tojson`: json.dumps without ASCII escapes and without HTML escapes."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise TemplateRenderError(f"{what} cannot be written as JSON: {error}") from error
