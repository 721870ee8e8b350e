"""The reasoning budget of one reply: at its limit the reasoning is closed for the model, which goes on with its answer.

A plain object that is told of every accepted token and answers what to put in, if anything. It knows no engine.

What is counted are the accepted tokens before the tag that ends the reasoning; what the prompt has already put into the
reply counts nothing. The closing text counts too, so a reply never holds more than `limit` reasoning tokens, and the
closing begins as early as it has to. Tokens without bytes count like all others. One exception: a character whose
bytes are spread over tokens is completed first, up to three tokens late, if an engine that takes no `allowed` began one
at the limit. Another: a call that begins in open reasoning is never cut; while its name is not known the limit waits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["BudgetVocab", "ForcedClose", "ReasoningBudget"]

BudgetReason = Literal["budget", "soft_end", "answer_room"]
"""The limit was reached; a natural end came in the zone before it; the limit was lowered to leave room to answer."""

_SENTENCE_END = re.compile(r"(?:[^\d\s][.!?][\"')\]*`]*\s*|\n|[。！？…][」』”）]*)\Z")
_ZONE = 64
_LATE = 3  # bytes that a character can lack


class BudgetVocab(Protocol):
    """What a budget needs of a vocabulary."""

    @property
    def n_tokens(self) -> int: ...
    def decode(self, ids: Sequence[int]) -> bytes: ...
    def encode_parts(self, parts: Iterable[tuple[str, bool]]) -> list[int]: ...
    def token_id(self, text: str) -> int | None: ...


@dataclass(frozen=True, slots=True)
class ForcedClose:
    """Put these ids in next, as one batch; they close the reasoning."""

    ids: tuple[int, ...]
    reason: BudgetReason


class ReasoningBudget:
    """A budget for one reply; `rearm` makes it ready for the next.

    limit: reasoning tokens allowed, >= 0. close: a sentence to end with, such as "Time to answer."; it is part of the
    reasoning and of the limit. soft: how many tokens before the limit the zone begins in which the end of a sentence,
    or an end of reasoning that the model itself holds for likely, closes at once (None: an eighth of the limit, at most
    64). room: tokens that the reply may have in all; then `answer_room` of them (None: a quarter, at least 16, at most
    1024) stay for the answer, and `limit` is lowered to what is left.

    Raises ValueError if the vocabulary has no single token for `tag`, if `limit` is negative, or if `close` alone has
    more tokens than `limit`.
    """

    def __init__(
        self,
        limit: int,
        vocab: BudgetVocab,
        *,
        close: str | None = None,
        tag: str = "</think>",
        gap: str = "\n\n",
        soft: int | None = None,
        room: int | None = None,
        answer_room: int | None = None,
    ) -> None:
        if limit < 0:
            raise ValueError(f"a reasoning budget must be >= 0 tokens, not {limit}")
        end = vocab.token_id(tag)
        if end is None:
            raise ValueError(f"this model has no single token {tag!r}, so its reasoning cannot be bounded")
        self._vocab = vocab
        self._end = end
        self._bare = tuple(vocab.encode_parts([(tag + gap, True)]))
        lined = tuple(vocab.encode_parts([("\n" + tag + gap, True)]))
        sentence = close.strip() if close else ""
        closing = tuple(vocab.encode_parts([(f"\n{sentence}", False), ("\n" + tag + gap, True)])) if sentence else lined
        if sentence and closing.index(end) > limit:
            raise ValueError(
                f"the closing text has {closing.index(end)} tokens, more than the budget of {limit}; "
                "shorten it or raise the budget"
            )
        self._lined = lined
        self._closings = (closing, lined, self._bare)
        self._asked = limit
        self._answer_room = answer_room
        self._soft = soft
        self._endings: _Endings | None = None
        self.rearm(room)

    def rearm(self, room: int | None = None) -> None:
        """Begin a new reply, which may have `room` tokens in all."""
        self.limit = self._asked
        if room is not None:
            answer = self._answer_room
            if answer is None:
                answer = min(max(room // 4, 16), 1024)
            self.limit = max(0, min(self._asked, room - answer - len(self._bare)))
        fitting = next(c for c in self._closings if c.index(self._end) <= self.limit)
        zone = min(self.limit // 8, _ZONE) if self._soft is None else self._soft
        self._hard = self.limit - fitting.index(self._end)
        self._at_once = fitting if self._hard == 0 else ()
        self._zone_from = max(1, self._hard - zone) if zone else self.limit + 1
        self.count = 0
        self._tail = b""
        self._open = True
        self._forced = False
        self._waits = False

    @property
    def reason(self) -> BudgetReason:
        """Why the limit is where it is."""
        return "answer_room" if self.limit < self._asked else "budget"

    @property
    def closed(self) -> bool:
        """The reasoning is over, or what closes it was given out."""
        return self._forced or not self._open

    def begin(self) -> ForcedClose | None:
        """Before the first token: what has to follow the prompt at once, if the limit holds the closing text alone.
        Where nobody asks, `allowed` lets only the first of these ids through, and `accept` gives out the others."""
        return self._force(self.reason) if self._at_once and not self.closed else None

    def accept(
        self, token: int, piece: bytes, phase: str, *, in_draft: bool = False, end_is_likely: bool = False
    ) -> ForcedClose | None:
        """One accepted token (forced ones included), its bytes, and the phase of the reply behind it.

        in_draft: a call may have begun in the reasoning. end_is_likely: the tag that ends the reasoning is among the
        likely next tokens. Answers at most once a reply, unless the model opens its reasoning again; that counts on.
        """
        if phase != "reasoning":
            self._open = self._forced = False
            return None
        self._open = True
        self.count += 1
        if self._forced:
            return None
        self._tail = (self._tail + piece)[-64:]
        self._waits = in_draft
        if self.count == 1 and self._at_once[:1] == (token,):
            self._forced = True
            return ForcedClose(self._at_once[1:], self.reason)
        if in_draft or (_missing_bytes(self._tail) and self.count < self.limit + _LATE):
            return None
        if self.count >= self._hard:
            return self._force(self.reason)
        if self.count >= self._zone_from and (end_is_likely or self._sentence_ended()):
            return self._force("soft_end")
        return None

    @property
    def watched(self) -> int | None:
        """The id of the end of reasoning inside the zone, where it matters whether it is likely; None elsewhere."""
        return self._end if self._open and not self._forced and self.count + 1 >= self._zone_from else None

    def room(self) -> int | None:
        """How many more tokens may come before `accept` can answer, or `allowed` can forbid anything. None: any."""
        if self.closed:
            return None
        return max(0, min(self._zone_from, self._hard, self.limit - 3) - self.count)

    def allowed(self) -> NDArray[np.bool_] | None:
        """Bool [n_tokens] of the ids that may come next, None for all: behind the last tokens before the limit no
        character may begin that the limit would cut, and one that has begun must go on in time; where the limit
        holds the closing text alone, only that may come."""
        left = self.limit - self.count
        if self.closed or self._waits or (left > _LATE and not self._at_once):
            return None
        missing = _missing_bytes(self._tail)
        if self.count == 0 and self._at_once:
            only = np.zeros(self._vocab.n_tokens, dtype=np.bool_)
            only[self._at_once[0]] = True
            return only
        if self._endings is None:
            self._endings = _Endings(self._vocab)
        fitting = self._endings.missing_behind(missing) < max(left, missing)
        return fitting if fitting.any() else None  # a vocabulary without single bytes

    def _sentence_ended(self) -> bool:
        return _SENTENCE_END.search(self._tail.decode("utf-8", "ignore")) is not None

    def _force(self, reason: BudgetReason) -> ForcedClose:
        self._forced = True
        left = self.limit - self.count
        ids = next((c for c in self._closings if c.index(self._end) <= left), self._bare)
        if ids is self._lined and self._tail.endswith(b"\n"):
            ids = self._bare
        return ForcedClose(ids, reason)


def _missing_bytes(tail: bytes) -> int:
    """How many bytes the last UTF-8 character of `tail` still lacks, 0 to 3."""
    for back in range(1, min(4, len(tail)) + 1):
        byte = tail[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return max(0, length - back)
        if byte < 0x80:
            return 0
    return 0


class _Endings:
    """How every token of a vocabulary ends; made once, when a limit first comes near."""

    def __init__(self, vocab: BudgetVocab) -> None:
        pieces = [vocab.decode([i]) for i in range(vocab.n_tokens)]
        self._missing = np.array([_missing_bytes(piece) for piece in pieces], np.int8)
        # A token that is nothing but the middle or the end of a character, or nothing at all, goes on with the one
        # before it: so many bytes of it; -1 for all other tokens.
        self._goes_on = np.array(
            [min(len(piece), 4) if all(0x80 <= byte < 0xC0 for byte in piece) else -1 for piece in pieces], np.int8
        )

    def missing_behind(self, missing: int) -> NDArray[np.int8]:
        """For every id, how many bytes the last character lacks behind it, where `missing` lack now."""
        return np.where(self._goes_on < 0, self._missing, np.maximum(missing - self._goes_on, 0))
