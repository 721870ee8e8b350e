"""AgentLoopModel: a pydantic-ai model that runs in the process and keeps its live state between requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.profiles import ModelProfile, ModelProfileSpec
from pydantic_ai.settings import ModelSettingName, ModelSettings
from pydantic_ai.usage import RequestUsage

from ...agent.default_engine import default_engine
from ...conversation import Thinking, TurnReply, in_worker
from ...conversation.constraining import ToolChoice
from ...engine.seam import CancelToken, EngineLike, Sampling
from ...events import Event
from ...exceptions import ConstraintError, DecodeCancelled
from ...templates import StrictCalls, Template, for_model
from .errors import mapped
from .live import Head, Live, LiveConversations
from .messages import Message, finish_of, from_response, parts_of, read_history, tool_schema, usage_of
from .settings import read_choice, read_sampling, read_thinking
from .stream import AgentLoopStream, Feed

__all__ = ["AgentLoopModel"]

logger = logging.getLogger(__name__)

_PROFILE = ModelProfile(
    supports_tools=True,
    supports_json_schema_output=True,
    native_output_requires_schema_in_instructions=True,
    supports_image_output=False,
    supports_image_input=False,
    supports_document_input=False,
    supports_thinking=True,
)
_UNSUPPORTED: frozenset[ModelSettingName] = frozenset(
    {
        "timeout",
        "max_retries",
        "stop_sequences",
        "parallel_tool_calls",
        "logit_bias",
        "service_tier",
        "extra_headers",
        "extra_body",
    }
)


@dataclass(frozen=True)
class _Request:
    head: Head
    messages: list[Message]
    choice: ToolChoice
    strict: bool | frozenset[str]
    schema: Mapping[str, Any] | None
    sampling: Sampling
    max_tokens: int | None
    max_reasoning: int | None


class AgentLoopModel(Model):
    """`engine` decodes; None takes the embedded model, loaded at the first request. `conversations` live at most, the
    least recently used are closed first. `thinking` and `sampling` hold where a request's settings say nothing.

    Input tokens of a response's usage are all that stood before the reply; `cache_read_tokens` is the part that the
    live state held already, `details` has `new_tokens` and `recomputed_tokens`. Runs on asyncio; several runs at once
    take turns on the engine. `close()` gives the conversations back; the engine is yours to close.
    """

    unsupported_settings = _UNSUPPORTED

    def __init__(
        self,
        engine: EngineLike | None = None,
        *,
        conversations: int = 8,
        template: Template | None = None,
        thinking: Thinking | str | bool | None = None,
        sampling: Sampling | None = None,
        settings: ModelSettings | None = None,
        profile: ModelProfileSpec | None = None,
    ) -> None:
        if conversations < 1:
            raise ValueError(f"conversations must be >= 1, not {conversations}")
        super().__init__(settings=settings, profile=_PROFILE if profile is None else profile)
        self.thinking = Thinking.of(thinking)
        self.sampling = sampling or Sampling()
        self._engine = engine
        self._template = template
        self._limit = conversations
        self._lives: LiveConversations | None = None

    @property
    def engine(self) -> EngineLike:
        """The engine; blocks while the embedded model is loaded, where it was given none."""
        if self._engine is None:
            self._engine = default_engine()
        return self._engine

    @property
    def model_name(self) -> str:
        """The engine's name."""
        return self.engine.name

    @property
    def system(self) -> str:
        """The provider: `agentloop`."""
        return "agentloop"

    @property
    def provider(self) -> None:
        """None: there is no client."""
        return None

    @property
    def template(self) -> Template:
        """The chat format: the model file's own, where none was given."""
        if self._template is None:
            self._template = for_model(self.engine)
        return self._template

    def close(self) -> None:
        """Close the conversations that are kept; a later request begins anew."""
        if self._lives is not None:
            self._lives.close()

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Answer a history. What extends one that was answered before is all that is decoded."""
        settings, params = self.prepare_request(model_settings, model_request_parameters)
        with mapped(self.model_name):
            asked = self._read(messages, settings or {}, params)
            return await in_worker(lambda cancel, _: self._answer(asked, cancel, None))

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """As `request`, and the reply comes as it is written. Leaving the block stops the model."""
        settings, params = self.prepare_request(model_settings, model_request_parameters)
        with mapped(self.model_name):
            asked = self._read(messages, settings or {}, params)
        feed = Feed()
        feed.task = asyncio.create_task(self._feed(asked, feed))
        try:
            yield AgentLoopStream(params, _feed=feed, _model_name=self.model_name)
        finally:
            await feed.stop()

    async def count_tokens(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> RequestUsage:
        """The tokens of the whole history as the template writes it; nothing is decoded."""
        settings, params = self.prepare_request(model_settings, model_request_parameters)
        with mapped(self.model_name):
            asked = self._read(messages, settings or {}, params)
            system = [{"role": "system", "content": asked.head.system}] if asked.head.system else []
            knobs = {**asked.head.thinking.knobs(), "preserve_thinking": True}
            tools = [dict(tool) for tool in asked.head.tools] or None
            parts = self.template.segments([*system, *asked.messages], tools, add_generation_prompt=True, **knobs)
            return RequestUsage(input_tokens=len(self.engine.vocab.encode_parts(parts)))

    async def _feed(self, asked: _Request, feed: Feed) -> None:
        work = partial(self._answer, asked)
        try:
            with mapped(self.model_name):
                response = await in_worker(
                    lambda cancel, emit: work(cancel, emit), cancel=feed.cancel, emit=feed.queue.put_nowait
                )
            feed.queue.put_nowait(response)
        except BaseException as error:
            feed.queue.put_nowait(error)
            if isinstance(error, asyncio.CancelledError):
                raise

    def _read(
        self, messages: list[ModelMessage], settings: Mapping[str, Any], params: ModelRequestParameters
    ) -> _Request:
        if self._lives is None:
            self._lives = LiveConversations(self.engine, self.template, self._limit)
        system, history = read_history(messages, params)
        choice, explicit = read_choice(settings, params)
        tools = [*params.declared_function_tools, *params.output_tools]
        holds = isinstance(self.template, StrictCalls)
        if choice.required and not holds:
            if explicit:
                raise UserError(f"{self.model_name}: its template has no grammar of calls, so no call can be forced")
            choice = ToolChoice(names=choice.names)
        strict = frozenset(tool.name for tool in tools if tool.strict is not False)
        if not holds or settings.get("agentloop_strict") is False:
            strict = frozenset()
        output = params.output_object if params.output_mode == "native" else None
        return _Request(
            Head(system, read_thinking(params.thinking, self.thinking), tuple(tool_schema(tool) for tool in tools)),
            history,
            choice,
            strict,
            None if output is None or choice.required else output.json_schema,
            read_sampling(settings, self.sampling),
            settings.get("max_tokens"),
            settings.get("agentloop_thinking_budget"),
        )

    def _answer(self, asked: _Request, cancel: CancelToken, emit: Callable[[Event], None] | None) -> ModelResponse:
        """In a worker thread: find the conversation, let it answer, remember what it said."""
        assert self._lives is not None
        lives = self._lives
        live = lives.take(asked.head, asked.messages)
        try:
            reply = self._reply(live, asked, cancel, emit)
            parts = parts_of(reply, live.call_names(reply.call_ids))
        except BaseException:
            lives.fail(live)
            raise
        response = ModelResponse(
            parts,
            usage=usage_of(reply.usage),
            model_name=self.model_name,
            provider_name=self.system,
            finish_reason=finish_of(reply),
            provider_details=None if reply.stop_reason is None else {"stop_reason": reply.stop_reason},
        )
        lives.finish(live, from_response(response))
        return response

    def _reply(
        self, live: Live, asked: _Request, cancel: CancelToken, emit: Callable[[Event], None] | None
    ) -> TurnReply:
        known = frozenset(str(tool["function"]["name"]) for tool in live.conversation.known_tools)
        offered = frozenset(str(tool["function"]["name"]) for tool in asked.head.tools)
        choice = asked.choice
        if choice.names is None and known - offered:  # tools that this request does not offer any more
            choice = ToolChoice(choice.required, offered)
        reply = partial(
            live.conversation.reply,
            max_tokens=asked.max_tokens,
            max_reasoning=asked.max_reasoning,
            sampling=asked.sampling,
            strict=asked.strict or False,
            tool_choice=choice,
            cancel=cancel,
            on_event=emit,
        )
        if asked.schema is None:
            return reply()
        try:
            return reply(output_schema=asked.schema)
        except DecodeCancelled:
            raise
        except ConstraintError as error:  # raised before anything is decoded; the framework validates all the same
            logger.warning("answers are not held to their schema while they are written: %s", error)
            return reply()
