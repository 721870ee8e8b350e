"""An episode as text: what agentloop's own template writes, in groups that the runtime encodes one by one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agentloop.templates import Qwen38
from agentloop.templates.base import Segment

from .cuts import Cut
from .writing import Effort

__all__ = ["TEMPLATE", "Episode", "Group", "groups", "knobs", "segments"]

TEMPLATE = Qwen38()
_MARK = "\x01"
_CLOSE = "\n</think>\n\n"
_END = "<|im_end|>"


@dataclass
class Episode:
    """Messages in OpenAI form; an assistant message with `learn` false is shown and not learnt, one with a `cut` has
    reasoning that a budget closed."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    effort: Effort
    kinds: list[str] = field(default_factory=list[str])


@dataclass
class Group:
    """Pieces that are encoded together, and whether they are learnt. A reply is a group of its own, as the model writes
    it behind its prompt; reasoning that was cut is one more, and what closes it."""

    pieces: list[Segment]
    learnt: bool


def knobs(effort: Effort) -> dict[str, Any]:
    """The template's keyword arguments for an effort."""
    return {"enable_thinking": False} if effort is None else {"reasoning_effort": effort}


def segments(e: Episode, *, with_system: bool = True) -> list[Segment]:
    """The rendered episode; without its system block if so asked, which saves half of the tokens."""
    joined: list[Segment] = []
    for group in groups(e, with_system=with_system):
        for piece in group.pieces:
            if joined and joined[-1].is_scaffold == piece.is_scaffold:
                joined[-1] = Segment(joined[-1].text + piece.text, piece.is_scaffold)
            else:
                joined.append(piece)
    return joined


def groups(e: Episode, *, with_system: bool = True) -> list[Group]:
    """The same in groups."""
    opening = "<|im_start|>assistant\n" + TEMPLATE.reply_prefix(**knobs(e.effort))
    replies = (m for m in e.messages if m["role"] == "assistant")
    message: dict[str, Any] | None = None
    cut: Cut | None = None
    found = [Group([], False)]
    for piece in _parts(e, with_system, opening):
        if cut is not None and piece == Segment(_CLOSE, True):
            line = Segment(_CLOSE[1:] if cut.bare else _CLOSE, True)
            found.append(Group([Segment(cut.closing, False), line], False))
            found.append(Group([], bool(message and message["learn"])))
            cut = None
        elif cut is not None:  # the mark
            found[-1] = Group([Segment(cut.kept, False)], False)
        else:
            found[-1].pieces.append(piece)
            if piece == Segment(opening, True):
                message = next(replies)
                cut = message.get("cut")
                found.append(Group([], message["learn"]))
            elif message is not None and piece == Segment(_END, True):
                message = None
                found.append(Group([], False))
    full = (Group([piece for piece in group.pieces if piece.text], group.learnt) for group in found)
    return [group for group in full if group.pieces]


def _parts(e: Episode, with_system: bool, opening: str) -> Iterator[Segment]:
    """What the template writes, a mark in place of reasoning that was cut; scaffold in parts where groups may end."""
    messages = [{**m, "reasoning_content": _MARK} if "cut" in m else m for m in e.messages]
    if with_system:
        pieces = TEMPLATE.segments(messages, e.tools, add_generation_prompt=False, **knobs(e.effort))
    else:
        first = next(i for i, m in enumerate(messages) if m["role"] == "user")
        pieces = TEMPLATE.continuation(messages[first:], ended=None, add_generation_prompt=False, **knobs(e.effort))
    border = re.compile("|".join(f"({re.escape(text)})" for text in (opening, _END, _CLOSE)))
    for piece in pieces:
        if not piece.is_scaffold:
            yield piece
            continue
        yield from (Segment(part, True) for part in border.split(piece.text) if part)
