"""Reading a reply: the types, the incremental reader, and the reading of a whole reply at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .reader import END_TAGS, TAGS, ReplyReader
from .reply_types import (
    CallDelta,
    CallEnd,
    FinishReason,
    Phase,
    PhaseChange,
    ReasoningDelta,
    Reply,
    ReplyEvent,
    TextDelta,
)

__all__ = [
    "CallDelta",
    "CallEnd",
    "FinishReason",
    "Phase",
    "PhaseChange",
    "ReasoningDelta",
    "Reply",
    "ReplyEvent",
    "ReplyReader",
    "TextDelta",
    "parse_reply",
]

_TEXT = -1  # no vocabulary has this id
_TAG_IDS = {tag: -2 - i for i, tag in enumerate(TAGS)}
_SPLIT = re.compile("(" + "|".join(re.escape(tag) for tag in TAGS if tag not in END_TAGS) + ")")
_END = re.compile(r"(?:" + "|".join(map(re.escape, sorted(END_TAGS))) + r")\s*\Z")


def parse_reply(
    text_or_ids: str | Sequence[int],
    tools: Sequence[Mapping[str, Any]] | None = None,
    *,
    vocab: Any = None,
    thinking: bool = True,
) -> Reply:
    """Read a whole reply, from behind the generation prompt up to its end of turn (with or without it).

    A `str`: tags are recognised wherever they are spelled, the end of turn at the very end only. Ids: `vocab` (with
    `decode` and `special_tokens`) tells tags from text that looks like them. Arguments are typed by `tools`; without
    tools they are the text as it is. `thinking`: the reply starts inside reasoning. Raises ValueError for ids without
    a vocabulary.
    """
    if isinstance(text_or_ids, str):
        text = _END.sub("", text_or_ids)
        reader = ReplyReader({i: tag for tag, i in _TAG_IDS.items()}, tools, thinking=thinking)
        for i, part in enumerate(_SPLIT.split(text)):
            reader.feed(_TAG_IDS[part] if i % 2 else _TEXT, part.encode("utf-8", "surrogatepass"))
        return reader.finish("end")
    if vocab is None:
        raise ValueError("ids need a vocabulary: parse_reply(ids, vocab=engine.vocab)")
    reader = ReplyReader(vocab.special_tokens(), tools, thinking=thinking)
    for token in text_or_ids:
        reader.feed(token, vocab.decode([token]))
    return reader.finish("end")
