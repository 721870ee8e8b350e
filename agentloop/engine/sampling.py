"""Logits to a token: the one place that turns a row of logits into a distribution.

`target_probs(row, ...)` applies, in llama.cpp's order: the mask of allowed ids, penalties, top-k, top-p (on the softmax
of what top-k left, at temperature 1), min-p (against the largest probability left), temperature, softmax. Draws,
acceptance of drafts and audits all use it, so they cannot disagree.

The random number of a position depends on (seed, position) alone, never on how many numbers were drawn before: the
same text comes out under any draft schedule, as far as the logits are the same.
"""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..exceptions import DecodeError
from .seam import Sampling

__all__ = ["Sampler", "target_probs", "uniform"]

_MASK = (1 << 64) - 1


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) from (seed, position): SplitMix64 (Steele, Lea, Flood 2014) over their mixture, 53 bits."""
    z = (seed * 0xD1342543DE82EF95 + (position + 1) * 0x9E3779B97F4A7C15) & _MASK
    for _ in range(2):
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        z ^= z >> 31
    return (z >> 11) / (1 << 53)


def target_probs(
    row: NDArray[np.float32],
    sampling: Sampling,
    history: Sequence[int] = (),
    allowed: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The distribution that a token is drawn from.

    `row`: float32 [n_vocab] raw logits, left as they are. `history`: all tokens before this position (penalties look at
    the last `penalty_last_n`). `allowed`: bool [n_vocab].

    Returns ids, int64 [m], and their probabilities, float64 [m], most probable first (ties: smaller id first), summing
    to 1; every id not listed has probability 0. With temperature 0, one id with probability 1. ValueError when the mask
    allows no id or every allowed logit is -inf or NaN.
    """
    logits = _penalised(row.astype(np.float64), sampling, history)
    if allowed is not None:
        logits = np.where(allowed, logits, -np.inf)
    logits[np.isnan(logits)] = -np.inf
    if sampling.temperature == 0.0:
        best = int(np.argmax(logits))
        if logits[best] == -np.inf:
            raise ValueError("no token is allowed here")
        return np.array([best], np.int64), np.ones(1)
    k = sampling.top_k if 0 < sampling.top_k < len(logits) else len(logits)
    if k < len(logits):
        bar = np.partition(logits, len(logits) - k)[len(logits) - k]
        above, level = np.flatnonzero(logits > bar), np.flatnonzero(logits == bar)
        ids = np.concatenate([above, level[: k - len(above)]])
    else:
        ids = np.arange(len(logits))
    ids = ids[np.lexsort((ids, -logits[ids]))]
    values = logits[ids]
    ids, values = ids[values > -np.inf], values[values > -np.inf]
    if not len(ids):
        raise ValueError("no token is allowed here")
    if sampling.top_p < 1.0:
        probs = _softmax(values)
        keep = int(np.searchsorted(np.cumsum(probs), sampling.top_p)) + 1
        ids, values = ids[:keep], values[:keep]
    if sampling.min_p > 0.0:
        keep = int(np.count_nonzero(values >= values[0] + np.log(sampling.min_p)))
        ids, values = ids[:keep], values[:keep]
    return ids.astype(np.int64), _softmax((values - values[0]) / sampling.temperature)


def _softmax(values: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.exp(values - values.max())
    total: NDArray[np.float64] = weights / weights.sum()
    return total


def _penalised(logits: NDArray[np.float64], sampling: Sampling, history: Sequence[int]) -> NDArray[np.float64]:
    """llama.cpp's penalties sampler: a positive logit is divided by repetition_penalty, others are multiplied; then
    count * frequency_penalty + presence_penalty is taken off."""
    s = sampling
    if s.penalty_last_n == 0 or (s.repetition_penalty == 1.0 and not s.presence_penalty and not s.frequency_penalty):
        return logits
    counts = Counter(history[-s.penalty_last_n :])
    if counts:
        ids = np.fromiter(counts.keys(), np.int64, len(counts))
        number = np.fromiter(counts.values(), np.float64, len(counts))
        seen = logits[ids]
        seen = np.where(seen > 0, seen / s.repetition_penalty, seen * s.repetition_penalty)
        logits[ids] = seen - number * s.frequency_penalty - s.presence_penalty
    return logits


class Sampler:
    """Chooses tokens by one `Sampling`. `seed` is the one in use (a fresh 64-bit one where Sampling has none)."""

    __slots__ = ("_plain_greedy", "sampling", "seed")

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        self.seed = secrets.randbits(64) if sampling.seed is None else sampling.seed & _MASK
        s = sampling
        penalised = s.repetition_penalty != 1.0 or s.presence_penalty != 0.0 or s.frequency_penalty != 0.0
        self._plain_greedy = s.temperature == 0.0 and not penalised

    def choose(self, row: NDArray[np.float32], history: Sequence[int], allowed: NDArray[np.bool_] | None = None) -> int:
        """The token at position len(history). Raises DecodeError when the logits are not numbers, ValueError when the
        mask allows nothing."""
        if self._plain_greedy:
            seen = row if allowed is None else np.where(allowed, row, np.float32(-np.inf))
            best = int(seen.argmax())
            if math.isnan(seen.item(best)):  # argmax answers the first NaN
                raise _not_numbers(len(history))
            if allowed is not None and not allowed[best]:
                raise ValueError("no token is allowed here")
            return best
        if allowed is None and np.isnan(row).any():
            raise _not_numbers(len(history))
        ids, probs = target_probs(row, self.sampling, history, allowed)
        if len(ids) == 1:
            return int(ids[0])
        # In order of ids, not of probability: a harmless difference of logits then moves a border a little, where two
        # tokens that change places would change the text.
        order = np.argsort(ids)
        point = uniform(self.seed, len(history))
        place = int(np.searchsorted(np.cumsum(probs[order]), point, side="right"))
        return int(ids[order[min(place, len(ids) - 1)]])


def _not_numbers(position: int) -> DecodeError:
    return DecodeError(0, position, "the model's logits are not numbers; its file is damaged or made for other code")


def logprob(row: NDArray[np.float32], token: int) -> float:
    """Natural logarithm of the token's probability under the softmax of the raw logits."""
    values = row.astype(np.float64)
    top = values.max()
    return float(values[token] - top - np.log(np.exp(values - top).sum()))
