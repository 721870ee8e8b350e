"""Random programs on conversations: whatever is done, state, tokens, messages and tags fit together."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentloop.conversation import Conversation
from agentloop.engine.scripted import ScriptedReply
from agentloop.engine.seam import CancelToken
from agentloop.events import Event, PrefillProgress, ReasoningDelta, TextDelta
from agentloop.exceptions import ConversationError, DecodeCancelled, DecodeError
from agentloop.testing import ScriptedEngine, call, say, think
from tests.agent_tools import add, check_whole

REPLIES = [
    say("Fine."),
    think("Let me see.") + say("Done.\nReally."),
    think("I add.") + call("add", a=1, b=2) + call("add", a=3, b=4),
    say("") + call("unknown", x="</think>"),
    ScriptedReply(think("Half"), error=DecodeError(-3, 0, "broken")),
    ScriptedReply("no end", end=False),
]
TEXTS = st.sampled_from(["Hi", "What?\n", "<|im_end|>", "</think>", "漢字 🙂", "  ", "x" * 700])


class Programs(RuleBasedStateMachine):
    @initialize(head=st.sampled_from([None, "Be brief."]), tools=st.booleans(), thinking=st.booleans())
    def start(self, head: str | None, tools: bool, thinking: bool) -> None:
        self.engine = ScriptedEngine(n_batch=64)
        self.thinking = thinking
        self.all = [
            Conversation(
                self.engine,
                instructions=head,
                tools=[add.schema] if tools else [],
                thinking="low" if thinking else False,
            )
        ]
        self.appended_only = True

    @property
    def c(self) -> Conversation:
        return self.all[-1]

    def go(self, reply: Any, **options: Any) -> None:
        if not self.thinking and isinstance(reply, str):
            reply = getattr(reply, "direct", reply)
        self.engine._queue.clear()
        self.engine.add(reply)
        try:
            self.c.reply(**options)
        except (DecodeError, DecodeCancelled):
            pass
        except ConversationError:
            assert not self.c.pending

    @rule(text=TEXTS, reply=st.sampled_from(REPLIES), limit=st.none() | st.integers(1, 60))
    def ask(self, text: str, reply: Any, limit: int | None) -> None:
        for request in self.c.open_calls:
            self.c.tool_result(request["id"], "3")
        self.c.user(text)
        self.go(reply, max_tokens=limit)

    @precondition(lambda self: self.c.open_calls)
    @rule(reply=st.sampled_from(REPLIES), text=TEXTS)
    def results(self, reply: Any, text: str) -> None:
        for request in self.c.open_calls:
            self.c.tool_result(request["id"], text)
        self.go(reply)

    @rule(text=TEXTS, at=st.sampled_from([PrefillProgress, ReasoningDelta, TextDelta]), reply=st.sampled_from(REPLIES))
    def cancel(self, text: str, at: type[Event], reply: Any) -> None:
        self.appended_only = False  # the opening of a reply that was not begun may have to go again
        token = CancelToken()

        def on_event(event: Event) -> None:
            if isinstance(event, at):
                token.cancel()

        self.c.user(text)
        self.go(reply, cancel=token, on_event=on_event)

    @precondition(lambda self: self.c.pending)
    @rule(reply=st.sampled_from(REPLIES))
    def again(self, reply: Any) -> None:
        if any(m["role"] == "user" for m in self.c.messages):
            self.go(reply)

    @precondition(lambda self: self.c.turns)
    @rule(data=st.data(), keep=st.booleans())
    def rewind(self, data: st.DataObject, keep: bool) -> None:
        self.appended_only = False
        self.c.rewind(data.draw(st.integers(0, len(self.c.turns) - 1)), keep_messages=keep)

    @rule()
    def fork(self) -> None:
        self.all.append(self.c.fork())

    @precondition(lambda self: len(self.all) > 1)
    @rule()
    def back(self) -> None:
        self.all.pop()

    @rule()
    def save_and_load(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "talk.json"
            self.c.save(path)
            loaded = Conversation.load(path, self.engine)
        assert loaded.tokens == self.c.tokens
        assert loaded.messages == self.c.messages
        self.all[-1] = loaded

    @invariant()
    def whole(self) -> None:
        for conversation in self.all:
            check_whole(conversation)
            if self.appended_only:
                assert conversation.usage.recomputed == 0
        c = self.c
        if c.tokens:
            cold = self.engine.sequence()
            cold.extend(c.tokens)
            assert np.array_equal(cold.logits(), c.fork().sequence.logits())
        text = self.engine.vocab.decode(c.tokens[: c._mark]).decode("utf-8", "replace")
        ids = c.tokens[: c._mark]
        token = self.engine.vocab.token_id
        opened, ended = ids.count(token("<|im_start|>")), ids.count(token("<|im_end|>"))
        assert opened - ended in (0, 1), text
        assert [t.end for t in c.turns][-1:] == ([c._mark] if c.turns else [])
        assert all(a.end == b.start for a, b in zip(c.turns, c.turns[1:], strict=False))


Programs.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestPrograms = Programs.TestCase
