"""The gated delta rule (Gated DeltaNet), computed in chunks.

State update of one head, for unit keys k and queries q, decay a = exp(g) and strength b:
S <- a * (S - b * (S k) k^T) + b * v k^T, and the output is S q / sqrt(size).
Source: Yang et al., "Gated Delta Networks", arXiv 2412.06464. Inside a chunk the products of (I - b k k^T) become one
triangular solve.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["gated_delta_rule"]


def gated_delta_rule(q: Tensor, k: Tensor, v: Tensor, g: Tensor, b: Tensor, *, chunk: int = 64) -> Tensor:
    """q, k, v: [batch, time, heads, size]; g (log decay, <= 0) and b (0..1): [batch, time, heads]; all float32.

    Returns [batch, time, heads, size]. The state starts at zero. `time` need not be a multiple of `chunk`.
    """
    batch, time, heads, size = q.shape
    pad = -time % chunk

    def rows(x: Tensor) -> Tensor:
        return F.pad(x, (0, 0, 0, 0, 0, pad)).transpose(1, 2).reshape(batch, heads, -1, chunk, size)

    def scalars(x: Tensor) -> Tensor:
        return F.pad(x, (0, 0, 0, pad)).transpose(1, 2).reshape(batch, heads, -1, chunk)

    q, k, v = rows(q) * size**-0.5, rows(k), rows(v)
    g, b = scalars(g).cumsum(-1), scalars(b)
    causal = torch.ones(chunk, chunk, dtype=torch.bool, device=q.device).tril()
    decay = (g[..., :, None] - g[..., None, :]).masked_fill(~causal, float("-inf")).exp()
    keys = k.transpose(-1, -2)
    strong = k * b[..., None]
    mixing = (strong @ keys * decay).tril(-1) + torch.eye(chunk, device=q.device)
    right = torch.cat([v * b[..., None], strong * g.exp()[..., None]], -1)
    inside = q @ keys * decay
    queries = q * g.exp()[..., None]
    last = g[..., -1]
    writes = (k * (last[..., None] - g).exp()[..., None]).transpose(-1, -2)
    carry = last.exp()[..., None, None]
    out: Tensor = _scan(mixing, right, queries, inside, carry, writes)
    return out.reshape(batch, heads, -1, size)[:, :, :time].transpose(1, 2)


@torch.compiler.disable  # type: ignore[untyped-decorator, unused-ignore]
def _scan(mixing: Tensor, right: Tensor, queries: Tensor, inside: Tensor, carry: Tensor, writes: Tensor) -> Tensor:
    """Solve every chunk, then carry the state from one to the next. Kept from the compiler: it unrolls the loop."""
    solved = torch.linalg.solve_triangular(mixing, right, upper=False, unitriangular=True)
    values, reads = solved.chunk(2, -1)
    state = queries.new_zeros(*carry.shape[:2], queries.shape[-1], queries.shape[-1])
    out = []
    # unbind, not x[:, :, n]: the backward of an index fills and adds a tensor of the whole size for each chunk.
    steps = (values.unbind(2), reads.unbind(2), queries.unbind(2), inside.unbind(2), carry.unbind(2), writes.unbind(2))
    for value, read, query, within, keep, write in zip(*steps, strict=True):
        new = value - read @ state
        out.append(query @ state + within @ new)
        state = state * keep + write @ new
    return torch.stack(out, 2)
