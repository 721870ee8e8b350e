"""Reasoning that a budget closed: what `ReasoningBudget` leaves in the token stream, byte for byte.

Of a reply that was cut, the message holds the key `cut`; the template alone cannot write all of its forms, so
`training.rendering` puts the closing in.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Any

__all__ = ["HURRY", "Cut", "cut_thoughts"]

HURRY = "Considering the limited time by the user, I have to give the solution based on the thinking directly now."
CLOSES = (None, None, None, None, None, HURRY, HURRY, "Time to answer.", "Enough.", "I answer now.")
"""`Thinking.close`; None is its default: no sentence."""

_BORDER = re.compile(r"(?<=\w)(?=\W)|(?<=\d)")


@dataclass(frozen=True)
class Cut:
    """What was thought before the budget closed it; the closing sentence; whether the tag came without a newline, as
    behind the prompt of a budget of 0."""

    kept: str
    close: str | None
    bare: bool

    @property
    def closing(self) -> str:
        """The text between what was kept and the line of the tag."""
        return f"\n{self.close}" if self.close else ""


def cut_thoughts(messages: list[dict[str, Any]], r: random.Random) -> None:
    """One budget for the replies from some place on: reasoning that is longer is cut, shorter one stays as it is."""
    thinking = [m for m in messages if m.get("reasoning_content")]
    if not thinking:
        return
    if r.random() < 0.5:
        thinking = thinking[r.randrange(len(thinking)) :]
    longest = max(len(m["reasoning_content"]) for m in thinking)
    limit = 0 if r.random() < 0.3 else r.randint(1, longest)
    close = r.choice(CLOSES) if limit or r.random() < 0.4 else None
    bare = limit == 0 and r.random() < 0.85
    for message in thinking:
        thought = message["reasoning_content"]
        if len(thought) < limit:
            continue
        kept = _kept(thought, limit, r)
        cut = Cut(kept, close, bare and close is None)
        message["cut"] = cut
        message["reasoning_content"] = (kept + cut.closing).strip()


def _kept(thought: str, limit: int, r: random.Random) -> str:
    """At most `limit` characters, often up to the end of a word or a digit, where tokens end, too."""
    if limit >= len(thought) or r.random() < 0.35:
        return thought[:limit].rstrip()
    places = [match.start() for match in _BORDER.finditer(thought) if match.start() <= limit]
    return thought[: places[-1]].rstrip() if places else ""
