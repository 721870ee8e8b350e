"""Messages in and out, in the form of OpenAI's chat completions.

Inside, a message is the same with three differences: `arguments` of a call is a mapping, not JSON text; `content` is
never None; every call has an id. `reasoning_content` holds the reasoning on both sides. Two marks stay inside: `tools`
on a message that announces some, `note` on one that the runtime wrote in the user's place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ..exceptions import InvalidMessage
from ..templates.messages import normalise

__all__ = ["from_openai", "to_openai"]


def from_openai(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages for a conversation: `Conversation(engine, messages=from_openai(history))`.

    `developer` becomes `system`, leading system messages become one, text parts are joined, calls without an id get
    one. Raises InvalidMessage, which names the message: unknown roles, images, arguments that are no JSON object, a
    result of a call that was never made.
    """
    given = list(messages)
    read = normalise(given)
    heads = len(given) - len(read)  # leading system messages that became one
    out: list[dict[str, Any]] = []
    known: set[str] = set()
    count = 0
    for i, new in enumerate(read):
        old = given[i + heads]
        message = {"role": new["role"], "content": new["content"]}
        if new["role"] == "assistant":
            if new["reasoning_content"]:
                message["reasoning_content"] = new["reasoning_content"]
            if new["tool_calls"]:
                ids = [str(call.get("id") or f"imported_{count + n}") for n, call in enumerate(old["tool_calls"])]
                count += len(ids)
                known.update(ids)
                message["tool_calls"] = [
                    {"id": call_id, "type": "function", "function": call}
                    for call_id, call in zip(ids, new["tool_calls"], strict=True)
                ]
        elif new["role"] == "tool":
            call_id = old.get("tool_call_id")
            if call_id is not None and call_id not in known:
                raise InvalidMessage(i + heads, f"a result for the call {call_id!r}, which no message before it makes")
            if call_id is not None:
                message["tool_call_id"] = call_id
        out.append(message)
    return out


def to_openai(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A conversation's messages as an OpenAI client takes them; JSON values only."""
    out: list[dict[str, Any]] = []
    for message in messages:
        new = {key: value for key, value in message.items() if key not in ("tool_calls", "tools", "note")}
        calls = message.get("tool_calls")
        if calls:
            new["content"] = message.get("content") or None
            new["tool_calls"] = [
                {**call, "function": {**call["function"], "arguments": _text(call["function"]["arguments"])}}
                for call in calls
            ]
        out.append(new)
    return out


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
