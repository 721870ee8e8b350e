"""A byte vocabulary with one token more, which has no bytes, as `[PAD]` and its like have none in many models."""

from __future__ import annotations

from agentloop.engine.bytevocab import ByteVocab

__all__ = ["PAD", "PaddedVocab"]

PAD = ByteVocab().n_tokens


class PaddedVocab(ByteVocab):
    """As ByteVocab; the id `PAD` decodes to nothing."""

    @property
    def n_tokens(self) -> int:
        return super().n_tokens + 1

    def piece(self, token: int) -> bytes:
        return b"" if token == PAD else super().piece(token)
