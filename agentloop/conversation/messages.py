"""MessageLog: the messages of a conversation, those that were answered and those that wait."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ..arguments import well_formed
from ..exceptions import ConversationError
from ..templates.messages import normalise
from .history import from_openai

__all__ = ["Message", "MessageLog"]

Message = Mapping[str, Any]


class MessageLog:
    """Messages in OpenAI form, in order. The first `_closed` of them are spelled by tokens already; the rest wait. In
    what is appended a lone surrogate, which no token can spell, becomes `?`."""

    def __init__(self, instructions: str | None, tools: Iterable[Message], messages: Iterable[Message]) -> None:
        self.tools: list[dict[str, Any]] = [well_formed(dict(tool)) for tool in tools]
        self._messages: list[dict[str, Any]] = []
        self._closed = 0
        if instructions:
            self._messages.append({"role": "system", "content": well_formed(instructions)})
        given = list(messages)
        self.append(*(from_openai(given) if any(m.get("role") == "user" for m in given) else given))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """All messages, those that wait for their turn too; a new list of the same dictionaries: do not change them."""
        return list(self._messages)

    @property
    def pending(self) -> list[dict[str, Any]]:
        """Messages that were appended and not yet answered."""
        return self._messages[self._closed :]

    @property
    def open_calls(self) -> list[dict[str, Any]]:
        """Tool calls of the last reply that have no result yet, in OpenAI form."""
        at = max((i for i, m in enumerate(self._messages) if m["role"] == "assistant"), default=-1)
        behind = self._messages[at + 1 :]
        if at < 0 or any(m["role"] == "user" for m in behind):
            return []
        answered = {m.get("tool_call_id") for m in behind}
        return [call for call in self._messages[at].get("tool_calls") or [] if call["id"] not in answered]

    def append(self, *messages: Message) -> None:
        """Append messages; they are decoded with the next reply. Raises ConversationError for a message that does not
        fit its place, InvalidMessage for one that no template can read; then none is appended."""
        new = [well_formed(dict(message)) for message in messages]
        for i, message in enumerate(new):
            role = message.get("role")
            if role not in ("system", "user", "assistant", "tool"):
                raise ConversationError(f"message {i} has the role {role!r}; use system, user, assistant or tool")
            if role == "system" and (self._messages or i):
                raise ConversationError("a system message can only be the first one; say it in a user message instead")
            if role == "assistant" and self._closed:
                raise ConversationError(
                    "an assistant message can only be part of a history that a conversation starts from"
                )
        normalise([message for message in new if message["role"] != "system"], start=False)
        self._messages += new

    def user(self, content: str | list[Any]) -> None:
        """Append a user message."""
        self.append({"role": "user", "content": content})

    def tool_result(self, call_id: str, content: str, name: str | None = None) -> None:
        """Append the result of a call."""
        named = {"name": name} if name else {}
        self.append({"role": "tool", "tool_call_id": call_id, **named, "content": content})

    @property
    def known_tools(self) -> list[dict[str, Any]]:
        """The schemas that the model was told of: at the head, then those announced; a later one replaces an earlier
        one of the same name."""
        announced = [schema for message in self._messages for schema in message.get("tools", ())]
        return list({schema["function"]["name"]: schema for schema in [*self.tools, *announced]}.values())

    def announce(self, tools: Iterable[Message]) -> None:
        """Tell the model of more tools, with a user message: the head of the conversation is never rewritten. The
        message holds the schemas under `tools` too."""
        new = [dict(tool) for tool in tools]
        if new:
            lines = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in new)
            text = f"From now on you can also call these functions, in the same format:\n\n{lines}"
            self.append({"role": "user", "content": text, "tools": new})

    def drop_pending(self) -> list[dict[str, Any]]:
        """Take back the messages that wait for their turn (never the instructions), and return them."""
        keep = self._closed or len(self._instructions())
        dropped = self._messages[keep:]
        del self._messages[keep:]
        return dropped

    def _instructions(self) -> list[dict[str, Any]]:
        return self._messages[:1] if self._messages and self._messages[0]["role"] == "system" else []
