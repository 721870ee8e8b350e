"""One client's conversation with an engine, step by step: what had to be evaluated for each turn, and what was new.

`new` is what an engine that loses nothing has to evaluate: the tokens of the messages that the client appended, with
their scaffold, and the last token of the reply before, which was sampled and not yet decoded. It is counted with the
model's own template and vocabulary, for every engine alike; for a first turn it is the whole prompt.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agentloop import CancelToken, Conversation, Engine, Thinking
from agentloop.engine import Sequence as TokenSequence
from agentloop.engine.seam import SequenceLike, SequenceStats, VocabLike
from agentloop.exceptions import DecodeCancelled
from agentloop.templates import Template, for_model
from agentloop.templates.base import ReplyEnd

from .trace import INSTRUCTIONS, TOOLS, Step

__all__ = ["AgentloopSession", "Counter", "Session", "Turn", "has_tools", "prompt_rows"]


@dataclass(slots=True)
class Turn:
    """`evaluated` prompt tokens went through the model for this turn (None: the engine does not say); seconds are the
    client's: to the first piece of the reply, and to its end."""

    new: int
    evaluated: int | None
    generated: int
    ttft_s: float
    wall_s: float
    finish: str


class Session(Protocol):
    """A conversation that takes one step after another."""

    engine: str
    client: str

    def take(self, step: Step) -> Turn: ...
    def restart(self) -> None:
        """The session is saved, everything ends, and is there again with an empty memory."""
        ...

    def close(self) -> None: ...


def has_tools(template_text: str | None) -> bool:
    """Whether a model's template knows tools."""
    return template_text is not None and "tools" in template_text


class Counter:
    """Counts what messages come to, with a model's template and vocabulary."""

    def __init__(self, engine: Engine, max_tokens: int) -> None:
        self.vocab: VocabLike = engine.vocab
        self.template: Template = for_model(engine)
        self.tools = TOOLS if has_tools(engine.chat_template) else []
        self.thinking = Thinking(effort="low")
        self.knobs = {**self.thinking.knobs(), "preserve_thinking": True}
        self.max_tokens = max_tokens

    def first(self, messages: Sequence[dict[str, Any]]) -> int:
        """Tokens of a whole prompt."""
        return len(self.vocab.encode_parts(self.template.segments(messages, self.tools or None, **self.knobs)))

    def behind(self, messages: Sequence[dict[str, Any]], ended: ReplyEnd) -> int:
        """Tokens of messages behind a reply that ended so, and its waiting token."""
        return 1 + len(self.vocab.encode_parts(self.template.continuation(messages, ended=ended, **self.knobs)))

    def results(self, step: Step, call_ids: Sequence[str]) -> list[dict[str, Any]]:
        """The messages of a step: one for the user, or one a call."""
        if step.role == "user" or not self.tools:
            return [{"role": "user", "content": step.text}]
        ids = list(call_ids) or ["none"]
        texts = [step.text, *["ok"] * (len(ids) - 1)]
        return [{"role": "tool", "tool_call_id": i, "content": text} for i, text in zip(ids, texts, strict=True)]


def prompt_rows(sequence: SequenceLike, spent: SequenceStats, *, cut: bool) -> int:
    """How many rows of a turn without drafts were its prompt: every token of the reply but the first took a row of its
    own. Behind a reply that was cut, the last token may have been decoded too."""
    behind = cut and sequence.n_decoded == len(sequence)  # type: ignore[attr-defined]
    return spent.evaluated - (spent.generated - 1 + behind)


class AgentloopSession:
    """agentloop's own Conversation, without drafts, so that rows of the model and tokens are one to one."""

    engine = "agentloop"
    client = "n/a"

    def __init__(self, model: str | None, counter: Counter, *, n_ctx: int, folder: Path) -> None:
        self.model, self.counter, self.n_ctx, self.folder = model, counter, n_ctx, folder
        self._engine = self._load()
        self.main = Conversation(
            self._engine, instructions=INSTRUCTIONS, tools=counter.tools, thinking=counter.thinking
        )

    def _load(self) -> Engine:
        return Engine.load(self.model, n_ctx=self.n_ctx, sequences=4, drafters="none", threads=1)

    def take(self, step: Step) -> Turn:
        if step.kind != "side":
            return self._ask(self.main, step)
        fork = self.main.fork()
        try:
            return self._ask(fork, step)
        finally:
            fork.close()

    def _ask(self, conversation: Conversation, step: Step) -> Turn:
        sequence = conversation.sequence
        assert isinstance(sequence, TokenSequence)
        ids = [call["id"] for call in conversation.open_calls]
        messages = self.counter.results(step, ids)
        for message in messages:
            if message.get("tool_call_id") == "none":
                del message["tool_call_id"]
        before = sequence.stats
        waiting = len(sequence) - sequence.n_decoded
        cancel, pieces, first = CancelToken(), 0, 0.0
        started = time.perf_counter()

        def watch(event: Any) -> None:
            nonlocal pieces, first
            if event.kind.endswith("_delta"):
                pieces += 1
                first = first or time.perf_counter() - started
                if step.cut is not None and pieces >= step.cut:
                    cancel.cancel()

        conversation.append(*messages)
        new = len(conversation.prompt_ids()) + waiting
        try:
            reply = conversation.reply(max_tokens=self.counter.max_tokens, cancel=cancel, on_event=watch)
            finish = reply.finish
        except DecodeCancelled:
            finish = "cancelled"
        wall = time.perf_counter() - started
        spent = sequence.stats - before
        evaluated = prompt_rows(sequence, spent, cut=finish == "cancelled")
        return Turn(new, evaluated, spent.generated, first or wall, wall, finish)

    def restart(self) -> None:
        path = self.folder / "session.json"
        self.main.save(path)
        self._engine.close()
        self._engine = self._load()
        self.main = Conversation.load(path, self._engine)

    def close(self) -> None:
        self._engine.close()
