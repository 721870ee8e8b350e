"""Messages as users write them, in the one shape that templates read.

OpenAI clients send arguments as JSON text, content as None or as a list of parts, `developer` instead of `system`, and
more than one system message. `normalise` makes all of these one form and refuses, before anything is rendered, what a
template would choke on or silently drop.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..exceptions import InvalidMessage

__all__ = ["any_text", "is_query", "normalise"]

_ROLES = ("system", "user", "assistant", "tool")


def any_text(content: str) -> bool:
    """For templates that take every user message for a question."""
    return True


def is_query(content: str) -> bool:
    """False for a user message that only wraps a tool response."""
    text = content.strip()
    return not (text.startswith("<tool_response>") and text.endswith("</tool_response>"))


def normalise(
    messages: Sequence[Mapping[str, Any]], *, start: bool = True, asks: Callable[[str], bool] = is_query
) -> list[dict[str, Any]]:
    """New messages with string contents, `tool_calls` as [{"name", "arguments": dict}], string `reasoning_content`.

    start: the list begins the conversation. Then leading system and developer messages become one, joined by an empty
    line, and there must be a user message that `asks` something. Otherwise (messages that go behind others) no system
    message is allowed.

    Raises InvalidMessage with the index of the message in `messages` and what to do about it.
    """
    if isinstance(messages, (str, bytes, Mapping)):
        raise InvalidMessage(None, "messages must be a list of messages, each a mapping with `role` and `content`")
    if start and not messages:
        raise InvalidMessage(None, "there are no messages; start with a user message")
    out: list[dict[str, Any]] = []
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise InvalidMessage(
                i, f"a message must be a mapping with `role` and `content`, not {type(message).__name__}"
            )
        role = message.get("role")
        role = "system" if role == "developer" else role
        if role not in _ROLES:
            raise InvalidMessage(i, f"unknown role {role!r}; use one of {', '.join(_ROLES)}")
        new: dict[str, Any] = {"role": role, "content": _text(message.get("content"), i, role)}
        if role == "system":
            if not start or any(m["role"] != "system" for m in out):
                raise InvalidMessage(
                    i, "a system message must stand at the beginning; send it as a user message instead"
                )
            if out:
                out[0]["content"] = "\n\n".join(filter(None, (out[0]["content"].strip(), new["content"].strip())))
                continue
        elif role == "assistant":
            new["reasoning_content"] = _reasoning(message, i)
            new["tool_calls"] = _calls(message.get("tool_calls"), i)
        out.append(new)
    if start and not any(m["role"] == "user" and asks(m["content"]) for m in out):
        raise InvalidMessage(None, "there is no user message; the template needs one to answer")
    return out


def _text(content: Any, i: int, role: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, (bytes, Mapping)) or not isinstance(content, Sequence):
        got = type(content).__name__
        raise InvalidMessage(i, f"content must be a string, None or a list of text parts, not {got}")
    parts: list[str] = []
    for part in content:
        if not isinstance(part, Mapping):
            raise InvalidMessage(i, "a part of content must be a mapping such as {'type': 'text', 'text': ...}")
        kind = part.get("type")
        if (
            kind in ("image", "image_url", "video", "audio", "input_audio", "file")
            or "image" in part
            or "video" in part
        ):
            raise InvalidMessage(i, f"a {role} message holds a part of type {kind!r}; this engine reads text alone")
        text = part.get("text")
        if not isinstance(text, str):
            raise InvalidMessage(i, f"a part of type {kind!r} without text; use {{'type': 'text', 'text': ...}}")
        parts.append(text)
    return "".join(parts)


def _reasoning(message: Mapping[str, Any], i: int) -> str:
    reasoning = message.get("reasoning_content")
    if reasoning is None:
        return ""
    if not isinstance(reasoning, str):
        raise InvalidMessage(i, f"reasoning_content must be a string, not {type(reasoning).__name__}")
    return reasoning


def _calls(calls: Any, i: int) -> list[dict[str, Any]]:
    if calls is None:
        return []
    if isinstance(calls, (str, bytes, Mapping)) or not isinstance(calls, Sequence):
        raise InvalidMessage(i, "tool_calls must be a list")
    return [_call(call, i) for call in calls]


def _call(call: Any, i: int) -> dict[str, Any]:
    body = call.get("function", call) if isinstance(call, Mapping) else None
    name = body.get("name") if isinstance(body, Mapping) else None
    if not isinstance(body, Mapping) or not isinstance(name, str) or not name:
        raise InvalidMessage(i, "a tool call must name its function: {'function': {'name': ..., 'arguments': {...}}}")
    arguments = body.get("arguments")
    if isinstance(arguments, str) and arguments.strip():
        try:
            arguments = json.loads(arguments)
        except ValueError as error:
            raise InvalidMessage(i, f"the arguments of the call of {name!r} are not JSON: {error}") from error
    if arguments is None or arguments == "" or (isinstance(arguments, str) and not arguments.strip()):
        arguments = {}
    if not isinstance(arguments, Mapping) or not all(isinstance(key, str) for key in arguments):
        kind = type(arguments).__name__
        raise InvalidMessage(
            i, f"the arguments of the call of {name!r} must be an object by parameter name, not {kind}"
        )
    return {"name": name, "arguments": dict(arguments)}
