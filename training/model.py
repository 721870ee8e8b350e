"""The network: qwen35, a hybrid of Gated DeltaNet and attention with one layer of multi-token prediction (MTP).

The forms are those of llama.cpp's `qwen35` graph; a test compares the logits.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .delta import gated_delta_rule
from .initial import initialise
from .layers import Attention, FeedForward, Norm, inverse_norm

__all__ = ["Shape", "TinyHybrid"]


@dataclass(frozen=True)
class Shape:
    """Sizes. Every `interval`-th layer is attention. llama.cpp needs `head_size` to be a power of two."""

    vocabulary: int = 2048
    width: int = 256
    layers: int = 6
    heads: int = 4
    kv_heads: int = 2
    head_size: int = 64
    inner: int = 704
    state_size: int = 64
    state_heads: int = 2
    interval: int = 3
    kernel: int = 4
    eps: float = 1e-6
    rope_base: float = 1e6
    rope_dims: int = 32
    context: int = 32768

    def is_attention(self, layer: int) -> bool:
        return (layer + 1) % self.interval == 0


class DeltaNet(nn.Module):
    """Gated DeltaNet: a short convolution over q, k and v, the delta rule, a gated norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        inner = shape.state_heads * shape.state_size
        self.qkv = nn.Linear(shape.width, 3 * inner, bias=False)
        self.z = nn.Linear(shape.width, inner, bias=False)
        self.beta = nn.Linear(shape.width, shape.state_heads, bias=False)
        self.alpha = nn.Linear(shape.width, shape.state_heads, bias=False)
        self.conv = nn.Parameter(torch.randn(3 * inner, shape.kernel) * 0.3)
        self.dt = nn.Parameter(torch.zeros(shape.state_heads))
        self.log_decay = nn.Parameter(torch.zeros(shape.state_heads))
        self.norm = Norm(shape.state_size, shape.eps)
        self.o = nn.Linear(inner, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        s = self.shape
        batch, time, _ = x.shape
        inner = s.state_heads * s.state_size
        mixed = self.qkv(x).transpose(1, 2)
        mixed = F.conv1d(F.pad(mixed, (s.kernel - 1, 0)), self.conv[:, None].to(mixed.dtype), groups=3 * inner)
        mixed = F.silu(mixed).transpose(1, 2).float()
        q, k, v = (part.reshape(batch, time, s.state_heads, -1) for part in mixed.chunk(3, -1))
        strength = torch.sigmoid(self.beta(x).float())
        decay = -self.log_decay.exp() * F.softplus(self.alpha(x).float() + self.dt)
        with torch.autocast(x.device.type, enabled=False):
            y = gated_delta_rule(_unit(q, s.eps), _unit(k, s.eps), v, decay, strength)
        y = self.norm(y) * F.silu(self.z(x).float()).view(batch, time, s.state_heads, -1)
        return self.o(y.reshape(batch, time, inner).to(x.dtype))  # type: ignore[no-any-return]


def _unit(x: Tensor, eps: float) -> Tensor:
    return x * inverse_norm(x, 1, eps)


class Block(nn.Module):
    """Mixer (DeltaNet or attention) and feed-forward, each behind a norm and added to its input."""

    def __init__(self, shape: Shape, attention: bool) -> None:
        super().__init__()
        s = shape
        self.norm = Norm(s.width, s.eps)
        self.post_norm = Norm(s.width, s.eps)
        self.attention = (
            Attention(s.width, s.heads, s.kv_heads, s.head_size, s.rope_dims, s.rope_base, s.eps, gated=True)
            if attention
            else None
        )
        self.delta = None if attention else DeltaNet(s)
        self.ffn = FeedForward(s.width, s.inner)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        h = self.norm(x)
        if self.attention is not None:
            x = x + self.attention(h, positions)
        elif self.delta is not None:
            x = x + self.delta(h)
        return x + self.ffn(self.post_norm(x))  # type: ignore[no-any-return]


class TinyHybrid(nn.Module):
    """`trunk` gives hidden states, `head` logits, `mtp` the hidden states that predict one token further."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape, shape.is_attention(i)) for i in range(shape.layers))
        self.norm = Norm(shape.width, shape.eps)
        self.mtp_block = Block(shape, True)
        self.mtp_join = nn.Linear(2 * shape.width, shape.width, bias=False)
        self.mtp_token_norm = Norm(shape.width, shape.eps)
        self.mtp_hidden_norm = Norm(shape.width, shape.eps)
        self.mtp_norm = Norm(shape.width, shape.eps)
        initialise(self)

    def compile_blocks(self) -> None:
        """Fuse the small operations of the blocks; the first steps then take minutes, the others half the time."""
        for block in [*self.blocks, self.mtp_block]:
            block.compile(dynamic=False)

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

    def mtp(self, tokens: Tensor, hidden: Tensor, first: int = 1) -> Tensor:
        """tokens[:, i] is at position first + i, hidden[:, i] is of the position before it -> hidden that predicts the
        token behind tokens[:, i]."""
        positions = torch.arange(first, first + tokens.shape[1], device=tokens.device)
        joined = torch.cat([self.mtp_token_norm(self.embedding(tokens)), self.mtp_hidden_norm(hidden)], -1)
        return self.mtp_norm(self.mtp_block(self.mtp_join(joined), positions))  # type: ignore[no-any-return]
