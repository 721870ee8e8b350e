"""Texts of a grammar, made by walking through its masks at random, as a model without sense would."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np

from agentloop.engine.bytevocab import ByteVocab
from agentloop.engine.constraint import Constraint

SOUP = (
    "</parameter>",
    "\n</parameter>",
    "\n</parameter>\n",
    "\n</function>\n",
    "</tool_call>",
    "<tool_call>",
    "\n<parameter=a>\n",
    "<parameter=b>",
    "<function=f>",
    "true",
    "null",
    "7",
    "é",
    "\U0001f600",
    "\n\n",
    " ",
    '"',
    "\\n",
)
"""What is likely to be read wrongly."""

ENDS = ("\n</parameter>\n", "x>\n", "</function>\n", '"', "}", "]", '"}', "null", "0", "true", ",")


def walk(
    constraint: Constraint,
    vocab: ByteVocab,
    random: Random,
    *,
    steps: int = 60,
    most: int = 600,
    soup: Sequence[str] = SOUP,
    ends: Sequence[str] | None = None,
) -> list[int]:
    """Ids of a whole text: `steps` random ones, then what ends it soonest: the first of ENDS that fits, or any of
    `ends`. AssertionError when it does not end."""
    ids: list[int] = []

    def take(new: list[int]) -> None:
        for token in new:
            assert constraint.accept(token), (vocab.decode(ids), token)
            ids.append(token)

    def fits(text: str) -> list[int]:
        new = list(text.encode())
        return new if constraint.how_many(new) == len(new) else []

    for step in range(most):
        if constraint.finished:
            return ids
        allowed = np.flatnonzero(constraint.allowed())
        specials = [int(token) for token in allowed if int(token) in vocab.special_tokens()]
        late = step > steps
        ending = ENDS if ends is None else random.sample(ends, len(ends))
        if late and specials:
            take(specials[-1:])
            continue
        new = next((new for text in ending if (new := fits(text))), []) if late else fits(random.choice(soup))
        take(new if new and (late or random.random() < 0.5) else [int(random.choice(allowed))])
    raise AssertionError(f"no end: {vocab.decode(ids)[:300]!r}")
