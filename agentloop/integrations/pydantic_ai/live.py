"""The conversations that a model keeps, and which of them a request goes on with.

A request brings the whole history. Where it extends one that was answered here, that conversation goes on; where it
parts from one, a fork goes on from the last turn that both share; where it begins, a fork of the head does, so that
instructions and tools are decoded once for all runs. Only a history with replies that were not made here is decoded as
a whole, from its first token that no live state holds.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ...conversation import Conversation, Thinking
from ...engine.seam import EngineLike
from ...exceptions import AgentLoopError, ConversationError
from ...templates import Template
from .messages import Message, same

__all__ = ["Head", "Live", "LiveConversations"]


@dataclass(frozen=True)
class Head:
    """What stands before all messages. `tools` are schemas in OpenAI form."""

    system: str | None
    thinking: Thinking
    tools: Sequence[Mapping[str, Any]]

    def fits(self, other: Head) -> bool:
        """The same but for the tools, which can be announced later."""
        return (self.system, self.thinking) == (other.system, other.thinking)


@dataclass(eq=False)
class Live:
    """A conversation and the messages of the framework that it spells: `ends[i]` of them up to the end of turn `i`.
    `ids` gives the conversation's own name of a call."""

    head: Head
    conversation: Conversation
    history: list[Message] = field(default_factory=list[Message])
    ends: list[int] = field(default_factory=list[int])
    ids: dict[str, str] = field(default_factory=dict[str, str])
    asked: list[Message] = field(default_factory=list[Message])
    busy: bool = False

    def fork(self, turn: int) -> Live:
        """Another one that goes on before turn `turn` (as many as there are: behind all)."""
        child = self.conversation.fork()
        if turn < len(self.ends):
            child.rewind(turn)
        end = self.ends[turn - 1] if turn else 0
        return Live(self.head, child, self.history[:end], self.ends[:turn], dict(self.ids))

    def append(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> None:
        """Let messages wait, and tell the model of tools that it does not know."""
        self.asked = list(messages)
        self.conversation.append(*(self._named(message) for message in messages))
        known = self.conversation.known_tools
        self.conversation.announce(dict(tool) for tool in tools if tool not in known)

    def call_names(self, own: Sequence[str]) -> list[str]:
        """Names for new calls that no other conversation gives."""
        names = [f"{name}_{secrets.token_hex(4)}" for name in own]
        self.ids.update(zip(names, own, strict=True))
        return names

    def _named(self, message: Message) -> Message:
        call_id = message.get("tool_call_id")
        return message if call_id is None else {**message, "tool_call_id": self.ids.get(call_id, call_id)}


class LiveConversations:
    """At most `limit` of them, the least recently used are closed first; and as many heads. Safe from any thread."""

    def __init__(self, engine: EngineLike, template: Template | None, limit: int) -> None:
        self.engine = engine
        self.template = template
        self.limit = limit
        self._lives: list[Live] = []  # the least recently used first
        self._heads: list[Live] = []
        self._lock = threading.RLock()

    def take(self, head: Head, messages: Sequence[Message]) -> Live:
        """The conversation that answers, with all that is new waiting in it. `finish` or `fail` gives it back."""
        with self._lock:
            live = self._extended(head, messages) or self._made(head, messages)
            live.busy = True
            if live in self._lives:
                self._lives.remove(live)
            self._lives.append(live)
            return live

    def finish(self, live: Live, reply: Message) -> None:
        """It has answered."""
        with self._lock:
            live.history += [*live.asked, reply]
            live.ends.append(len(live.history))
            live.asked, live.busy = [], False
            if not any(kept.head == live.head for kept in self._heads):
                with suppress(AgentLoopError):  # without it the next run decodes its head again; the answer stands
                    self._heads.append(live.fork(0))
            for kept in (self._lives, self._heads):
                for old in [old for old in kept[: -self.limit] if not old.busy]:
                    old.conversation.close()
                    kept.remove(old)

    def fail(self, live: Live) -> None:
        """It was stopped: back to where it stood before, so that the same request can be made again."""
        with self._lock:
            live.busy = False
            with suppress(AgentLoopError):
                if live.ends:
                    if len(live.conversation.turns) > len(live.ends):
                        live.conversation.rewind(len(live.ends))
                    live.conversation.drop_pending()
                    return
            self._lives.remove(live)
            live.conversation.close()

    def close(self) -> None:
        """Close all of them."""
        with self._lock:
            for live in [*self._lives, *self._heads]:
                live.conversation.close()
            self._lives, self._heads = [], []

    def _extended(self, head: Head, messages: Sequence[Message]) -> Live | None:
        """One that the history goes on with, or a fork of one that it parts from; None where replies are not ours."""
        free = [live for live in self._lives if not live.busy and live.head.fits(head) and live.ends]
        if not free:
            return None
        best = max(free, key=lambda live: (_common(live.history, messages), self._lives.index(live)))
        common = _common(best.history, messages)
        turns = sum(end <= common for end in best.ends)
        if not turns or any(message["role"] == "assistant" for message in messages[best.ends[turns - 1] :]):
            return None
        live = best if turns == len(best.ends) else best.fork(turns)
        try:
            live.append(messages[live.ends[-1] :], head.tools)
        except BaseException:
            live.conversation.drop_pending()
            if live is not best:
                live.conversation.close()
            raise
        return live

    def _made(self, head: Head, messages: Sequence[Message]) -> Live:
        base = next((kept for kept in self._heads if kept.head == head), None)
        if base is not None and not any(message["role"] == "assistant" for message in messages):
            live = base.fork(0)
            live.append(messages, head.tools)
            return live
        free = [kept for kept in (*self._lives, *self._heads) if not kept.busy and kept.head == head]
        asked = [dict(message) for message in messages]
        if free:
            near = max(free, key=lambda kept: _common(kept.history, messages))
            conversation = near.conversation.fork()
            system = [{"role": "system", "content": head.system}] if head.system else []
            conversation.rewrite([*system, *asked])
        else:
            conversation = Conversation(
                self.engine,
                instructions=head.system,
                tools=[dict(tool) for tool in head.tools],
                template=self.template,
                thinking=head.thinking,
                messages=asked,
            )
        if not conversation.pending or conversation.pending[-1]["role"] == "assistant":
            conversation.close()
            raise ConversationError("there is nothing to answer: the history ends with a reply")
        return Live(head, conversation, asked=asked)


def _common(a: Sequence[Message], b: Sequence[Message]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if not same(x, y)), min(len(a), len(b)))
