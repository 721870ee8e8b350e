"""The model's turn: decode what waits, generate, read, record.

The functions work on a conversation that the caller holds exclusively. Whatever they raise, the conversation can go on:
a prompt that was not decoded to its end leaves tokens ahead of its messages, which wait; a reply that was cut is
recorded as far as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..engine.seam import CancelToken, Sampling, SequenceStats
from ..events import Event, PrefillProgress, TurnStarted
from ..exceptions import ContextFull, ConversationError, DecodeCancelled, EngineError
from ..limits import TurnUsage
from .constraining import ToolChoice, constraints_for
from .steering import ReplySteering, budget_for
from .timeline import TurnRecorder
from .turns import ReplyFinish, Turn, TurnReply

if TYPE_CHECKING:
    from ..templates import ReplyEnd
    from .conversation import Conversation

__all__ = ["answer", "prefill"]

Emit = Callable[[Event], None]


def answer(
    c: Conversation,
    *,
    max_tokens: int | None,
    max_reasoning: int | None,
    sampling: Sampling,
    strict: bool | Collection[str],
    output_schema: Mapping[str, Any] | None,
    tool_choice: ToolChoice,
    step: int,
    cancel: CancelToken | None,
    emit: Emit,
) -> TurnReply:
    """See `Conversation.reply`."""
    sequence = c.sequence
    constraints = constraints_for(c, strict, output_schema, tool_choice)
    prompt = _Prompt(c)
    emit(TurnStarted(step, prompt.reused, prompt.new))
    steering = ReplySteering(
        c.engine.vocab,
        c.template,
        c.known_tools,
        c.thinking,
        emit=emit,
        budget=c._budget if max_reasoning is None else budget_for(c.thinking, c.engine.vocab, max_reasoning),
        room=min(max_tokens or sequence.n_ctx, sequence.n_ctx - prompt.end),
        first_call=c._calls,
        constraints=constraints,
    )
    finish: ReplyFinish = "failed"
    recorder = TurnRecorder(sequence)
    try:
        prompt.decode(cancel, emit)
        recorder.prefilled()
        most = sequence.n_ctx + 1 if max_tokens is None else max_tokens  # + 1: a full context is not a full measure
        generation = sequence.generate(most, sampling, steering, cancel=cancel)
        try:
            for token in generation:
                recorder.saw(token, steering.phase)
        finally:
            generation.close()
        finish = generation.finish_reason or "length"
    except DecodeCancelled:
        finish = "cancelled"
        raise
    finally:
        usage = prompt.usage(finish, steering.reasoning_tokens)
        c.usage.turns.append(usage)
        if len(sequence) > prompt.end:
            done = _record(c, steering, finish, usage, prompt.end)
        prompt.note(recorder, usage)
    if len(sequence) == prompt.end:
        raise ContextFull(1, 0, sequence.n_ctx) if finish == "context" else EngineError("the engine generated nothing")
    return replace(done, stop_reason=generation.stop_reason)


def prefill(c: Conversation, *, cancel: CancelToken | None, emit: Emit) -> TurnUsage:
    """See `Conversation.prefill`."""
    prompt = _Prompt(c)
    finish: ReplyFinish = "failed"
    recorder = TurnRecorder(c.sequence)
    try:
        prompt.decode(cancel, emit)
        finish = "prefilled"
    except DecodeCancelled:
        finish = "cancelled"
        raise
    finally:
        usage = prompt.usage(finish, 0)
        c.usage.turns.append(usage)
        prompt.note(recorder, usage)
    return usage


class _Prompt:
    """What is to be appended: `ids`, of which the first `common` were decoded ahead."""

    def __init__(self, c: Conversation) -> None:
        if not c.pending:
            raise ConversationError(
                "there is nothing to answer: append a message first, or rewind to make a reply again"
            )
        self.c = c
        self.ids = c.prompt_ids()
        self.start = c._mark
        self.end = self.start + len(self.ids)
        if self.end >= c.sequence.n_ctx:
            raise ContextFull(len(self.ids) + 1, c.sequence.n_ctx - self.start, c.sequence.n_ctx)
        self.common = _common(c.sequence.tokens[self.start :], self.ids)
        self.ahead = min(c._ahead, self.common)
        c._ahead = 0
        self.before: SequenceStats = c.sequence.stats
        self.turns = len(c.turns)

    @property
    def reused(self) -> int:
        """Tokens that were in the state when the turn began; what was decoded ahead for it is part of the turn."""
        return self.start + self.common - self.ahead

    @property
    def new(self) -> int:
        return len(self.ids) - self.common + self.ahead

    def decode(self, cancel: CancelToken | None, emit: Emit) -> None:
        c, sequence, ids, at = self.c, self.c.sequence, self.ids, self.common
        if len(sequence) > self.start + self.common:
            sequence.truncate(self.start + self.common)
        total = len(ids) - at

        def progress(offset: int) -> Callable[[int, int], None]:
            return lambda done, _: emit(PrefillProgress(min(offset + done, total), total))

        if self.start == 0:
            c._head = _head_length(c, ids)
            if at < c._head:
                sequence.extend(ids[at : c._head], cancel=cancel, progress=progress(0))
                sequence.checkpoint(label="system", pinned=True)
                at = c._head
        if at < len(ids):
            sequence.extend(ids[at:], cancel=cancel, progress=progress(at - self.common))
            sequence.checkpoint(label="tool" if c.pending[-1]["role"] == "tool" else "turn")

    def note(self, recorder: TurnRecorder, usage: TurnUsage) -> None:
        """Put the turn into the timeline."""
        new = self.ids[self.common - self.ahead :][: usage.new]
        turn = self.turns if len(self.c.turns) > self.turns else None
        self.c.timeline.turn(recorder.entry(self.c.engine.vocab, usage, new, turn))

    def usage(self, finish: ReplyFinish, reasoning: int) -> TurnUsage:
        spent = self.c.sequence.stats - self.before
        return TurnUsage(
            reused=self.reused,
            new=max(0, min(len(self.c.sequence), self.end) - self.reused),
            recomputed=spent.recomputed,
            generated=spent.generated,
            reasoning=reasoning,
            prefill_s=spent.prefill_s,
            draft_s=spent.draft_s,
            decode_s=spent.decode_s,
            drafted=spent.drafted,
            accepted=spent.accepted,
            finish_reason=finish,
        )


def _head_length(c: Conversation, ids: Sequence[int]) -> int:
    """How many tokens stay the same whatever the first user message says."""
    probes: list[list[int]] = []
    for text in ("A", "7"):
        messages = [*c._instructions(), {"role": "user", "content": text}]
        segments = c.template.segments(messages, c.tools or None, add_generation_prompt=True, **c.knobs)
        probes.append(c.engine.vocab.encode_parts(segments))
    return min(_common(probes[0], probes[1]), _common(probes[0], ids))


def _record(
    c: Conversation, steering: ReplySteering, finish: ReplyFinish, usage: TurnUsage, prompt_end: int
) -> TurnReply:
    reply, call_ids = steering.finish(finish)
    tokens = c.sequence.tokens
    ended: ReplyEnd = "truncated"
    if tokens[-1] == c.engine.vocab.token_id(c.template.end_of_turn):
        ended = "complete"
    elif steering.phase == "reasoning":
        ended = "in_reasoning"
    elif steering.phase == "call":
        ended = "in_call"
    message = named_calls(reply.to_message(), call_ids)
    first = c._closed or len(c._instructions())
    c._turns.append(Turn(first, len(c._messages), c._mark, prompt_end, len(tokens), ended, finish, usage))
    c._messages.append(message)
    c._calls += len(call_ids)
    c._closed, c._mark, c._ended = len(c._messages), len(tokens), ended
    return TurnReply(reply, call_ids, message, finish, None, usage)


def named_calls(message: dict[str, Any], call_ids: Sequence[str]) -> dict[str, Any]:
    """The assistant message with an id on each of its calls, and a name where the model wrote none."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    named = [
        {
            "id": call_id,
            "type": "function",
            "function": {**call["function"], "name": call["function"]["name"] or "unknown"},
        }
        for call_id, call in zip(call_ids, calls, strict=True)
    ]
    return {**message, "tool_calls": named}


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
