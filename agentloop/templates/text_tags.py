"""A reader for models whose vocabulary lacks some tags as tokens: they write them as text, and there text decides."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .reader import END_TAGS, TAGS, ReplyReader
from .reply_types import FinishReason, Reply, ReplyEvent

__all__ = ["TextTagReader", "without_opening"]


class TextTagReader(ReplyReader):
    """As ReplyReader; tags that `special` does not hold are recognised in the text. `ends` are further spellings of
    tokens that end a reply. `opens_itself`: the model writes the tag that opens its reasoning, so it is no repair."""

    def __init__(
        self,
        special: Mapping[int, str],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        thinking: bool = True,
        ends: Sequence[str] = (),
        opens_itself: bool = False,
    ) -> None:
        self._opens_itself = opens_itself
        known = {i: min(END_TAGS) if text in ends else text for i, text in special.items()}
        missing = [tag for tag in TAGS if tag not in END_TAGS and tag not in known.values()]
        lowest = min(known, default=0)
        self._text_id = min(lowest, 0) - 1 - len(missing)
        self._text_tags = {tag.encode(): self._text_id + 1 + i for i, tag in enumerate(missing)}
        super().__init__(known | {i: t.decode() for t, i in self._text_tags.items()}, tools, thinking=thinking)
        self._find = re.compile(b"(" + b"|".join(map(re.escape, self._text_tags)) + b")") if missing else None
        self._waiting = b""
        self._known = known

    def feed(self, token_id: int, piece: bytes) -> list[ReplyEvent]:
        """See ReplyReader.feed. Text that may become a tag waits for the next token."""
        if self._find is None:
            return super().feed(token_id, piece)
        events: list[ReplyEvent] = []
        if token_id in self._known:
            events += self._release()
            return events + super().feed(token_id, piece)
        if not self._waiting and b"<" not in piece:
            return super().feed(token_id, piece)
        text = self._waiting + piece
        at = text.rfind(b"<")
        waits = at >= 0 and any(tag != text[at:] and tag.startswith(text[at:]) for tag in self._text_tags)
        text, self._waiting = (text[:at], text[at:]) if waits else (text, b"")
        for part in self._find.split(text):
            if part:
                events += super().feed(self._text_tags.get(part, self._text_id), part)
        return events

    def finish(self, reason: FinishReason) -> Reply:
        """See ReplyReader.finish."""
        self._release()
        reply = super().finish(reason)
        return without_opening(reply) if self._opens_itself else reply

    def _ends(self, token_id: int) -> bool:
        return self._known.get(token_id) in END_TAGS

    def _release(self) -> list[ReplyEvent]:
        waiting, self._waiting = self._waiting, b""
        return super().feed(self._text_id, waiting) if waiting else []


def without_opening(reply: Reply) -> Reply:
    """The reply of a model that opens its reasoning itself: that is no repair."""
    if "reopened_reasoning" not in reply.repairs:
        return reply
    return replace(reply, repairs=tuple(r for r in reply.repairs if r != "reopened_reasoning"))
