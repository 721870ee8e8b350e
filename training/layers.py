"""The layers that the qwen35 and lfm2 networks share: norm, rotary positions, attention, feed-forward."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["Attention", "FeedForward", "Norm", "inverse_norm", "rotate"]


class Norm(nn.Module):
    """Root-mean-square norm with a weight, computed in float32; the result has the type that matrices multiply in."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        x = x.float()
        y = x * inverse_norm(x, x.shape[-1], self.eps) * self.weight
        return y.to(torch.get_autocast_dtype("cpu")) if torch.is_autocast_enabled("cpu") else y


def inverse_norm(x: Tensor, count: int, eps: float) -> Tensor:
    """1 / sqrt(sum of squares / count + eps) over the last dimension, which is kept. One pass over x."""
    squares: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square()
    return (squares / count + eps).rsqrt()


def rotate(x: Tensor, positions: Tensor, dims: int, base: float) -> Tensor:
    """Rotary positions on the first `dims` of x [batch, time, heads, size]; halves pair up (NEOX order)."""
    half = dims // 2
    speed = base ** (-torch.arange(0, dims, 2, device=x.device).float() / dims)
    angle = positions[:, None].float() * speed[None]
    cos, sin = angle.cos()[None, :, None], angle.sin()[None, :, None]
    first, second, rest = x[..., :half].float(), x[..., half:dims].float(), x[..., dims:]
    turned = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
    return torch.cat([turned.to(x.dtype), rest], -1)


class Attention(nn.Module):
    """Causal attention with grouped KV heads and normed queries and keys; `gated` doubles q for an output gate."""

    def __init__(
        self, width: int, heads: int, kv_heads: int, size: int, rope_dims: int, base: float, eps: float, *, gated: bool
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size, self.gated = heads, kv_heads, size, gated
        self.rope_dims, self.base = rope_dims, base
        self.q = nn.Linear(width, heads * size * (2 if gated else 1), bias=False)
        self.k = nn.Linear(width, kv_heads * size, bias=False)
        self.v = nn.Linear(width, kv_heads * size, bias=False)
        self.o = nn.Linear(heads * size, width, bias=False)
        self.q_norm, self.k_norm = Norm(size, eps), Norm(size, eps)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """x: [batch, time, width] -> the same shape."""
        batch, time, _ = x.shape
        q = self.q(x).view(batch, time, self.heads, -1)
        q, gate = (q[..., : self.size], q[..., self.size :]) if self.gated else (q, None)
        k = self.k(x).view(batch, time, self.kv_heads, self.size)
        v = self.v(x).view(batch, time, self.kv_heads, self.size)
        q = rotate(self.q_norm(q), positions, self.rope_dims, self.base)
        k = rotate(self.k_norm(k), positions, self.rope_dims, self.base)
        shared = self.heads // self.kv_heads
        k, v = (t.transpose(1, 2).repeat_interleave(shared, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k, v.to(q.dtype), is_causal=True).transpose(1, 2)
        if gate is not None:
            y = y * torch.sigmoid(gate)
        return self.o(y.reshape(batch, time, -1))  # type: ignore[no-any-return]


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))  # type: ignore[no-any-return]
