"""The incremental reader of one reply, fed token by token.

Ids decide the tags of thinking and of calls; text that looks like them is text. Everything from the first call on is
one section that `call_grammar` reads: at each closed call for the events, and as a whole at the end, since only what
stands behind a closing tag tells whether it stood in a value.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from typing import Any

from .call_grammar import Section, function_name, is_closed, read_section
from .call_heads import LONGEST_DRAFT, LONGEST_HEAD, CallHeads
from .reply_types import (
    CallDelta,
    CallEnd,
    FinishReason,
    Phase,
    PhaseChange,
    ReasoningDelta,
    Reply,
    ReplyEvent,
    TextDelta,
)
from .trimmed import Trimmed

__all__ = ["END_TAGS", "TAGS", "ReplyReader"]

END_TAGS = frozenset({"<|im_end|>", "<|endoftext|>"})
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_end|>", "<|endoftext|>")


class ReplyReader:
    """Reads one reply. `special` are the special tokens of the vocabulary, by id; `tools` the declared tool schemas
    (None: nothing is known of them, and arguments stay text). `thinking`: the reply starts inside reasoning.

    The events and the reply are the same however the text is cut into tokens.
    """

    def __init__(
        self, special: Mapping[int, str], tools: Sequence[Mapping[str, Any]] | None = None, *, thinking: bool = True
    ) -> None:
        self._tags = {token: text for token, text in special.items() if text in TAGS}
        self._tools = None if tools is None else list(tools)
        self._heads = CallHeads(tools or ())
        self._phase: Phase = "reasoning" if thinking else "content"
        self._closed = not thinking
        self._thought = thinking
        self._loose_close = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._reasoning = Trimmed()
        self._content = Trimmed()
        self._draft = ""  # a call in open reasoning whose function is not known yet
        self._draft_tokens = 0
        self._held = ""  # content that may be the beginning of a call without opener
        self._section: list[str] = []
        self._marks: dict[int, str] = {}  # where in the section a tag is a tag by its id
        self._length = 0
        self._call_start = 0
        self._index = -1
        self._name: str | None = None
        self._ended = 0  # calls that were reported as ended
        self._bare = False  # the section has no opener
        self._implied = False  # a call ended the reasoning
        self._section_tokens = 0
        self._repairs: list[str] = []
        self._reply: Reply | None = None
        self.reasoning_tokens = 0
        self.held = False
        """Set by whoever holds the calls to their grammar while they are written; see `read_section`."""

    @property
    def phase(self) -> Phase:
        """Where the reply stands."""
        return self._phase

    @property
    def in_draft(self) -> bool:
        """A call may have begun in open reasoning: its tag is there, and its function is not known yet."""
        return bool(self._draft)

    @property
    def at_boundary(self) -> bool:
        """True unless the last token ended inside a UTF-8 character."""
        return not self._decoder.getstate()[0]

    def feed(self, token_id: int, piece: bytes) -> list[ReplyEvent]:
        """The events of one more token, whose bytes are `piece`. Tokens behind the end of turn are ignored."""
        if self._reply is not None:
            return []
        events: list[ReplyEvent] = []
        tag = self._tags.get(token_id)
        if tag is None:
            text = self._decoder.decode(piece)
            if self._phase == "reasoning":
                self.reasoning_tokens += 1
                if self._draft:
                    self._draft_tokens += 1
                    if self._draft_tokens > LONGEST_DRAFT:
                        self._undraft(events)
            elif self._implied:
                self._section_tokens += 1
            if text:
                self._text(text, events)
            return events
        self._flush(events)
        if tag in END_TAGS:
            reply = self._finish(complete=True)
            if self._phase == "call":
                self._enter("content", events)
            for index in range(self._ended, len(reply.calls)):
                events.append(CallEnd(index, reply.calls[index]))
        elif self._phase == "reasoning":
            self._tag_in_reasoning(tag, events)
        else:
            self._tag_behind_reasoning(tag, events)
        return events

    def finish(self, reason: FinishReason) -> Reply:
        """The whole reply; no more tokens come, because of `reason`. Once it is known (the end of turn was read, or
        finish was called), it stays the same."""
        if self._reply is None:
            self._flush([])
            self._finish(complete=reason == "end")
        assert self._reply is not None
        return self._reply

    # -- text

    def _text(self, text: str, events: list[ReplyEvent]) -> None:
        if self._phase == "reasoning":
            if self._draft:
                self._drafted(text, events)
            else:
                self._reason(text, events)
        elif self._section:
            self._in_section(text, events)
        else:
            self._say(text, events)

    def _reason(self, text: str, events: list[ReplyEvent]) -> None:
        shown = self._reasoning.add(text)
        if shown:
            events.append(ReasoningDelta(shown))

    def _drafted(self, text: str, events: list[ReplyEvent]) -> None:
        self._draft += text
        is_call = self._heads.draft(self._draft)
        if is_call:
            draft, self._draft = self._draft, ""
            self.reasoning_tokens -= self._draft_tokens
            self._section_tokens = self._draft_tokens
            self._implied = True
            self._repairs.append("call_in_reasoning")
            self._open_section(draft, 0, events)
        elif is_call is False:
            self._undraft(events)

    def _undraft(self, events: list[ReplyEvent]) -> None:
        draft, self._draft, self._draft_tokens = self._draft, "", 0
        if draft:
            self._reason(draft, events)

    def _say(self, text: str, events: list[ReplyEvent]) -> None:
        if self._heads.declared and (self._held or "<" in text):
            text = self._held + text
            self._held = ""
            match = self._heads.find_bare(text, self._content.everything)
            if match is not None:
                self._emit_content(text[: match.start()], events)
                self._bare = True
                self._open_section(text[match.start() :], None, events)
                return
            at = self._heads.may_begin(text)
            text, self._held = text[:at], text[at:]
        self._emit_content(text, events)

    def _emit_content(self, text: str, events: list[ReplyEvent]) -> None:
        shown = self._content.add(text)
        if shown:
            events.append(TextDelta(shown))

    # -- calls

    def _open_section(self, text: str, mark: int | None, events: list[ReplyEvent]) -> None:
        if mark is not None:
            self._marks[mark] = "<tool_call>"
        self._new_call(0, events)
        self._in_section(text, events)

    def _new_call(self, start: int, events: list[ReplyEvent]) -> None:
        self._index += 1
        self._call_start = start
        self._name = None
        self._enter("call", events)

    def _in_section(self, text: str, events: list[ReplyEvent]) -> None:
        self._section.append(text)
        self._length += len(text)
        if self._phase == "call":
            if self._name is None and self._length - self._call_start < 4 * LONGEST_HEAD:
                self._name = function_name(self._joined()[self._call_start :])[0]
            events.append(CallDelta(self._index, self._name, text))

    def _joined(self) -> str:
        if len(self._section) > 1:
            self._section = ["".join(self._section)]
        return self._section[0]

    def _enter(self, phase: Phase, events: list[ReplyEvent]) -> None:
        if phase != self._phase:
            self._phase = phase
            events.append(PhaseChange(phase))

    # -- tags

    def _tag_in_reasoning(self, tag: str, events: list[ReplyEvent]) -> None:
        self._undraft(events)
        if tag == "</think>":
            self._close(events)
            return
        self.reasoning_tokens += 1
        if tag == "<think>":
            self._repairs.append("doubled_think")
        elif tag == "<tool_call>":
            self._draft, self._draft_tokens = tag, 1
        else:
            self._reason(tag, events)

    def _tag_behind_reasoning(self, tag: str, events: list[ReplyEvent]) -> None:
        if not self._section:
            if tag == "<tool_call>":
                self._open_section(tag, 0, events)
            elif tag == "<think>" and not self._content:
                self._repairs.append("reopened_reasoning")
                self._closed = False
                self._enter("reasoning", events)
            elif tag == "</tool_call>":
                self._repairs.append("stray_closing")
            else:
                self._repairs.append("second_think_close" if tag == "</think>" else "stray_think")
            return
        if tag == "</think>" and self._implied:
            # The reasoning was still open: the call was a draft, and never runs.
            self._take_back(events)
            return
        if self._implied:
            self._section_tokens += 1
        at = self._length
        self._marks[at] = tag
        if tag == "<tool_call>" and self._phase == "content":
            self._report_ended(events)
            self._new_call(at, events)
        self._in_section(tag, events)
        if tag == "</tool_call>" and self._phase == "call":
            text = self._joined()
            if is_closed(text, self._call_start):
                self._enter("content", events)

    def _report_ended(self, events: list[ReplyEvent]) -> None:
        """The call that was closed last is confirmed by the opener behind it."""
        if self._ended != self._index or self._implied or self._bare:
            return
        start = self._call_start
        marks = {0: "<tool_call>"}
        for at in reversed(self._marks):  # in order of place; those of earlier calls are not looked at again
            if at <= start:
                break
            if self._marks[at] != "<tool_call>":
                marks[at - start] = self._marks[at]
        section = read_section(self._joined()[start:], marks, self._tools, complete=True, held=self.held)
        if len(section.calls) == 1 and section.is_clean and not section.suffix:
            events.append(CallEnd(self._index, section.calls[0]))
            self._ended += 1

    def _take_back(self, events: list[ReplyEvent]) -> None:
        text = self._joined()
        self._section, self._marks, self._length, self._index = [], {}, 0, -1
        self._implied = False
        self.reasoning_tokens += self._section_tokens
        self._section_tokens = 0
        self._repairs.remove("call_in_reasoning")
        self._reason(text, events)
        self._close(events)

    def _close(self, events: list[ReplyEvent]) -> None:
        self._closed = True
        self._loose_close = not self._reasoning.space_behind.endswith("\n")
        self._enter("content", events)

    # -- the end

    def _flush(self, events: list[ReplyEvent]) -> None:
        """A special token or the end comes: a character that is not complete never will be, and what was held is
        text."""
        text = self._decoder.decode(b"", True)
        self._decoder.reset()
        if text:
            self._text(text, events)
        held, self._held = self._held, ""
        if held:
            self._emit_content(held, events)

    def _finish(self, *, complete: bool) -> Reply:
        self._undraft([])
        section, gaps = Section(), self._gaps()
        if self._section:
            section = read_section(
                self._joined(),
                self._marks,
                self._tools,
                complete=complete,
                has_opener=not self._bare,
                held=self.held,
            )
            if section.suffix:
                self._content.held = "\n\n"
                self._content.add(section.suffix)
        repairs = [*self._repairs, *gaps]
        repairs += section.repairs
        for call in section.calls:
            repairs += call.repairs
        self._reply = Reply(
            reasoning=self._reasoning.text,
            content=self._content.text,
            calls=section.calls,
            reasoning_complete=self._closed or self._implied,
            repairs=tuple(dict.fromkeys(repairs)),
        )
        return self._reply

    def _gaps(self) -> list[str]:
        """Where the white space around the end of reasoning and before the calls is not the template's."""
        repairs = []
        behind = bool(self._section or self._content)
        if self._loose_close or (self._thought and self._closed and behind and self._content.lead != "\n\n"):
            repairs.append("think_newlines")
        if self._section and self._content and self._content.held != "\n\n":
            repairs.append("whitespace")
        return repairs
