"""Decoding ahead: while tools run, what is known already of the next turn goes through the model.

That is the token that waits (the end of the reply) and the scaffold before the first tool result. The result then costs
only itself. What is known is found by rendering different results and keeping the tokens that they all begin with, so
it holds for every template and tokenizer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine.seam import CancelToken

if TYPE_CHECKING:
    from .conversation import Conversation

__all__ = ["decode_ahead"]

_RESULTS = ("a", "1", "(", "")


def decode_ahead(c: Conversation, cancel: CancelToken | None = None) -> int:
    """See `Conversation.decode_ahead`; the caller holds the conversation."""
    if c.pending or c._ended != "complete" or not c.open_calls or len(c.sequence) > c._mark:
        return 0
    spelled = [
        c.engine.vocab.encode_parts(
            c.template.continuation(
                [{"role": "tool", "content": text}], ended="complete", add_generation_prompt=False, **c.knobs
            )
        )
        for text in _RESULTS
    ]
    n = next((i for i, column in enumerate(zip(*spelled, strict=False)) if len(set(column)) > 1), 0)
    if not n or len(c.sequence) + n >= c.sequence.n_ctx:
        return 0
    c.sequence.extend(spelled[0][:n], cancel=cancel)
    c._ahead = n
    return n
