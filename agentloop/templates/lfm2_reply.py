"""The incremental reader of LFM2 replies: reasoning and text as everywhere, calls in a list between two tags."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..arguments import check_call
from ..calls import Call
from .lfm2_calls import read_calls
from .reply_types import CallDelta, CallEnd, FinishReason, Phase, PhaseChange, Reply, ReplyEvent
from .text_tags import TextTagReader

__all__ = ["LfmReader", "parse_lfm"]

_START, _STOP = "<|tool_call_start|>", "<|tool_call_end|>"


class LfmReader(TextTagReader):
    """Reads one reply, which opens its reasoning itself. A list of calls in reasoning is text and never runs."""

    def __init__(self, special: Mapping[int, str], tools: Sequence[Mapping[str, Any]] | None = None) -> None:
        super().__init__(special, tools, thinking=False)
        self._schemas = tools
        self._lists = {i: text for i, text in special.items() if text in (_START, _STOP)}
        self._listed: list[str] | None = None
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._found: list[Call] = []
        self._own_repairs: list[str] = []
        self._whole: Reply | None = None

    @property
    def phase(self) -> Phase:
        """Where the reply stands."""
        return "call" if self._listed is not None else super().phase

    @property
    def at_boundary(self) -> bool:
        """True unless the last token ended inside a UTF-8 character."""
        return super().at_boundary and not self._utf8.getstate()[0]

    def feed(self, token_id: int, piece: bytes) -> list[ReplyEvent]:
        """See ReplyReader.feed."""
        if self._whole is not None:
            return []
        tag = self._lists.get(token_id)
        if self._listed is None:
            if tag == _START and super().phase == "content":
                self._listed = []
                return [PhaseChange("call")]
            if tag == _STOP and super().phase == "content":
                self._own_repairs.append("stray_closing")
                return []
            return super().feed(token_id, piece)
        if tag == _STOP or self._ends(token_id):
            events = self._end_list(complete=tag == _STOP)
            return events if tag == _STOP else events + super().feed(token_id, piece)
        text = tag or self._utf8.decode(piece)
        if not text:
            return []
        self._listed.append(text)
        return [CallDelta(len(self._found), None, text)]

    def finish(self, reason: FinishReason) -> Reply:
        """See ReplyReader.finish."""
        if self._whole is None:
            if self._listed is not None:
                self._end_list(complete=False)
            reply = super().finish(reason)
            opened = [r for r in reply.repairs if r not in ("reopened_reasoning", "think_newlines")]
            self._whole = replace(reply, calls=tuple(self._found), repairs=(*opened, *self._own_repairs))
        return self._whole

    def _end_list(self, *, complete: bool) -> list[ReplyEvent]:
        text = "".join(self._listed or ()) + self._utf8.decode(b"", True)
        self._utf8.reset()
        self._listed = None
        first = len(self._found)
        calls = read_calls(text)
        if not complete:
            names = [call.name for call in calls if call.name][:1] or [""]
            message = "the reply was cut before the call was complete; write it again, shorter"
            calls = [Call(names[0], {}, "incomplete", text, message)]
        elif self._schemas is not None:
            calls = [check_call(call, self._schemas) if call.status == "ok" else call for call in calls]
        self._found += calls
        events: list[ReplyEvent] = [CallEnd(first + i, call) for i, call in enumerate(calls)]
        return [*events, PhaseChange("content")]


def parse_lfm(
    text_or_ids: str | Sequence[int], tools: Sequence[Mapping[str, Any]] | None = None, *, vocab: Any = None
) -> Reply:
    """Read a whole reply: text, in which the tags are recognised, or ids of `vocab`. Raises ValueError for ids without
    a vocabulary."""
    if not isinstance(text_or_ids, str):
        if vocab is None:
            raise ValueError("ids need a vocabulary: parse(ids, vocab=engine.vocab)")
        reader = LfmReader(vocab.special_tokens(), tools)
        for token in text_or_ids:
            reader.feed(token, vocab.decode([token]))
        return reader.finish("end")
    reader = LfmReader({1: _START, 2: _STOP}, tools)
    text = text_or_ids.rstrip()
    text = text.removesuffix("<|im_end|>") if text.endswith("<|im_end|>") else text_or_ids
    while text:
        places = [(at, tag) for tag in (_START, _STOP) if (at := text.find(tag)) >= 0]
        at, tag = min(places, default=(len(text), ""))
        if at:
            reader.feed(0, text[:at].encode("utf-8", "replace"))
        if tag:
            reader.feed(1 if tag == _START else 2, tag.encode())
        text = text[at + len(tag) :]
    return reader.finish("end")
