"""How the network begins: seeded random matrices, set up so that it can look back from the first step on.

A small network that starts fully at random needs millions of tokens before it copies at all. Here every matrix is still
random, but some are made equal or transposed to each other, so that a random code written in one place is read in
another. (Such starts are called mimetic: Trockman et al., arXiv 2410.11135; the circuit is the induction head of
Olsson et al., arXiv 2209.11895.)

- Embeddings begin in the first half of the width. Their first place holds the same number in every token: the tied
  output cannot see it, and gates can open with it.
- The first DeltaNet forgets at once and carries codes of the three tokens before into the other half.
- The first attention and later DeltaNets compare the codes of this token and the two before with those three. They find
  what followed the last three tokens, at any distance (attention, in the places that hardly rotate) or lately
  (DeltaNet), and write it where the output reads it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from .layers import Attention, FeedForward

if TYPE_CHECKING:
    from .model import DeltaNet, TinyHybrid

__all__ = ["CARRIED", "OPEN", "embed", "initialise", "match", "turning"]

CONSTANT = 0.15
OPEN = 0.2
CARRIED = 0.03
FOLLOW = 0.03
MATCH = 6.0
SHARP = 2.0
BEFORE = (1.0, 1.0, 0.8)
"""How much each of the three tokens counts, the last one first."""

LAGS = 3


@torch.no_grad()
def initialise(model: TinyHybrid) -> None:
    """Set every parameter of `model` from torch's random numbers."""
    shape = model.shape
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2 and not name.endswith("conv"):
            nn.init.normal_(parameter, 0.0, 0.02)
    for module in model.modules():
        if isinstance(module, FeedForward):
            nn.init.normal_(module.down.weight, 0.0, 0.02 / math.sqrt(2 * shape.layers))
        if isinstance(module, Attention):
            nn.init.normal_(module.o.weight, 0.0, 0.02 / math.sqrt(2 * shape.layers))
    code, places = embed(model.embedding.weight, min(shape.state_size // 2, shape.width // 8))
    deltas = [block.delta for block in model.blocks if block.delta is not None]
    for number, delta in enumerate(deltas):
        _remember(delta)
        if number == 0:
            _carry(delta, code, places)
        else:
            _follow(delta, code, places)
    first = next(block.attention for block in model.blocks if block.attention is not None)
    match(first, code, places)


def embed(weight: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Prepare embeddings [vocabulary, width], with `size` places for the code of a token: the matrix that makes the
    code, [size, width], and the three that read the codes of the tokens before, [3, size, width]."""
    width = weight.shape[1]
    half = width // 2
    weight[:, :half] *= math.sqrt(2)
    weight[:, half:] *= 0.05
    weight[:, 0] = CONSTANT
    code = torch.zeros(size, width)
    code[:, 1:half] = torch.randn(size, half - 1) * 0.34 / math.sqrt(half)
    places = torch.zeros(LAGS, size, width)
    for lag in range(LAGS):
        at = half + lag * size
        places[lag, :, at : at + size] = torch.eye(size)
    return code, places


def _remember(delta: DeltaNet) -> None:
    """Slow head: half-life of hundreds of tokens; fast head: tens. Gates open."""
    heads = delta.shape.state_heads
    delta.dt.copy_(torch.expm1(torch.linspace(math.log(0.004), math.log(0.03), heads).exp()).log())
    delta.log_decay.copy_(torch.linspace(0.0, math.log(4.0), heads))
    delta.z.weight[:, 0] = OPEN


def _carry(delta: DeltaNet, code: Tensor, places: Tensor) -> None:
    """Parts of the value are the tokens one, two and three places back. Key and query are equal, and all before is
    forgotten."""
    s = delta.shape
    inner = s.state_heads * s.state_size
    delta.qkv.weight[inner : 2 * inner] = delta.qkv.weight[:inner]
    delta.conv.mul_(0.1)
    delta.conv[: 2 * inner, -1] += 1.0
    delta.o.weight.zero_()
    delta.qkv.weight[2 * inner :] = 0.0
    for lag in range(min(LAGS, inner // len(code))):
        rows = slice(lag * len(code), (lag + 1) * len(code))
        delta.qkv.weight[2 * inner :][rows] = code
        delta.conv[2 * inner :][rows, -2 - lag] += 1.0
        delta.o.weight[:, rows] = CARRIED * places[lag].t()
    delta.dt.fill_(1.0)
    delta.log_decay.fill_(math.log(8.0))


def _follow(delta: DeltaNet, code: Tensor, places: Tensor) -> None:
    """Key: the three tokens before; query: this one and the two before; value: this one."""
    s = delta.shape
    inner = s.state_heads * s.state_size
    delta.conv.mul_(0.1)
    delta.conv[:, -1] += 1.0
    delta.qkv.weight[2 * inner :, 0] = 0.0
    for head in range(s.state_heads):
        rows = slice(head * s.state_size, (head + 1) * s.state_size)
        query, key = _codes(code, places, s.state_size)
        delta.qkv.weight[:inner][rows] = query
        delta.qkv.weight[inner : 2 * inner][rows] = key
    delta.o.weight.copy_(FOLLOW * delta.qkv.weight[2 * inner :].t())


def _codes(code: Tensor, places: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Matrices of a query (this token and the two before) and of a key (the three before) that agree where the tokens
    agree."""
    scale = 0.3  # of a carried code to the code itself, after the norm
    query, key = torch.zeros(size, code.shape[1]), torch.zeros(size, code.shape[1])
    for lag, weight in enumerate(BEFORE):
        turn = weight * torch.randn(size, code.shape[0]) / math.sqrt(code.shape[0])
        query += turn @ (scale * places[lag - 1] if lag else code)
        key += scale * turn @ places[lag]
    return query, key


def turning(attention: Attention) -> Tensor:
    """Places of a head that rotate by more than a thousandth of a radian a token: too fast for distant matches."""
    dims = attention.rope_dims
    speed = attention.base ** (-torch.arange(0, dims, 2).float() / dims)
    pair = (speed > 1e-3).nonzero().flatten()
    return torch.cat([pair, pair + dims // 2])


def match(attention: Attention, code: Tensor, places: Tensor) -> None:
    """The first query of every KV head meets the keys of places whose three tokens before were these, and brings
    their tokens to the output. The other queries stay random."""
    a = attention
    shared = a.heads // a.kv_heads
    step = a.size * (2 if a.gated else 1)
    fast = turning(a)
    a.v.weight[:, 0] = 0.0
    a.v.weight[:, a.v.weight.shape[1] // 2 :] *= 0.1
    for head in range(a.kv_heads):
        query, key = _codes(code, places, a.size)
        query[fast] *= 0.1
        key[fast] *= 0.1
        rows, first = slice(head * a.size, (head + 1) * a.size), head * shared
        a.k.weight[rows] = key
        a.q.weight[first * step : first * step + a.size] = query
        a.o.weight[:, first * a.size : (first + 1) * a.size] = MATCH * a.v.weight[rows].t()
    a.q_norm.weight.fill_(SHARP)
