"""Messages as the conventions of OpenTelemetry spell them: JSON text of messages that are made of parts.

Source of the form: the JSON schemas gen-ai-input-messages, gen-ai-output-messages and gen-ai-system-instructions of
https://github.com/open-telemetry/semantic-conventions-genai.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["definitions_json", "finish_reason", "message_json", "messages_json", "plain_json", "system_json"]

_REASONS = {"end": "stop", "stopped": "stop", "length": "length", "context": "length", "deferred": "tool_call"}


def finish_reason(reason: str, calls: bool) -> str:
    """Their word for how a reply ended; a reply that was cut by a cancel or a failure is "error"."""
    return "tool_call" if calls and reason == "end" else _REASONS.get(reason, "error")


def plain_json(value: Any) -> str:
    """JSON text; what JSON has no form for is written as Python would."""
    return json.dumps(value, ensure_ascii=False, default=str)


def messages_json(messages: Sequence[Mapping[str, Any]], reason: str | None = None) -> str:
    """All messages but the system message; `reason` is how the last one ended."""
    out = [{"role": m["role"], "parts": _parts(m)} for m in messages if m["role"] != "system"]
    if reason is not None and out:
        out[-1]["finish_reason"] = reason
    return plain_json(out)


def message_json(role: str, content: Any) -> str:
    """One message."""
    return messages_json([{"role": role, "content": content}])


def system_json(messages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The attribute for the system message, if there is one."""
    if not messages or messages[0]["role"] != "system":
        return {}
    return {"gen_ai.system_instructions": plain_json(_texts(messages[0]["content"]))}


def definitions_json(schemas: Sequence[Mapping[str, Any]]) -> str:
    """Declared tools, flat."""
    return plain_json([{"type": "function", **schema["function"]} for schema in schemas])


def _parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    if message["role"] == "tool":
        found = {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": message["content"]}
        return [found]
    parts: list[dict[str, Any]] = []
    if message.get("reasoning_content"):
        parts.append({"type": "reasoning", "content": message["reasoning_content"]})
    parts += _texts(message.get("content"))
    for call in message.get("tool_calls") or ():
        function = call["function"]
        parts.append(
            {
                "type": "tool_call",
                "id": call.get("id"),
                "name": function["name"],
                "arguments": function["arguments"],
            }
        )
    return parts


def _texts(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "content": content}] if content else []
    return [{"type": "text", "content": str(part.get("text", ""))} for part in content or ()]
