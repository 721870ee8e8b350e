"""ReplySteering: watches the tokens of one reply; reads them, reports them, keeps the reasoning budget, stops loops.

It runs in the decoding thread. The reader, the budget and the loop detector know no engine; here their answers become
the engine's Force and Stop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.seam import Force, Stop, Token, VocabLike
from ..events import CallDelta, CallReady, Event, ReasoningDelta, TextDelta
from ..templates import Reply, Template, reply_types
from .thinking import Thinking
from .turns import ReplyFinish

__all__ = ["ReplySteering"]


class ReplySteering:
    """Satisfies the engine's Steering for one reply. `tools` are the schemas that its calls are validated by."""

    def __init__(
        self,
        vocab: VocabLike,
        template: Template,
        tools: Sequence[Mapping[str, Any]],
        thinking: Thinking,
        *,
        emit: Callable[[Event], None],
        first_call: int = 0,
        max_reasoning: int | None = None,
    ) -> None:
        self._vocab = vocab
        self._emit = emit
        self._first_call = first_call
        self._reader = template.reader(vocab.special_tokens(), list(tools), thinking=thinking.enabled)

    @property
    def phase(self) -> str:
        """Where the reply stands: "reasoning", "content" or "call"."""
        return self._reader.phase

    @property
    def reasoning_tokens(self) -> int:
        """Reasoning tokens so far."""
        return self._reader.reasoning_tokens

    def accept(self, token: Token) -> Stop | Force | None:
        """Read one more token and report what it says."""
        piece = self._vocab.decode((token.id,))
        for event in self._reader.feed(token.id, piece):
            if isinstance(event, reply_types.TextDelta):
                self._emit(TextDelta(event.text))
            elif isinstance(event, reply_types.ReasoningDelta):
                self._emit(ReasoningDelta(event.text))
            elif isinstance(event, reply_types.CallDelta):
                self._emit(CallDelta(event.index, event.name, event.text))
        return None

    def allowed(self) -> NDArray[np.bool_] | None:
        """All tokens."""
        return None

    def room(self) -> int | None:
        """No bound."""
        return None

    def finish(self, reason: ReplyFinish) -> tuple[Reply, tuple[str, ...]]:
        """The reply, its calls, and their ids; reports the calls. What stands behind a call can change what
        it is, so none is reported before the reply has ended."""
        reply = self._reader.finish("failed" if reason == "prefilled" else reason)
        ids = tuple(f"call_{self._first_call + i}" for i in range(len(reply.calls)))
        for i, (call, call_id) in enumerate(zip(reply.calls, ids, strict=True)):
            self._emit(CallReady(i, call, call_id))
        return reply, ids
