"""The incremental reader of LFM2 replies: reasoning and text as everywhere, calls in a list between two tags.

A reply opens its reasoning itself. A list that begins in open reasoning with a declared function ends the reasoning; if
the reasoning is closed behind it after all, it was a draft and never runs.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..calls import Call
from .call_heads import LONGEST_DRAFT, LONGEST_HEAD
from .call_tags import tool_names
from .lfm2_calls import HEAD, read_calls
from .reply_types import CallDelta, CallEnd, FinishReason, Phase, PhaseChange, Reply, ReplyEvent
from .text_tags import TextTagReader

__all__ = ["LfmReader", "parse_lfm"]

_START, _STOP = "<|tool_call_start|>", "<|tool_call_end|>"

Token = tuple[int, bytes]


class LfmReader(TextTagReader):
    """Reads one reply. Repairs besides those of ReplyReader: `text_after_call` (it belongs to the content),
    `missing_closing`, `missing_opener`, `call_in_reasoning`, `stray_closing`, and those of its calls."""

    def __init__(self, special: Mapping[int, str], tools: Sequence[Mapping[str, Any]] | None = None) -> None:
        super().__init__(special, tools, thinking=False)
        self._schemas = None if tools is None else list(tools)
        self._names = tool_names(tools or ())
        self._lists = {i: text for i, text in special.items() if text in (_START, _STOP)}
        self._close_ids = {i for i, text in special.items() if text == "</think>"}
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._listed: list[str] | None = None  # the text of the list that is open
        self._waiting_tokens: list[Token] = []  # may be the head of a list
        self._draft_open = False  # they stand in open reasoning
        self._from_reasoning: list[Token] | None = None  # all tokens since a list ended the reasoning
        self._no_opener = False
        self._found: list[Call] = []
        self._last_list = 0  # where in `_found` the list that was closed last begins
        self._spoke = False
        self._own_repairs: list[str] = []
        self._whole: Reply | None = None

    @property
    def phase(self) -> Phase:
        """Where the reply stands."""
        if self._listed is not None:
            return "call"
        return "content" if self._from_reasoning is not None else super().phase

    @property
    def in_draft(self) -> bool:
        """A list may have begun in open reasoning: its function is not known yet."""
        return self._draft_open or super().in_draft

    @property
    def at_boundary(self) -> bool:
        """True unless the last token ended inside a UTF-8 character."""
        return super().at_boundary and not self._utf8.getstate()[0]

    def feed(self, token_id: int, piece: bytes) -> list[ReplyEvent]:
        """See ReplyReader.feed."""
        if self._whole is not None:
            return []
        tag = self._lists.get(token_id)
        if self._from_reasoning is not None:
            if token_id in self._close_ids:
                return self._reopen((token_id, piece))
            self._from_reasoning.append((token_id, piece))
        if self._listed is not None:
            return self._in_list(token_id, piece, tag)
        if self._waiting_tokens and (tag is not None or self._ends_here(token_id)):
            return [*self._release_head(), *self.feed(token_id, piece)]
        if tag == _START:
            return self._open(token_id, piece)
        if tag == _STOP and super().phase == "content":
            return self._stray_stop()
        if self._waiting_tokens or self._may_be_bare(token_id, piece):
            return self._wait(token_id, piece)
        return self._say_on(token_id, piece)

    def finish(self, reason: FinishReason) -> Reply:
        """See ReplyReader.finish."""
        if self._whole is not None:
            return self._whole
        self._release_head()
        if self._listed is not None:
            self._end_list(closed=False, complete=reason == "end")
        behind = self._from_reasoning
        if behind is not None and not self._close_ids and "</think>" in self._behind_text(behind):
            self._reopen(None)
            behind = None
        reply = super().finish(reason)
        opened = [r for r in reply.repairs if r not in ("reopened_reasoning", "think_newlines", "whitespace")]
        content = reply.content
        if behind is not None:
            after = self._behind_text(behind)
            content = "\n\n".join(filter(None, (content, after)))
            if after:
                self._own_repairs.append("text_after_call")
        repairs = [*opened, *self._own_repairs, *(repair for call in self._found for repair in call.repairs)]
        self._whole = replace(
            reply,
            content=content,
            calls=tuple(self._found),
            reasoning_complete=reply.reasoning_complete or behind is not None,
            repairs=tuple(dict.fromkeys(repairs)),
        )
        return self._whole

    # -- text that may be a list

    def _say_on(self, token_id: int, piece: bytes) -> list[ReplyEvent]:
        if self._from_reasoning is not None and token_id not in self._known:
            return []  # kept in `_from_reasoning`: content, or reasoning if a closing tag follows
        before = super().phase
        events = super().feed(token_id, piece)
        if before == "content" and super().phase == "content" and token_id not in self._known and piece.strip():
            self._spoke = True
            if self._found and "text_after_call" not in self._own_repairs:
                self._own_repairs.append("text_after_call")
        return events

    def _may_be_bare(self, token_id: int, piece: bytes) -> bool:
        """A list without its opening tag can only stand at the beginning of the content."""
        return (
            bool(self._names)
            and not self._spoke
            and not self._found
            and self._from_reasoning is None
            and token_id not in self._known
            and super().phase == "content"
            and piece.lstrip().startswith(b"[")
        )

    def _ends_here(self, token_id: int) -> bool:
        return token_id in self._known

    def _open(self, token_id: int, piece: bytes) -> list[ReplyEvent]:
        if self._from_reasoning is not None or super().phase == "content":
            self._listed, self._no_opener = [], False
            return [PhaseChange("call")]
        self._draft_open = True
        self._waiting_tokens = [(token_id, piece)]
        return []

    def _wait(self, token_id: int, piece: bytes) -> list[ReplyEvent]:
        self._waiting_tokens.append((token_id, piece))
        tokens = self._waiting_tokens[1:] if self._draft_open else self._waiting_tokens
        text = b"".join(part for _, part in tokens).decode("utf-8", "replace")
        found = HEAD.match(text)
        if found is None:
            head, begun = text.lstrip()[:1] in ("", "["), text.strip().removeprefix("[").strip()
            may_come = (
                head and len(text) < LONGEST_HEAD and (not begun or any(n.startswith(begun) for n in self._names))
            )
            return [] if may_come and len(tokens) < LONGEST_DRAFT else self._release_head()
        if found.group(1) not in self._names:
            return self._release_head()
        if self._draft_open:
            self._own_repairs.append("call_in_reasoning")
            self._from_reasoning = list(self._waiting_tokens)
        self._no_opener = not self._draft_open
        self._waiting_tokens, self._draft_open = [], False
        text = self._utf8.decode(b"".join(part for _, part in tokens))
        self._listed = [text]
        return [PhaseChange("call"), CallDelta(len(self._found), found.group(1), text)]

    def _release_head(self) -> list[ReplyEvent]:
        """What waited is text after all."""
        tokens, self._waiting_tokens, self._draft_open = self._waiting_tokens, [], False
        return [event for token, piece in tokens for event in self._as_text(token, piece)]

    def _as_text(self, token_id: int, piece: bytes) -> list[ReplyEvent]:
        tag = self._lists.get(token_id)
        return self._say_on(token_id, piece if tag is None else tag.encode())

    # -- lists

    def _in_list(self, token_id: int, piece: bytes, tag: str | None) -> list[ReplyEvent]:
        if tag == _STOP:
            return self._end_list(closed=True, complete=True)
        if token_id in self._known and self._known[token_id] in ("<|im_end|>", "<|endoftext|>"):
            return [*self._end_list(closed=False, complete=True), *super().feed(token_id, piece)]
        text = tag or self._known.get(token_id) or self._utf8.decode(piece)
        if not text:
            return []
        assert self._listed is not None
        self._listed.append(text)
        return [CallDelta(len(self._found), None, text)]

    def _end_list(self, *, closed: bool, complete: bool) -> list[ReplyEvent]:
        text = "".join(self._listed or ()) + self._utf8.decode(b"", True)
        self._utf8.reset()
        self._listed = None
        behind = ""
        if self._no_opener and not closed:
            at = text.rfind(")]") + 2
            text, behind = (text[:at], text[at:].strip()) if at > 1 else (text, "")
        calls = read_calls(text, self._schemas)
        repair = "missing_opener" if self._no_opener else None if closed else "missing_closing"
        if not complete and not closed:
            name = next((call.name for call in calls if call.name), "")
            message = "the reply was cut before the call was complete; write it again, shorter"
            calls = [Call(name, {}, "incomplete", text, message)]
        elif repair is not None:
            calls[0] = replace(calls[0], repairs=(repair, *calls[0].repairs))
        self._last_list = len(self._found)
        self._found += calls
        events: list[ReplyEvent] = [CallEnd(self._last_list + i, call) for i, call in enumerate(calls)]
        events.append(PhaseChange("content"))
        if behind:
            events += self._say_on(self._text_id, behind.encode())
        return events

    def _stray_stop(self) -> list[ReplyEvent]:
        """A second closing tag. Behind a list it says that the first may have stood in a string."""
        self._own_repairs.append("stray_closing")
        reason = (
            "a second closing tag follows the calls; the first may have been part of a string. Write the calls again"
        )
        for i in range(self._last_list, len(self._found)):
            if self._found[i].status == "ok":
                self._found[i] = replace(self._found[i], status="malformed", error=reason, arguments={})
        return []

    # -- lists in reasoning

    def _reopen(self, closing: Token | None) -> list[ReplyEvent]:
        """The reasoning was still open: what was read since was a draft."""
        tokens, self._from_reasoning = self._from_reasoning or [], None
        self._listed, self._found, self._last_list = None, [], 0
        self._utf8.reset()
        self._own_repairs = [repair for repair in self._own_repairs if repair != "call_in_reasoning"]
        events: list[ReplyEvent] = [PhaseChange("reasoning")]
        for token, piece in tokens:
            events += self._as_text(token, piece)
        return events if closing is None else [*events, *super().feed(*closing)]

    def _behind_text(self, tokens: Sequence[Token]) -> str:
        """The text behind the lists that ended the reasoning."""
        out, inside = [], True
        for token, piece in tokens:
            tag = self._lists.get(token)
            inside = tag == _START if tag is not None else inside
            if tag is None and not inside and token not in self._known:
                out.append(piece)
        return b"".join(out).decode("utf-8", "replace").strip()


def parse_lfm(
    text_or_ids: str | Sequence[int], tools: Sequence[Mapping[str, Any]] | None = None, *, vocab: Any = None
) -> Reply:
    """Read a whole reply: text, in which the tags are recognised, or ids of `vocab`. In text, tags inside a string of a
    call are told from those around it by their nesting. Raises ValueError for ids without a vocabulary."""
    if not isinstance(text_or_ids, str):
        if vocab is None:
            raise ValueError("ids need a vocabulary: parse(ids, vocab=engine.vocab)")
        reader = LfmReader(vocab.special_tokens(), tools)
        for token in text_or_ids:
            reader.feed(token, vocab.decode([token]))
        return reader.finish("end")
    reader = LfmReader({1: _START, 2: _STOP, 3: "<think>", 4: "</think>"}, tools)
    text = text_or_ids.rstrip()
    text = text.removesuffix("<|im_end|>") if text.endswith("<|im_end|>") else text_or_ids
    for token, part in _tokens(text):
        reader.feed(token, part.encode("utf-8", "replace"))
    return reader.finish("end")


def _tokens(text: str) -> list[tuple[int, str]]:
    """The text as tokens: 0 for text, 1 and 2 for the tags around a list, 3 and 4 for those around reasoning."""
    out: list[tuple[int, str]] = []
    tags = {_START: 1, _STOP: 2, "<think>": 3, "</think>": 4}
    places = sorted((i, tag) for tag in tags for i in _all(text, tag))
    at = 0
    while places:
        start, tag = places.pop(0)
        if start < at:
            continue
        out += [(0, text[at:start]), (tags[tag], tag)]
        at = start + len(tag)
        if tag == _START:
            stop = _closing([place for place in places if place[1] in (_START, _STOP)])
            if stop is not None:
                out += [(0, text[at:stop]), (2, _STOP)]
                at = stop + len(_STOP)
    return [*out, (0, text[at:])]


def _closing(places: Sequence[tuple[int, str]]) -> int | None:
    """Where the list ends that was opened before `places`: where its nesting does, or at a later closing tag before the
    next opening one."""
    depth, found = 1, None
    for at, tag in places:
        if tag == _START:
            if depth == 0:
                return found
            depth += 1
        else:
            depth = max(0, depth - 1)
            found = at if depth == 0 else found
    return found


def _all(text: str, tag: str) -> list[int]:
    out, at = [], text.find(tag)
    while at >= 0:
        out.append(at)
        at = text.find(tag, at + len(tag))
    return out
