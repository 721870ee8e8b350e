"""What is trained when: copying first, then episodes, in longer and longer rows, at the end with the MTP layer.

A few exercises stay to the end: they alone hold every token, and a token that is never learnt is never written.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["REFINING", "Plan", "Stage"]


@dataclass(frozen=True)
class Stage:
    """A part of the training, up to the share `until` of its tokens.

    copying: share of the batches that are exercises. system: share of the rows with a system block. long: share of the
    tasks with long files. mtp: weight of the MTP loss (0: not computed), `ahead` how often the layer is chained. rows x
    length: the tokens of a batch.
    """

    until: float
    copying: float
    system: float
    mtp: float = 0.0
    ahead: int = 1
    long: float = 0.0
    rows: int = 6
    length: int = 1024


@dataclass(frozen=True)
class Plan:
    """tokens: of the whole training. Learning rate: up for `warmup` steps, level, then straight down to 2 % over the
    last `decay` of the tokens."""

    tokens: int = 16_000_000
    rate: float = 1.5e-3
    warmup: int = 60
    decay: float = 0.95
    stages: tuple[Stage, ...] = (
        Stage(0.02, copying=0.6, system=0.1, rows=4),
        Stage(0.25, copying=0.1, system=0.35, rows=4),
        Stage(0.60, copying=0.03, system=0.5, mtp=0.15, long=0.1, rows=2, length=2048),
        Stage(0.88, copying=0.02, system=0.85, mtp=0.3, ahead=2, long=0.2, rows=2, length=4096),
        Stage(1.00, copying=0.01, system=0.9, mtp=0.3, ahead=3, long=0.25, rows=2, length=8192),
    )

    @property
    def fewest_rows(self) -> int:
        """Of a batch: no more processes can share it."""
        return min(stage.rows for stage in self.stages)

    def stage(self, seen: int) -> Stage:
        """The stage after `seen` tokens."""
        return next((s for s in self.stages if seen < s.until * self.tokens), self.stages[-1])

    def learning_rate(self, step: int, seen: int) -> float:
        left = 1 - seen / self.tokens
        return self.rate * min(1.0, (step + 1) / self.warmup) * max(0.02, min(1.0, left / self.decay))


REFINING = Plan(
    tokens=16_000_000,
    rate=9e-4,
    warmup=50,
    decay=0.95,
    stages=(
        Stage(0.70, copying=0.05, system=0.5, mtp=0.2, ahead=2, long=0.15, rows=2, length=2048),
        Stage(0.90, copying=0.03, system=0.8, mtp=0.3, ahead=3, long=0.25, rows=2, length=4096),
        Stage(1.00, copying=0.02, system=0.9, mtp=0.3, ahead=3, long=0.3, rows=2, length=8192),
    ),
)
"""For a network that knows its tasks and still makes mistakes: more of them, gentler steps."""
