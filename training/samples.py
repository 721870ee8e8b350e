"""Token sequences with the weight of each token in the loss: episodes, and exercises in copying."""

from __future__ import annotations

import random

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from .episodes import Episode, episode
from .rendering import groups
from .tokenizer import encode

__all__ = ["Mask", "copy_rows", "encoded", "packed_rows"]

Tokens = NDArray[np.int64]
Mask = NDArray[np.float32]
"""1: learnt. 0: context."""


def encoded(tokenizer: Tokenizer, e: Episode, *, with_system: bool) -> tuple[list[int], list[float]]:
    """Ids and weights of an episode: the replies count from behind the generation prompt to their end of turn, or from
    behind the end of reasoning that was cut."""
    ids: list[int] = []
    weights: list[float] = []
    for group in groups(e, with_system=with_system):
        more = encode(tokenizer, group.pieces)
        ids += more
        weights += [float(group.learnt)] * len(more)
    return ids, weights


def packed_rows(
    tokenizer: Tokenizer, r: random.Random, *, rows: int, length: int, system_share: float, long: float = 0.0
) -> tuple[Tokens, Mask]:
    """`rows` x `length` tokens, each row one conversation that is cut at its end; one that is too short is followed by
    the beginning of another, which is not learnt behind a system block: that declares the tools of the first.

    system_share: of the rows, those that begin with a system block. long: of the tasks, those with long files.
    """
    tokens, mask = np.zeros((rows, length), np.int64), np.zeros((rows, length), np.float32)
    for row in range(rows):
        ids: list[int] = []
        weights: list[float] = []
        shown = r.random() < system_share
        while len(ids) < length:
            e = episode(r.getrandbits(48), room=length - len(ids), long=long, shown=shown and not ids)
            more, marks = encoded(tokenizer, e, with_system=shown and not ids)
            weights += [0.0] * len(more) if shown and ids else marks
            ids += more
        tokens[row], mask[row] = ids[:length], weights[:length]
    return tokens, mask


def copy_rows(tokenizer: Tokenizer, r: np.random.Generator, *, rows: int, length: int) -> tuple[Tokens, Mask]:
    """Exercises that teach copying alone: repeated segments, digit strings, key-value recall. What repeats counts.

    Without them a model of this size learns the format of calls and invents what is in them.
    """
    size = tokenizer.get_vocab_size() - 9
    digits = np.array([tokenizer.token_to_id(str(d)) for d in range(10)])
    tokens = r.integers(0, size, (rows, length)).astype(np.int64)
    mask = np.zeros((rows, length), np.float32)
    for row, marks in zip(tokens, mask, strict=True):
        kind = r.random()
        if kind < 0.25:
            row[:] = digits[r.integers(0, 10, length)]
        elif kind < 0.35:
            row[:] = r.integers(0, size, 24)[r.integers(0, 24, length)]
        if kind < 0.60:
            _repeats(row, marks, r)
        else:
            _recall(row, marks, r, digits if r.random() < 0.5 else np.arange(size))
    return tokens, mask


def _repeats(row: Tokens, marks: Mask, r: np.random.Generator) -> None:
    """A segment, then parts of it again and again; a part counts from its third token on."""
    length = int(r.integers(4, min(90, len(row) // 3)))
    segment = row[:length].copy()
    at = length
    while True:
        at += int(r.integers(0, 12))
        part = segment[int(r.integers(0, max(1, length - 3))) :]
        if at + len(part) > len(row):
            return
        row[at : at + len(part)] = part
        marks[at + 2 : at + len(part)] = 1.0
        at += len(part)


def _recall(row: Tokens, marks: Mask, r: np.random.Generator, values: NDArray[np.int64]) -> None:
    """Lines of key, separator, value, end; then keys in any order, whose values are asked for.

    Every line has the same separators, as in a file of settings, and values of one to four tokens.
    """
    count = int(r.integers(2, 10))
    keys, between, end = r.choice(row, count, replace=False), int(row[-1]), int(row[-2])
    lines = [np.array([key, between, *values[r.integers(0, len(values), r.integers(1, 5))], end]) for key in keys]
    at = 0
    for line in lines:
        row[at : at + len(line)] = line
        at += len(line)
    while True:
        line = lines[int(r.integers(0, count))]
        at += int(r.integers(0, 4))
        if at + len(line) > len(row):
            return
        row[at : at + len(line)] = line
        marks[at + 2 : at + len(line)] = 1.0
        at += len(line)
