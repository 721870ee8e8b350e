"""Tokens in, tokens out: models, sequences and their live state. Knows no message, tool or template."""

from __future__ import annotations

from .checkpoints import Checkpoint
from .engine import Engine
from .sampling import target_probs
from .seam import (
    CancelToken,
    EngineLike,
    Force,
    Sampling,
    SequenceLike,
    SequenceStats,
    Steering,
    Stop,
    Token,
    VocabLike,
)
from .sequence import Sequence
from .snapshots import Snapshot
from .stores import DiskStore, RamStore

__all__ = [
    "CancelToken",
    "Checkpoint",
    "DiskStore",
    "Engine",
    "EngineLike",
    "Force",
    "RamStore",
    "Sampling",
    "Sequence",
    "SequenceLike",
    "SequenceStats",
    "Snapshot",
    "Steering",
    "Stop",
    "Token",
    "VocabLike",
    "target_probs",
]
