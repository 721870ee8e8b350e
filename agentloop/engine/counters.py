"""What a sequence counts while it works."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .checkpoints import Checkpoint
from .seam import SequenceStats

__all__ = ["Counters"]


@dataclass(slots=True)
class Counters:
    """The mutable form of SequenceStats; see there for the meaning of each."""

    evaluated: int = 0
    recomputed: int = 0
    generated: int = 0
    drafted: dict[str, int] = field(default_factory=dict[str, int])
    accepted: dict[str, int] = field(default_factory=dict[str, int])
    prefill_s: float = 0.0
    draft_s: float = 0.0
    decode_s: float = 0.0

    def frozen(self, checkpoints: Iterable[Checkpoint]) -> SequenceStats:
        held = list(checkpoints)
        return SequenceStats(
            self.evaluated,
            self.recomputed,
            self.generated,
            dict(self.drafted),
            dict(self.accepted),
            self.prefill_s,
            self.draft_s,
            self.decode_s,
            len(held),
            sum(c.n_bytes for c in held),
        )
