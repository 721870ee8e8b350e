"""What a drafter is: something that guesses the next tokens of one sequence, cheaply.

A drafter's guesses change speed and nothing else. Whatever it raises, lags behind or gets wrong costs a slower step:
`Speculator` catches it and goes on without a draft.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from .._native import NativeContext

__all__ = ["Draft", "Drafter", "DrafterFactory"]


class Draft(NamedTuple):
    """`ids` follow the sequence's last token. `evidence` says how good they look by the drafter's own measure (a match
    length, a confidence step): drafts of equal evidence share one record of acceptance."""

    ids: list[int]
    evidence: int = 0


class Drafter(Protocol):
    """One per sequence. The engine's lock is held around every call."""

    @property
    def name(self) -> str: ...
    @property
    def depth(self) -> int:
        """The most tokens that one draft can have."""
        ...

    def peek(self, tokens: Sequence[int]) -> int | None:
        """The evidence that `propose` would have, or None if it has nothing to propose; costs next to nothing."""
        ...

    def propose(self, tokens: Sequence[int], k: int) -> Draft:
        """Up to `k` ids that may follow `tokens`, whose last one waits to be decoded."""
        ...

    def observe(self, ctx: NativeContext, ids: Sequence[int], start: int, rows: int) -> None:
        """The target has just decoded `ids` at position `start`; the first `rows` of them stay."""
        ...

    def rewind(self, n: int) -> None:
        """Tokens behind the first `n` are gone."""
        ...

    def move(self, slot: int | None) -> None:
        """The sequence was given `slot`, or parked (None). What a drafter keeps per slot goes with it."""
        ...

    def fork(self, slot: int | None) -> Drafter:
        """A drafter for a copy of the sequence in `slot` (None: parked)."""
        ...

    def save(self) -> bytes:
        """What `load` needs to go on in another process; empty if nothing is worth keeping."""
        ...

    def load(self, data: bytes, tokens: Sequence[int]) -> None:
        """Go on behind `tokens` with what `save` gave, or without it. Bad data is as good as none."""
        ...


class DrafterFactory(Protocol):
    """Makes drafters for the sequences of one engine, and holds what they share."""

    @property
    def name(self) -> str: ...
    @property
    def depth(self) -> int: ...
    def create(self) -> Drafter: ...
    def close(self) -> None: ...
