"""Checkpoints: recurrent states kept at chosen positions, bounded in bytes over all sequences of an engine.

A checkpoint holds the recurrent part alone (attention KV before it stays live in its sequence) and the logits row
behind it, so that generating again from exactly that point decodes nothing. When the bytes run out the least useful
go first: automatic ones inside a prefill, then unnamed, tool and turn boundaries; among equals the least recently used.
Pinned ones go only with their sequence.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Checkpoint", "CheckpointBudget", "available_memory"]

_USEFULNESS = {"prefill": 0, "": 1, "tool": 2, "turn": 3, "system": 4}


@dataclass(slots=True, eq=False)
class Checkpoint:
    """State behind `position` tokens. `row`: float32 [n_vocab] logits there, or None. `state`: llama.cpp's partial
    sequence state, empty on attention-only models. Forks share checkpoints; only `used` ever changes."""

    position: int
    state: bytes = field(repr=False)
    row: NDArray[np.float32] | None = field(repr=False)
    label: str = ""
    pinned: bool = False
    used: int = 0

    @property
    def n_bytes(self) -> int:
        return len(self.state) + (0 if self.row is None else self.row.nbytes)


class _Holder(Protocol):
    _checkpoints: list[Checkpoint]


class CheckpointBudget:
    """Thins the checkpoints of `holders` (every sequence of an engine) to `limit` bytes. A checkpoint that forks share
    counts once and goes from all of them at once. The engine's lock is held around every call."""

    def __init__(self, limit: int, holders: Iterable[_Holder]) -> None:
        self.limit = limit
        self._holders = holders
        self._clock = 0

    def all(self) -> list[Checkpoint]:
        """Every checkpoint held by a living sequence, once."""
        return list({id(c): c for holder in list(self._holders) for c in holder._checkpoints}.values())

    @property
    def n_bytes(self) -> int:
        return sum(c.n_bytes for c in self.all())

    def touch(self, checkpoint: Checkpoint) -> None:
        """It was made or used now."""
        self._clock += 1
        checkpoint.used = self._clock

    def thin(self) -> int:
        """Drop the least useful ones until the rest fits; pinned ones stay even so. Returns how many were dropped."""
        held = self.all()
        excess = sum(c.n_bytes for c in held) - self.limit
        if excess <= 0:
            return 0
        victims: set[int] = set()
        for c in sorted(held, key=lambda c: (_USEFULNESS.get(c.label, 1), c.used)):
            if excess <= 0:
                break
            if not c.pinned:
                victims.add(id(c))
                excess -= c.n_bytes
        for holder in list(self._holders):
            holder._checkpoints = [c for c in holder._checkpoints if id(c) not in victims]
        return len(victims)


def available_memory() -> int:
    """Bytes of memory that can be had now without swapping; 2 GiB where the system does not say."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    try:
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) // 2
    except (AttributeError, ValueError, OSError):
        return 2 << 30
