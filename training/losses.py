"""The batch of a step, and what a network loses on its rows."""

from __future__ import annotations

import random
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor

from .samples import copy_rows, packed_rows
from .schedule import Stage

__all__ = ["FACTS", "Network", "losses", "rows_of"]

FACTS = 5
"""Sums that `losses` returns: loss, right and all of the learnt tokens; right and all of the MTP layer's."""


class Network(Protocol):
    """What is trained: a torch module with these two, and `mtp` where it has such a layer."""

    def trunk(self, tokens: Tensor) -> Tensor: ...
    def head(self, hidden: Tensor) -> Tensor: ...


def rows_of(tokenizer: Tokenizer, stage: Stage, seed: int, step: int) -> tuple[Tensor, Tensor, str]:
    """Tokens and weights [rows, length] of batch `step`, and its kind: "copy" or "episode"."""
    r = random.Random(f"batch {seed} {step}")
    if r.random() < stage.copying:
        generator = np.random.default_rng(r.getrandbits(48))
        length = min(stage.length, r.choice((128, 128, stage.length)))
        tokens, mask = copy_rows(tokenizer, generator, rows=stage.rows * stage.length // length, length=length)
        tokens, mask = tokens.reshape(stage.rows, -1), mask.reshape(stage.rows, -1)  # every batch has the same shape
        return torch.from_numpy(tokens), torch.from_numpy(mask), "copy"
    tokens, mask = packed_rows(
        tokenizer, r, rows=stage.rows, length=stage.length, system_share=stage.system, long=stage.long
    )
    return torch.from_numpy(tokens), torch.from_numpy(mask), "episode"


def losses(
    network: Any, tokens: Tensor, mask: Tensor, *, learnt: float, mtp: float = 0.0, ahead: int = 1
) -> tuple[Tensor, Tensor]:
    """The loss of some rows of a batch in which `learnt` tokens count, and the sums of `FACTS` [5], float64.

    The parts of a batch add up to the loss of the whole. The MTP layer is chained `ahead` times: it reads its own row
    of the step before, as it does when it drafts; each of them weighs mtp / ahead.
    """
    hidden = network.trunk(tokens)
    loss, right, count = _cross_entropy(network, hidden, tokens, mask, 1)
    facts = [loss.item() / learnt, right, count, 0.0, 0.0]
    loss = loss / learnt
    if mtp and hasattr(network, "mtp"):
        for depth in range(1, ahead + 1):
            # the rows that wrap around predict nothing that counts
            hidden = network.mtp(tokens.roll(-depth, 1), hidden, first=depth)
            extra, right, count = _cross_entropy(network, hidden, tokens, mask, depth + 1)
            loss = loss + extra * (mtp / ahead / learnt)
            facts[3] += right
            facts[4] += count
    return loss, torch.tensor(facts, dtype=torch.float64)


def _cross_entropy(
    network: Network, hidden: Tensor, tokens: Tensor, mask: Tensor, shift: int
) -> tuple[Tensor, float, float]:
    """Summed cross entropy of rows that predict `shift` tokens further, how many are right, and how many count."""
    chosen = mask[:, shift:] > 0
    if not chosen.any():
        return hidden.sum() * 0.0, 0.0, 0.0
    logits = network.head(hidden[:, :-shift][chosen]).float()
    wanted = tokens[:, shift:][chosen]
    right = (logits.detach().argmax(-1) == wanted).sum().item()
    return F.cross_entropy(logits, wanted, reduction="sum"), right, float(len(wanted))
