"""Testing what is built on agentloop, without a model: a scripted engine, and short ways to write replies.

engine = ScriptedEngine([think("I need the sum.") + call("add", a=2, b=2), say("It is 4.")])
with agent.override(engine=engine):
    assert agent.run_sync("2 + 2?").output == "It is 4."
engine.assert_complete()
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from .conversation import Conversation
from .engine.scripted import Script, ScriptedEngine, ScriptedReply

__all__ = [
    "ReplyText",
    "Script",
    "ScriptedEngine",
    "ScriptedReply",
    "call",
    "recorded",
    "replay",
    "say",
    "think",
]


class ReplyText(str):
    """A reply as the native template spells it. Parts are joined with `+`: reasoning, then text, then calls.

    It begins inside reasoning, as replies do whose prompt ends with `<think>`; `direct` is the same reply for a
    conversation that runs with `thinking=False`.
    """

    reasoning: str
    text: str
    calls: tuple[tuple[str, Mapping[str, Any]], ...]

    def __new__(
        cls, reasoning: str = "", text: str = "", calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    ) -> ReplyText:
        self = super().__new__(cls, f"{reasoning}\n</think>\n\n{_body(text, calls)}")
        self.reasoning, self.text, self.calls = reasoning, text, calls
        return self

    @property
    def direct(self) -> str:
        """Without the reasoning."""
        return _body(self.text, self.calls)

    def __add__(self, other: str) -> ReplyText:
        if isinstance(other, ReplyText):
            return ReplyText(self.reasoning + other.reasoning, self.text + other.text, self.calls + other.calls)
        return ReplyText(self.reasoning, self.text + other, self.calls)


def think(reasoning: str) -> ReplyText:
    """Reasoning; add what follows it: `think("...") + say("...")`."""
    return ReplyText(reasoning)


def say(text: str) -> ReplyText:
    """A reply that is text."""
    return ReplyText(text=text)


def call(name: str, /, **arguments: Any) -> ReplyText:
    """A reply that calls a tool; add more calls for parallel ones. A value that is no text is written as JSON."""
    return ReplyText(calls=((name, arguments),))


def recorded(conversation: Conversation) -> list[str]:
    """The replies of a conversation, exactly as the model wrote them, as a script for ScriptedEngine."""
    vocab = conversation.engine.vocab
    end = vocab.token_id(conversation.template.end_of_turn)
    replies: list[str] = []
    for turn in conversation.turns:
        ids = list(conversation.tokens[turn.prompt_end : turn.end])
        ids = ids[:-1] if ids[-1:] == [end] else ids
        replies.append(vocab.decode(ids).decode("utf-8", "replace"))
    return replies


def replay(path: str | PathLike[str]) -> ScriptedEngine:
    """A scripted engine from a file that holds `recorded(...)` as JSON: `json.dumps(recorded(conversation))`."""
    replies = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(replies, list) or not all(isinstance(reply, str) for reply in replies):
        raise ValueError(f"{path}: a recorded transcript is a JSON list of texts")
    return ScriptedEngine(replies)


def _body(text: str, calls: tuple[tuple[str, Mapping[str, Any]], ...]) -> str:
    spelled = "\n".join(_spell(name, arguments) for name, arguments in calls)
    return f"{text}\n\n{spelled}" if text.strip() and spelled else text + spelled


def _spell(name: str, arguments: Mapping[str, Any]) -> str:
    parts = [f"<tool_call>\n<function={name}>\n"]
    for key, value in arguments.items():
        written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        parts.append(f"<parameter={key}>\n{written}\n</parameter>\n")
    return "".join(parts) + "</function>\n</tool_call>"
