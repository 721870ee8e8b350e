"""Messages of pydantic-ai as those of a conversation, and replies as pydantic-ai's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    CachePoint,
    FinishReason,
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    RetryPromptPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from ...calls import Call
from ...conversation import TurnReply
from ...limits import TurnUsage

__all__ = [
    "Message",
    "arguments_of",
    "finish_of",
    "from_response",
    "parts_of",
    "plain",
    "read_history",
    "same",
    "tool_schema",
    "usage_of",
]

Message = dict[str, Any]


def read_history(messages: Iterable[ModelMessage], params: ModelRequestParameters) -> tuple[str | None, list[Message]]:
    """The text of the system message, and the messages behind it. Raises UserError for what no text can hold."""
    system: list[str] = []
    out: list[Message] = []
    last: str | None = None
    for message in messages:
        if isinstance(message, ModelResponse):
            out.append(from_response(message))
            continue
        last = message.instructions or last
        for part in message.parts:
            if isinstance(part, SystemPromptPart) and not out:
                system.append(part.content)
            else:
                out.append(_request_part(part))
    parts = params.instruction_parts
    instructions = last if parts is None else "\n\n".join(part.content for part in parts if part.content)
    if instructions:
        system.append(instructions)
    return "\n\n".join(system) or None, out


def _request_part(part: Any) -> Message:
    if isinstance(part, UserPromptPart):
        return {"role": "user", "content": _text(part.content)}
    if isinstance(part, ToolReturnPart):
        return _result(part.tool_call_id, part.tool_name, part.model_response_str())
    if isinstance(part, RetryPromptPart):  # in a direct request; an agent's are tool results or user messages here
        text = part.model_response()
        return (
            {"role": "user", "content": text}
            if part.tool_name is None
            else _result(part.tool_call_id, part.tool_name, text)
        )
    if isinstance(part, SystemPromptPart):
        return {"role": "user", "content": f"<system>\n{part.content}\n</system>"}
    raise UserError(f"a {type(part).__name__} cannot be sent to a model of agentloop")


def _result(call_id: str, name: str, content: str) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": content}


def _text(content: str | Sequence[Any]) -> str:
    if isinstance(content, str):
        return content
    out: list[str] = []
    for item in content:
        if isinstance(item, str):
            out.append(item)
        elif isinstance(item, TextContent):
            out.append(item.content)
        elif not isinstance(item, CachePoint):
            raise UserError(f"a model of agentloop reads text only; the prompt holds a {type(item).__name__}")
    return "\n".join(out)


def from_response(response: ModelResponse) -> Message:
    """A reply in OpenAI form, arguments as mappings. What other providers leave in a history (files, calls of tools of
    their own) is left out."""
    message: Message = {"role": "assistant", "content": ""}
    texts = [part.content for part in response.parts if isinstance(part, TextPart)]
    thoughts = [part.content for part in response.parts if isinstance(part, ThinkingPart)]
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    message["content"] = "".join(texts)
    if any(thoughts):
        message["reasoning_content"] = "\n".join(thoughts)
    if calls:
        message["tool_calls"] = [
            {
                "id": call.tool_call_id,
                "type": "function",
                "function": {"name": call.tool_name, "arguments": _mapping(call.args)},
            }
            for call in calls
        ]
    return message


def plain(args: Any) -> str | dict[str, Any] | None:
    """The arguments of a call as text or a mapping, whatever typed form the framework keeps them in."""
    return args if isinstance(args, str) else None if args is None else dict(args)


def _mapping(args: Any) -> dict[str, Any]:
    if isinstance(args, str):
        try:
            args = json.loads(args)
        except ValueError:
            return {}
    return dict(args) if isinstance(args, Mapping) else {}


def same(a: Message, b: Message) -> bool:
    """Do two messages say the same? White space around a text does not count, nor does reasoning that one lacks."""
    if a["role"] != b["role"] or str(a["content"]).strip() != str(b["content"]).strip():
        return False
    if a.get("tool_call_id") != b.get("tool_call_id") or a.get("tool_calls") != b.get("tool_calls"):
        return False
    thoughts = [str(m.get("reasoning_content") or "").strip() for m in (a, b)]
    return not all(thoughts) or thoughts[0] == thoughts[1]


def arguments_of(call: Call) -> str | dict[str, Any]:
    """What the framework validates: the arguments, or the text of a call that could not be read."""
    return call.raw if call.status in ("malformed", "incomplete") else call.arguments


def parts_of(reply: TurnReply, ids: Sequence[str]) -> list[ModelResponsePart]:
    """A reply as parts: reasoning, text, calls."""
    parts: list[ModelResponsePart] = []
    if reply.reasoning.strip():
        parts.append(ThinkingPart(reply.reasoning.strip(), provider_name="agentloop"))
    if reply.content.strip():
        parts.append(TextPart(reply.content))
    for call, call_id in zip(reply.calls, ids, strict=True):
        parts.append(ToolCallPart(call.name or "unknown", arguments_of(call), tool_call_id=call_id))
    return parts


def finish_of(reply: TurnReply) -> FinishReason:
    """pydantic-ai's word for how a reply ended."""
    if reply.finish in ("length", "context"):
        return "length"
    return "tool_call" if reply.calls else "stop"


def usage_of(turn: TurnUsage) -> RequestUsage:
    """Input is all that stands before the reply; the part that was in the live state counts as read from the cache."""
    return RequestUsage(
        input_tokens=turn.reused + turn.new,
        cache_read_tokens=turn.reused,
        output_tokens=turn.generated,
        output_reasoning_tokens=turn.reasoning,
        details={
            "new_tokens": turn.new,
            "recomputed_tokens": turn.recomputed,
            "drafted_tokens": sum(turn.drafted.values()),
            "accepted_tokens": sum(turn.accepted.values()),
        },
    )


def tool_schema(tool: ToolDefinition) -> Message:
    """A declaration in OpenAI form."""
    function = {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters_json_schema}
    return {"type": "function", "function": function}
