"""A tiny network of the second hybrid family: lfm2, short convolutions and attention, without an MTP layer.

The forms are those of llama.cpp's `lfm2` graph; a test compares the logits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .initial import CARRIED, OPEN, embed, match
from .layers import Attention, FeedForward, Norm

__all__ = ["Lfm2Shape", "TinyLfm2"]


@dataclass(frozen=True)
class Lfm2Shape:
    """Sizes. Every `interval`-th layer is attention; heads have width / heads dimensions, all of them rotary."""

    vocabulary: int = 2048
    width: int = 128
    layers: int = 6
    heads: int = 2
    kv_heads: int = 1
    inner: int = 256
    interval: int = 3
    kernel: int = 3
    eps: float = 1e-6
    rope_base: float = 1e6
    context: int = 32768

    def is_attention(self, layer: int) -> bool:
        return (layer + 1) % self.interval == 0


class ShortConvolution(nn.Module):
    """A gated causal convolution over `kernel` positions, one filter for each channel."""

    def __init__(self, shape: Lfm2Shape) -> None:
        super().__init__()
        self.kernel = shape.kernel
        self.into = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)
        self.conv = nn.Parameter(torch.randn(shape.width, shape.kernel) * 0.5)

    def forward(self, x: Tensor) -> Tensor:
        before, after, values = self.into(x).transpose(1, 2).chunk(3, 1)
        mixed = F.pad(before * values, (self.kernel - 1, 0))
        mixed = F.conv1d(mixed, self.conv[:, None].to(mixed.dtype), groups=self.conv.shape[0])
        return self.out((after * mixed).transpose(1, 2))  # type: ignore[no-any-return]


class Lfm2Block(nn.Module):
    """Convolution or attention, then feed-forward, each behind a norm and added to its input."""

    def __init__(self, shape: Lfm2Shape, attention: bool) -> None:
        super().__init__()
        s = shape
        size = s.width // s.heads
        self.norm, self.post_norm = Norm(s.width, s.eps), Norm(s.width, s.eps)
        self.attention = (
            Attention(s.width, s.heads, s.kv_heads, size, size, s.rope_base, s.eps, gated=False) if attention else None
        )
        self.convolution = None if attention else ShortConvolution(s)
        self.ffn = FeedForward(s.width, s.inner)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        h = self.norm(x)
        if self.attention is not None:
            x = x + self.attention(h, positions)
        elif self.convolution is not None:
            x = x + self.convolution(h)
        return x + self.ffn(self.post_norm(x))  # type: ignore[no-any-return]


class TinyLfm2(nn.Module):
    """`trunk` gives hidden states, `head` logits."""

    def __init__(self, shape: Lfm2Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Lfm2Block(shape, shape.is_attention(i)) for i in range(shape.layers))
        self.norm = Norm(shape.width, shape.eps)
        self._initialise()

    @torch.no_grad()
    def _initialise(self) -> None:
        """Random, and able to look back as `training.initial` says: the first convolution carries the codes."""
        s = self.shape
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2 and not name.endswith("conv"):
                small = name.endswith(("down.weight", "o.weight", "out.weight"))
                nn.init.normal_(parameter, 0.0, 0.02 / math.sqrt(2 * s.layers) if small else 0.02)
        size = s.width // 8
        code, places = embed(self.embedding.weight, size)
        first: ShortConvolution = next(b.convolution for b in self.blocks if b.convolution is not None)  # type: ignore[misc]
        first.into.weight[: 2 * s.width, 0] = OPEN
        first.conv.mul_(0.1)
        first.out.weight.mul_(0.1)
        for lag in range(2):
            rows = slice(lag * size, (lag + 1) * size)
            first.into.weight[2 * s.width :][rows] = code
            first.conv[rows, -2 - lag] = 1.0
            first.out.weight[:, rows] = CARRIED * places[lag].t()
        match(next(b.attention for b in self.blocks if b.attention is not None), code, places)

    def trunk(self, tokens: Tensor) -> Tensor:
        """tokens: [batch, time] -> [batch, time, width], normed; position p predicts token p + 1."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        h = self.embedding(tokens)
        for block in self.blocks:
            h = block(h, positions)
        return self.norm(h)  # type: ignore[no-any-return]

    def head(self, hidden: Tensor) -> Tensor:
        """Logits, with the embedding as the output matrix."""
        return hidden @ self.embedding.weight.t()
