"""What a template is: a codec between messages and the text of a conversation.

`Segment`s keep apart what the template wrote (scaffold) and what came from users, tools, files and schemas (data). Only
scaffold may become special tokens when it is encoded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from .reply import Reply, ReplyReader

__all__ = ["Message", "ReplyEnd", "Segment", "StrictCalls", "Template", "join"]

Message = Mapping[str, Any]
"""A message in OpenAI form: `role`, `content`, and `reasoning_content`, `tool_calls`, `tool_call_id` where any."""

ReplyEnd = Literal["complete", "truncated", "in_reasoning", "in_call"]
"""How the last reply in the state ended. `complete`: its last token is the end of turn. `truncated`: it stopped in its
content or behind a closed call. `in_reasoning`: its reasoning is open. `in_call`: a call was cut."""


class Segment(NamedTuple):
    """A piece of rendered text; `is_scaffold` is true for what the template itself wrote."""

    text: str
    is_scaffold: bool


def join(segments: Sequence[Segment]) -> str:
    """The text that the segments spell."""
    return "".join(segment.text for segment in segments)


class Template(Protocol):
    """Messages to text and back. Knobs are the template's own keyword arguments (`reasoning_effort`,
    `enable_thinking`, `preserve_thinking` where it has them)."""

    @property
    def name(self) -> str: ...
    @property
    def end_of_turn(self) -> str:
        """The special token that ends a reply."""
        ...

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **knobs: Any,
    ) -> str:
        """The text of the whole conversation. Raises InvalidMessage for a message that the template refuses, ValueError
        for a knob that it does not know."""
        ...

    def segments(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **knobs: Any,
    ) -> list[Segment]:
        """`render` in pieces; they join to the same text."""
        ...

    def continuation(
        self,
        messages: Sequence[Message],
        *,
        ended: ReplyEnd | None,
        add_generation_prompt: bool = True,
        open_tool_block: bool = False,
        **knobs: Any,
    ) -> list[Segment]:
        """Only what is appended for new tool results and user turns.

        `ended` says how the reply behind which it goes ended; what it left open is closed first. None: it goes behind
        closed messages. `open_tool_block`: the state stands inside an envelope of tool results, which is still open.
        For a complete reply, render(old) without its last newline, plus this, is render(old + new).
        """
        ...

    def reply_prefix(self, **knobs: Any) -> str:
        """What the generation prompt has already put into the reply."""
        ...

    def parse(
        self,
        text_or_ids: str | Sequence[int],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        vocab: Any = None,
        thinking: bool = True,
    ) -> Reply:
        """Read a whole reply: text, in which tags are recognised, or ids of `vocab`, where ids decide. `thinking`: it
        starts inside reasoning."""
        ...

    def reader(
        self,
        special: Mapping[int, str],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        thinking: bool = True,
    ) -> ReplyReader:
        """A reader for one reply, fed token by token; `special` are the vocabulary's special tokens."""
        ...


@runtime_checkable
class StrictCalls(Protocol):
    """A template whose calls can be held to a grammar."""

    @property
    def name(self) -> str: ...
    @property
    def end_of_turn(self) -> str: ...
    @property
    def call_opener(self) -> str:
        """The special token that begins a call."""
        ...

    @property
    def call_closer(self) -> str:
        """The special token that ends a call."""
        ...

    def call_grammar(
        self, tools: Sequence[Mapping[str, Any]], strict: Collection[str] | None = None, *, patterns: bool = True
    ) -> str:
        """The grammar, in the Lark dialect of llguidance, of what may stand behind the first `call_opener`, to the end
        of the turn. `strict`: the tools whose arguments are held to their schemas (None: all). Without `patterns`,
        regular expressions in schemas are left out."""
        ...
