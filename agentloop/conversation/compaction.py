"""Compaction: a shorter history that goes on from the same head.

What stays word for word: the instructions and tools, the user's last question, and the last few steps behind it, calls
and their results together. Everything before becomes one user message with a summary. The summary is written by the
model itself, on a fork of the live conversation, so that nothing is decoded again for it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..engine.seam import CancelToken
from ..exceptions import ConversationError

if TYPE_CHECKING:
    from .conversation import Conversation

__all__ = ["Compaction", "CompactionResult", "can_compact", "compact"]

PROMPT = (
    "The conversation has become too long and is about to be cut. Write a summary of it that lets you go on without "
    "the rest: what the user wants, what was done and found so far (names, paths, values), and what is still to do. "
    "Write only the summary and call no function."
)
HEADING = "Summary of the conversation so far:\n\n"


@dataclass(frozen=True, slots=True)
class Compaction:
    """When and how. `at`: the share of the context that may be filled before a run compacts. `keep`: how many of the
    last steps (a reply with its results) behind the last question stay as they are. `max_summary`: tokens of the
    summary, reasoning included. `prompt` asks for it."""

    at: float = 0.8
    keep: int = 2
    max_summary: int = 1024
    prompt: str = PROMPT

    def __post_init__(self) -> None:
        if not 0.0 < self.at < 1.0:
            raise ValueError(f"at must be a share between 0 and 1, not {self.at!r}")
        if self.keep < 0 or self.max_summary < 1:
            raise ValueError("keep must be >= 0 and max_summary >= 1")


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What a compaction did, in tokens; the next reply decodes only what differs from the old beginning."""

    before: int
    after: int
    summary: str


def compact(
    c: Conversation, settings: Compaction, *, summary: str | None, cancel: CancelToken | None
) -> CompactionResult:
    """See `Conversation.compact`."""
    began = time.monotonic()
    messages = c.messages
    head = len(c._instructions())
    question, kept_from = _cut(messages, settings.keep)
    between = messages[head:question] + messages[question + 1 : kept_from]
    if not any(message for message in between if not message.get("tools") and not message.get("note")):
        raise ConversationError(
            "there is nothing to make shorter: all of the conversation is its last question and steps"
        )
    if summary is None:
        summary = _summary(c, settings, cancel)
    announced = [message for message in between if message.get("tools")]  # stay as they are: the tools stay too
    told = {"role": "user", "content": HEADING + summary, "note": True}
    new = [*messages[:head], told, *announced, messages[question], *messages[kept_from:]]
    before = c._mark + len(c.prompt_ids())
    segments = c.template.segments(new, c.tools or None, add_generation_prompt=True, **c.knobs)
    after = len(c.engine.vocab.encode_parts(segments))
    if after >= before:
        raise ConversationError(
            f"a compaction would free nothing ({before} tokens would become {after}); "
            "keep fewer steps, ask for a shorter summary, or load the engine with a larger n_ctx"
        )
    held, timeline = dict(c.held), c.timeline.copy()
    c.rewrite(new)
    c.held = held
    timeline.take_back(0, "compacted", keep_text=True)
    timeline.mark("compacted", time.monotonic() - began, before=before, after=after)
    c.timeline = timeline
    return CompactionResult(before, after, summary)


def can_compact(c: Conversation, settings: Compaction) -> bool:
    """Whether there is anything before the last question and its last steps."""
    messages = c.messages
    if not any(m["role"] == "user" and not m.get("tools") and not m.get("note") for m in messages):
        return False
    question, kept_from = _cut(messages, settings.keep)
    between = messages[len(c._instructions()) : question] + messages[question + 1 : kept_from]
    return any(not m.get("tools") and not m.get("note") for m in between)


def _cut(messages: list[dict[str, Any]], keep: int) -> tuple[int, int]:
    """Where the last question is, and the first message behind it that stays: never a result without its call."""
    questions = [i for i, m in enumerate(messages) if m["role"] == "user" and not m.get("tools") and not m.get("note")]
    if not questions:
        raise ConversationError("there is nothing to make shorter: nobody has asked anything yet")
    question = questions[-1]
    steps = [i for i in range(question + 1, len(messages)) if messages[i]["role"] == "assistant"]
    if len(steps) <= keep:
        return question, question + 1
    return question, steps[len(steps) - keep] if keep else _behind_closed_steps(messages, steps[-1])


def _behind_closed_steps(messages: list[dict[str, Any]], last: int) -> int:
    """With no step to keep: behind the last one, unless its calls wait for results or their results wait to be read."""
    return last if messages[last].get("tool_calls") else len(messages)


def _summary(c: Conversation, settings: Compaction, cancel: CancelToken | None) -> str:
    fork = c.fork()
    try:
        if fork.turns:
            fork.drop_pending()
        for call in fork.open_calls:
            fork.tool_result(call["id"], "(the result is left out here)", call["function"]["name"])
        fork.user(settings.prompt)
        reply = fork.reply(max_tokens=settings.max_summary, cancel=cancel)
        c.usage.turns.extend(fork.usage.turns)
    finally:
        fork.close()
    text = reply.content.strip()
    if not text:
        raise ConversationError("the model wrote no summary; give one: conversation.compact(summary=...)")
    return text
