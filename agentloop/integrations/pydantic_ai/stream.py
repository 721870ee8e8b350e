"""A reply as it is written, in pydantic-ai's events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone

from pydantic_ai.messages import ModelResponse, ModelResponseStreamEvent, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models import StreamedResponse

from ...engine.seam import CancelToken
from ...events import Event, ReasoningDelta, TextDelta
from .messages import plain

__all__ = ["AgentLoopStream", "Feed"]


class Feed:
    """What the task that decodes tells the stream that is read: events, then the response or an error."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Event | ModelResponse | BaseException] = asyncio.Queue()
        self.cancel = CancelToken()
        self.task: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """Stop the model at its next token, and wait until nothing is decoded any more."""
        self.cancel.cancel()
        if self.task is not None:
            await asyncio.wait({self.task})


@dataclass
class AgentLoopStream(StreamedResponse):
    """Text and reasoning come as they are written; a call comes whole, when its reply has ended."""

    _feed: Feed = field(kw_only=True)
    _model_name: str = field(kw_only=True)
    _timestamp: datetime = field(default_factory=lambda: datetime.now(timezone.utc), kw_only=True)

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        while True:
            item = await self._feed.queue.get()
            if isinstance(item, BaseException):
                if not self.cancelled:
                    raise item
                return
            events = self._last(item) if isinstance(item, ModelResponse) else self._delta(item)
            for event in events:
                yield event
            if isinstance(item, ModelResponse):
                return

    def _delta(self, event: Event) -> Iterator[ModelResponseStreamEvent]:
        if isinstance(event, TextDelta):
            yield from self._parts_manager.handle_text_delta(vendor_part_id="text", content=event.text)
        elif isinstance(event, ReasoningDelta):
            yield from self._parts_manager.handle_thinking_delta(
                vendor_part_id="reasoning", content=event.text, provider_name=self.provider_name
            )

    def _last(self, response: ModelResponse) -> Iterator[ModelResponseStreamEvent]:
        """What only the whole reply tells: its calls, its cost, and how it ended."""
        shown = {type(part) for part in self._parts_manager.get_parts()}
        for i, part in enumerate(response.parts):
            if isinstance(part, ToolCallPart):
                yield self._parts_manager.handle_tool_call_part(
                    vendor_part_id=f"call {i}",
                    tool_name=part.tool_name,
                    args=plain(part.args),
                    tool_call_id=part.tool_call_id,
                )
            elif isinstance(part, TextPart) and TextPart not in shown:
                yield from self._parts_manager.handle_text_delta(vendor_part_id="text", content=part.content)
            elif isinstance(part, ThinkingPart) and ThinkingPart not in shown:
                yield from self._parts_manager.handle_thinking_delta(
                    vendor_part_id="reasoning", content=part.content, provider_name=self.provider_name
                )
        self._usage = response.usage
        self.finish_reason = response.finish_reason
        self.provider_details = response.provider_details

    async def close_stream(self) -> None:
        """Stop the model."""
        await self._feed.stop()

    @property
    def model_name(self) -> str:
        """The name of the model."""
        return self._model_name

    @property
    def provider_name(self) -> str:
        """Always `agentloop`."""
        return "agentloop"

    @property
    def provider_url(self) -> None:
        """None: the model runs in the process."""
        return None

    @property
    def timestamp(self) -> datetime:
        """When the request began."""
        return self._timestamp

    def get_stream_cancel_errors(self) -> tuple[type[BaseException], ...]:
        """None: a cancelled stream just ends."""
        return ()
