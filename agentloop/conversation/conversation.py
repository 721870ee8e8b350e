"""Conversation: a sequence of tokens, and the messages and turns that they spell.

Only what is appended is rendered, encoded and decoded. `mark` is the number of tokens that spell closed messages and
replies. Tokens behind it were decoded ahead of messages that wait for their turn (a prefill that was cancelled, the
prompt of a reply that is made again); they are kept as far as they are a prefix of what is appended next.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any

from ..engine.seam import CancelToken, EngineLike, Sampling, SequenceLike, Truncation
from ..events import Event
from ..exceptions import ConversationError
from ..limits import TurnUsage, Usage
from ..templates import Template, for_model
from .ahead import decode_ahead
from .answering import answer, prefill
from .compaction import Compaction, CompactionResult, compact
from .constraining import ToolChoice
from .messages import Message, MessageLog
from .saved import load, save
from .steering import budget_for
from .thinking import Thinking
from .timeline import Timeline
from .turns import Difference, Turn, TurnReply, find_difference

if TYPE_CHECKING:
    from ..templates import ReplyEnd

__all__ = ["Conversation"]


class Conversation(MessageLog):
    """Messages in OpenAI form (`role`, `content`, `reasoning_content`, `tool_calls` with arguments as mappings,
    `tool_call_id`) over one live sequence of `engine`.

    `instructions` is the system message; `tools` are schemas in OpenAI form, fixed for the conversation's life, since
    they stand at its head. `messages` may be a history in OpenAI form. `template` defaults to the model's own,
    `thinking` to `Thinking()`. Messages that are appended wait until `reply` decodes them and the model answers. One
    thread at a time may use it.
    """

    def __init__(
        self,
        engine: EngineLike,
        *,
        instructions: str | None = None,
        tools: Iterable[Message] = (),
        template: Template | None = None,
        thinking: Thinking | str | bool | None = None,
        sampling: Sampling | None = None,
        messages: Iterable[Message] = (),
        sequence: SequenceLike | None = None,
    ) -> None:
        super().__init__(instructions, tools, messages)
        self.engine = engine
        self.template: Template = template if template is not None else for_model(engine)
        self.thinking = Thinking.of(thinking)
        self._budget = budget_for(self.thinking, engine.vocab)
        self.sampling = sampling or Sampling()
        self.usage = Usage()
        self.timeline = Timeline()
        self.held: dict[str, str] = {}
        self._sequence = sequence if sequence is not None else engine.sequence()
        self._turns: list[Turn] = []
        self._mark = 0
        self._ahead = 0  # tokens of the next turn that were decoded while tools ran
        self._ahead_runs = False
        self._ended: ReplyEnd | None = None
        self._head = 0  # tokens of instructions and tools, once they are decoded
        self._calls = 0  # calls named so far
        self._busy = threading.Lock()
        self._running = threading.Lock()

    # -- what it holds

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The model turns so far."""
        return tuple(self._turns)

    @property
    def questions(self) -> tuple[int, ...]:
        """The turns that begin with a user's message, by index: `rewind(conversation.questions[-1])` takes back the
        last question and all that it led to."""
        return tuple(i for i, turn in enumerate(self._turns) if self._messages[turn.first]["role"] == "user")

    @property
    def tokens(self) -> tuple[int, ...]:
        """Every token that was decoded or waits to be: the truth."""
        return self._sequence.tokens

    @property
    def sequence(self) -> SequenceLike:
        """The live sequence. Reading it is safe; whoever changes it breaks the conversation."""
        return self._sequence

    @property
    def knobs(self) -> dict[str, Any]:
        """The template's knobs, fixed for the conversation's life. Reasoning stays where it was decoded, so templates
        that would strip it from old turns are told to keep it."""
        return {**self.thinking.knobs(), "preserve_thinking": True}

    @property
    def text(self) -> str:
        """The tokens as text, special tokens spelled out."""
        return self.engine.vocab.decode(self.tokens).decode("utf-8", "replace")

    @property
    def room(self) -> int:
        """How many more tokens fit."""
        return self._sequence.n_ctx - len(self._sequence)

    def __repr__(self) -> str:
        waiting = len(self._messages) - self._closed
        return f"<Conversation of {len(self._turns)} turns, {len(self.tokens)} tokens, {waiting} messages waiting>"

    def prompt_ids(self) -> list[int]:
        """The tokens that `reply` would append behind `mark` now: the waiting messages and the opening of a reply."""
        knobs = self.knobs
        if self._mark == 0:
            segments = self.template.segments(self._messages, self.tools or None, add_generation_prompt=True, **knobs)
        else:
            segments = self.template.continuation(self.pending, ended=self._ended, add_generation_prompt=True, **knobs)
        return self.engine.vocab.encode_parts(segments)

    # -- the model's turn

    def reply(
        self,
        *,
        max_tokens: int | None = None,
        max_reasoning: int | None = None,
        sampling: Sampling | None = None,
        strict: bool | Collection[str] = False,
        output_schema: Mapping[str, Any] | None = None,
        tool_choice: ToolChoice | str | Collection[str] = "auto",
        step: int = 0,
        cancel: CancelToken | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> TurnReply:
        """Decode what waits, let the model answer, and record the answer. Blocks; `on_event` is called on this thread.

        At most `max_tokens` (>= 1) tokens are generated (None: as many as fit), of them at most `max_reasoning` of
        reasoning, besides what `thinking` says. `strict`: calls can only be written as they are valid, of all tools
        (True) or of those named; of the others the form is right and the name declared. `output_schema`: what is no
        call is an answer in JSON that fits this schema. `tool_choice`: with "none" the reply calls nothing, with
        "required" it calls, with names of tools it calls one of those; a `ToolChoice` says the rest. Masks come before
        the truncations of `sampling`, and reasoning is free.

        Raises ContextFull before anything is decoded, when the prompt leaves no room; TemplateError when calls of this
        template cannot be strict; ConstraintError for a schema; DecodeCancelled and DecodeError. Whatever is raised,
        the conversation can go on: what was decoded is kept, a reply that was cut is recorded as far as it came, and
        messages that were not decoded wait.
        """
        if max_tokens is not None and max_tokens < 1:
            raise ValueError(f"max_tokens must be None or >= 1, not {max_tokens}")
        with self._exclusive():
            return answer(
                self,
                max_tokens=max_tokens,
                max_reasoning=max_reasoning,
                sampling=sampling or self.sampling,
                strict=strict,
                output_schema=output_schema,
                tool_choice=ToolChoice.of(tool_choice),
                step=step,
                cancel=cancel,
                emit=on_event or _ignore,
            )

    def prefill(
        self, *, cancel: CancelToken | None = None, on_event: Callable[[Event], None] | None = None
    ) -> TurnUsage:
        """Decode what waits, without a reply: the next one, here or in forks, then costs only itself."""
        with self._exclusive():
            return prefill(self, cancel=cancel, emit=on_event or _ignore)

    def decode_ahead(self, *, cancel: CancelToken | None = None) -> int:
        """Decode what is known of the next turn before the results of open calls are there: the waiting token and the
        scaffold before the first result. Returns how many tokens of the next turn that were; it counts them as its own
        new ones. Does nothing where there is nothing to wait for. Other methods wait until it has ended."""
        self._ahead_runs = True
        try:
            with self._busy:
                return decode_ahead(self, cancel)
        finally:
            self._ahead_runs = False

    # -- going back, and going two ways

    def rewind(self, turn: int, *, keep_messages: bool = False) -> Truncation:
        """Back to where turn `turn` began (negative: counted from the end); it and all behind it are forgotten.

        With `keep_messages` the messages of that turn wait again, so that `reply` makes another reply to them; their
        tokens are kept. Returns how the sequence got there. ConversationError when there is no such turn.
        """
        with self._exclusive():
            n = len(self._turns)
            if not -n <= turn < n:
                raise ConversationError(f"there is no turn {turn}: the conversation has {n}")
            at = self._turns[turn % n]
            keep = at.prompt_end if keep_messages else max(at.start, self._head if at.start == 0 else 0)
            how = self._sequence.truncate(keep)
            self._messages = self._messages[: at.reply if keep_messages else at.first]
            self._turns = self._turns[: turn % n]
            self.timeline.take_back(turn % n, "rewound")
            self.timeline.mark("rewound", turn=turn % n)
            self._closed, self._mark = at.first if at.start else 0, at.start
            self._ended = self._turns[-1].ended if self._turns else None
            self.held = {}
            return how

    def fork(self) -> Conversation:
        """A second conversation at the same point; nothing is decoded, and both go on independently."""
        with self._exclusive():
            child = Conversation.__new__(Conversation)
            child.__dict__.update(self.__dict__)
            child._sequence = self._sequence.fork()
            child._messages, child._turns = list(self._messages), list(self._turns)
            child.held = dict(self.held)
            child.timeline = self.timeline.copy()
            child.timeline.mark("forked")
            child._ahead, child._ahead_runs = 0, False
            child.usage, child._busy, child._running = Usage(), threading.Lock(), threading.Lock()
            child._budget = budget_for(child.thinking, child.engine.vocab)
            return child

    def rewrite(self, messages: Iterable[Message]) -> None:
        """Go on from other messages. The next reply decodes only from the first token that differs. Raises
        InvalidMessage for messages that the template refuses; the conversation is then as it was."""
        with self._exclusive():
            new = [dict(message) for message in messages]
            # Refuses what the template refuses before anything is given up.
            self.template.render(new, self.tools or None, add_generation_prompt=False, **self.knobs)
            self._messages, self._turns, self.held = new, [], {}
            self.timeline.take_back(0, "rewritten")
            self.timeline.mark("rewritten")
            self._closed = self._mark = 0
            self._ended = None

    # -- checking

    def first_difference(self) -> Difference | None:
        """Where the conversation's own bytes differ from the template's text of its messages, or None.

        They differ only where the model's own text is not canonical (other white space around reasoning, a call that
        was malformed or cut); what was decoded is kept all the same.
        """
        if self._mark == 0:
            return None
        own = self.engine.vocab.decode(self.tokens[: self._mark])
        closed = self._messages[: self._closed]
        text = self.template.render(closed, self.tools or None, add_generation_prompt=False, **self.knobs)
        return find_difference(own, text.encode("utf-8", "replace"), complete=self._ended == "complete")

    # -- keeping

    def compact(
        self, settings: Compaction | None = None, *, summary: str | None = None, cancel: CancelToken | None = None
    ) -> CompactionResult:
        """Make the history shorter: what lies before the last few messages becomes a summary, which the model writes on
        a fork unless it is given. The pinned head stays decoded. Raises ConversationError when nothing gets shorter."""
        return compact(self, settings or Compaction(), summary=summary, cancel=cancel)

    def save(self, path: str | PathLike[str], *, state: bool = True) -> None:
        """Write the conversation to `path` as JSON, in one step: the old file stays whole until the new one is. With
        `state`, the live state goes to a file beside it, so that `load` has nothing to decode. Raises ConversationError
        where the file cannot be written."""
        with self._exclusive():
            save(self, path, state=state)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        engine: EngineLike,
        *,
        template: Template | None = None,
        cancel: CancelToken | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Conversation:
        """Read what `save` wrote. Without a usable state beside it, the tokens are decoded again.

        Raises SnapshotError: `missing`, `truncated`, `altered`, `version`, or `foreign` when it belongs to another
        model or template.
        """
        return load(cls, path, engine, template=template, cancel=cancel, progress=progress)

    def close(self) -> None:
        """Give the sequence back to the engine."""
        self._sequence.close()

    @contextmanager
    def run(self) -> Iterator[None]:
        """Held while an agent runs on it, from the prompt to the answer; ConversationError when another run is on."""
        if not self._running.acquire(blocking=False):
            raise ConversationError(
                "another run is going on in this conversation; fork it, or wait until that has ended"
            )
        try:
            yield
        finally:
            self._running.release()

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=self._ahead_runs):
            raise ConversationError("the conversation is in use by another run; fork it, or wait until that has ended")
        try:
            yield
        finally:
            self._busy.release()


def _ignore(_: Event) -> None:
    return None
