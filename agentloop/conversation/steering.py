"""ReplySteering: watches the tokens of one reply; reads them, reports them, keeps the reasoning budget, stops loops.

It runs in the decoding thread. The reader, the budget and the loop detector know no engine; here their answers become
the engine's Force and Stop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.seam import Force, Stop, Token, VocabLike
from ..events import BudgetForced, CallDelta, CallReady, Event, ReasoningDelta, TextDelta
from ..templates import Reply, Template, reply_types
from ..templates.budget import ReasoningBudget
from ..templates.loops import LoopDetector
from .constraining import ReplyConstraints
from .thinking import Thinking
from .turns import ReplyFinish

__all__ = ["ReplySteering", "budget_for"]

END_OF_REASONING = "</think>"
LIKELY = math.log(10)
"""Above a tenth of the most probable token's probability, the end of reasoning counts as likely."""
LATE = 3
"""Tokens that the rest of a character can have."""


def budget_for(thinking: Thinking, vocab: VocabLike, most: int | None = None) -> ReasoningBudget | None:
    """The budget that `thinking` asks for, or one of `most` tokens if that is less; None for no bound.

    Raises ValueError for a budget that cannot be kept: the vocabulary has no end of reasoning, or `close` is longer
    than the budget.
    """
    if not thinking.enabled or (thinking.budget is None and most is None):
        return None
    if most is None or (thinking.budget is not None and thinking.budget <= most):
        assert thinking.budget is not None
        return ReasoningBudget(thinking.budget, vocab, close=thinking.close)
    if vocab.token_id(END_OF_REASONING) is None:
        return None
    return ReasoningBudget(most, vocab)


class ReplySteering:
    """Satisfies the engine's Steering for one reply. `tools` are the schemas that its calls are validated by; `room` is
    how many tokens the reply may have, so that a budget leaves some for the answer; `constraints` mask what is behind
    the reasoning."""

    def __init__(
        self,
        vocab: VocabLike,
        template: Template,
        tools: Sequence[Mapping[str, Any]],
        thinking: Thinking,
        *,
        emit: Callable[[Event], None],
        budget: ReasoningBudget | None = None,
        room: int | None = None,
        first_call: int = 0,
        constraints: ReplyConstraints | None = None,
    ) -> None:
        self._vocab = vocab
        self._emit = emit
        self._first_call = first_call
        self._reader = template.reader(vocab.special_tokens(), list(tools), thinking=thinking.enabled)
        self._budget = budget
        self._constraints = constraints
        self._loops = LoopDetector()
        self._unfinished = 0  # tokens since a loop was found inside a character
        if budget is not None:
            budget.rearm(room)
        self._forced = budget is not None and budget.limit == 0  # then `allowed` does the forcing
        self._answer_only: NDArray[np.bool_] | None = None

    @property
    def phase(self) -> str:
        """Where the reply stands: "reasoning", "content" or "call"."""
        return self._reader.phase

    @property
    def reasoning_tokens(self) -> int:
        """Reasoning tokens so far."""
        return self._reader.reasoning_tokens

    def accept(self, token: Token) -> Stop | Force | None:
        """Read one more token, report what it says, and answer what the budget or a loop asks for."""
        piece = self._vocab.decode((token.id,))
        for event in self._reader.feed(token.id, piece):
            if isinstance(event, reply_types.TextDelta):
                self._emit(TextDelta(event.text))
            elif isinstance(event, reply_types.ReasoningDelta):
                self._emit(ReasoningDelta(event.text))
            elif isinstance(event, reply_types.CallDelta):
                self._emit(CallDelta(event.index, event.name, event.text))
        phase = self._reader.phase
        if self._constraints is not None:
            self._constraints.accept(token.id, phase)
            self._reader.held = self._constraints.hold_calls
        if self._budget is not None:
            likely = token.watched_gap is not None and token.watched_gap < LIKELY
            close = self._budget.accept(token.id, piece, phase, in_draft=self._reader.in_draft, end_is_likely=likely)
            if close is not None:
                return self._close(close.ids, close.reason)
        loop = self._loops.feed(token.id, phase)
        if loop is None or token.id in self._vocab.eog or token.drafted_by == "forced":
            return None
        if phase == "reasoning" and self._vocab.token_id(END_OF_REASONING) is not None:
            if not self._reader.at_boundary and self._unfinished < LATE:
                self._unfinished += 1  # a character is completed first, unless no token goes on with it
                return None
            self._unfinished = 0
            self._loops.reset()
            return self._close(self._vocab.encode_parts([(f"\n{END_OF_REASONING}\n\n", True)]), f"loop: {loop.reason}")
        return Stop(f"loop: {loop.reason}")

    def allowed(self) -> NDArray[np.bool_] | None:
        """What the budget and the constraints allow next."""
        mask = self._allowed_by_budget()
        if self._constraints is None or (held := self._constraints.allowed()) is None:
            return mask
        return held if mask is None else held & mask

    def _allowed_by_budget(self) -> NDArray[np.bool_] | None:
        """What the budget allows next; and behind reasoning that was closed for the model, no tag of reasoning: it may
        want to close what it had not finished, and a reply has one end of reasoning."""
        if self._forced and self._reader.phase == "content":
            if self._answer_only is None:
                self._answer_only = np.ones(self._vocab.n_tokens, np.bool_)
                tags = (self._vocab.token_id(tag) for tag in ("<think>", END_OF_REASONING))
                self._answer_only[[tag for tag in tags if tag is not None]] = False
            return self._answer_only
        return None if self._budget is None else self._budget.allowed()

    @property
    def watched(self) -> int | None:
        """The id whose probability the budget wants to know now."""
        return None if self._budget is None else self._budget.watched

    def room(self) -> int | None:
        """How many tokens may come before the budget can answer."""
        return None if self._budget is None else self._budget.room()

    def finish(self, reason: ReplyFinish) -> tuple[Reply, tuple[str, ...]]:
        """The reply and the ids of its calls; reports the calls. What stands behind a call can change what it is, so
        none is reported before the reply has ended."""
        reply = self._reader.finish("failed" if reason == "prefilled" else reason)
        ids = tuple(f"call_{self._first_call + i}" for i in range(len(reply.calls)))
        for i, (call, call_id) in enumerate(zip(reply.calls, ids, strict=True)):
            self._emit(CallReady(i, call, call_id))
        return reply, ids

    def _close(self, ids: Sequence[int], reason: str) -> Force:
        self._forced = True
        self._emit(BudgetForced(self.reasoning_tokens, reason))
        return Force(tuple(ids), reason)
