"""What is trained when: copying first, then episodes, at the end with their system blocks and the MTP layer."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["REFINING", "Plan", "Stage"]


@dataclass(frozen=True)
class Stage:
    """copying: share of the batches that are exercises. system: share of the rows with a system block. mtp: weight of
    the MTP loss (0: not computed)."""

    until: float
    copying: float
    system: float
    mtp: float


@dataclass(frozen=True)
class Plan:
    """tokens: of the whole training. Learning rate: up for `warmup` steps, level, then straight down to 2 % over the
    last `decay` of the tokens. A stage reaches `until` its share of the tokens."""

    tokens: int = 8_000_000
    rate: float = 3e-3
    warmup: int = 50
    decay: float = 0.45
    rows: int = 4
    length: int = 1024
    stages: tuple[Stage, ...] = (
        Stage(0.08, 1.0, 0.0, 0.0),
        Stage(0.45, 0.25, 0.1, 0.0),
        Stage(0.70, 0.12, 0.3, 0.3),
        Stage(1.00, 0.05, 0.6, 0.3),
    )

    def stage(self, seen: int) -> Stage:
        """The stage after `seen` tokens."""
        return next((s for s in self.stages if seen < s.until * self.tokens), self.stages[-1])

    def learning_rate(self, step: int, seen: int) -> float:
        left = 1 - seen / self.tokens
        return self.rate * min(1.0, (step + 1) / self.warmup) * max(0.02, min(1.0, left / self.decay))


REFINING = Plan(
    tokens=3_000_000,
    rate=1.2e-3,
    warmup=20,
    decay=0.7,
    rows=3,
    stages=(Stage(0.6, 0.04, 0.25, 0.15), Stage(1.0, 0.02, 0.5, 0.3)),
)
"""For a network that can copy already: episodes nearly alone, gentler steps."""
