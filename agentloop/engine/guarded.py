"""Steering whose answers are checked before they are used: what is wrong is named where it was said, by a typed error.

The token that steering was shown has been accepted by then, so the sequence is consistent and can go on.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import SteeringError
from .seam import Force, Steering, Stop, Token

__all__ = ["GuardedSteering", "guarded"]


def guarded(steering: Steering | None, n_vocab: int) -> GuardedSteering | None:
    """The steering with its answers checked, for a vocabulary of `n_vocab` ids. Raises SteeringError for an object that
    lacks one of the methods."""
    if steering is None or isinstance(steering, GuardedSteering):
        return steering
    for name in ("accept", "allowed", "room"):
        if not callable(getattr(steering, name, None)):
            raise SteeringError(f"steering needs the methods accept, allowed and room; {_kind(steering)} has no {name}")
    return GuardedSteering(steering, n_vocab)


class GuardedSteering:
    """Satisfies Steering; every method raises SteeringError when the inner one answers what cannot be used."""

    def __init__(self, inner: Steering, n_vocab: int) -> None:
        self._inner = inner
        self._n = n_vocab

    @property
    def watched(self) -> int | None:
        """The id that the inner steering watches."""
        watched: Any = getattr(self._inner, "watched", None)
        if watched is not None and not self._is_id(watched):
            raise SteeringError(f"steering.watched must be None or a token id below {self._n}, not {watched!r}")
        return None if watched is None else int(watched)

    def accept(self, token: Token) -> Stop | Force | None:
        answer: Any = self._inner.accept(token)
        if answer is None or isinstance(answer, Stop):
            return answer
        if not isinstance(answer, Force):
            raise SteeringError(f"steering.accept must return None, a Stop or a Force, not {_kind(answer)}")
        ids: Any = answer.ids
        if not isinstance(ids, Sequence) or not all(map(self._is_id, ids)):
            raise SteeringError(f"Force.ids must be token ids below {self._n}, not {ids!r}"[:300])
        return answer

    def allowed(self) -> NDArray[np.bool_] | None:
        mask: Any = self._inner.allowed()
        if mask is None:
            return None
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self._n,):
            got = f"{mask.dtype} {list(mask.shape)}" if isinstance(mask, np.ndarray) else _kind(mask)
            raise SteeringError(f"steering.allowed must return None or an array bool [{self._n}], not {got}")
        if not mask.any():
            raise SteeringError("steering.allowed allows no token; return None for all, or Stop from accept before it")
        return mask

    def room(self) -> int | None:
        room: Any = self._inner.room()
        if room is not None and (not isinstance(room, (int, np.integer)) or room < 0):
            raise SteeringError(f"steering.room must return None or a number >= 0, not {room!r}")
        return None if room is None else int(room)

    def _is_id(self, value: object) -> bool:
        try:
            return 0 <= operator.index(value) < self._n  # type: ignore[arg-type]
        except TypeError:
            return False


def _kind(value: object) -> str:
    return f"an object of type {type(value).__name__}"
