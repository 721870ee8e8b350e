"""A DFlash block drafter for a trained network: it reads a few of the target's layers and guesses a block at once.

Form as llama.cpp's `dflash` graph: the keys and values of the past are projections of target features; a block is the
last token and masks behind it, which see the past and each other. Row i predicts the token at its own position.
Embedding and output matrix are the target's.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import FeedForward, Norm, rotate
from .model import Shape, TinyHybrid

__all__ = ["BlockDraft", "DraftShape", "MarkovHead", "draft_loss", "features"]


@dataclass(frozen=True)
class DraftShape:
    """taps: target layers whose inputs are read. mask: an id of the target's vocabulary that no text uses. rank: of the
    Markov head that makes a DSpark of a DFlash (0: none)."""

    taps: tuple[int, ...] = (2, 4, 5)
    layers: int = 2
    block: int = 6
    inner: int = 384
    mask: int = 2047
    rank: int = 0

    @classmethod
    def of(cls, target: Shape, rank: int = 0) -> DraftShape:
        """The default for a target: layers at a third, at two thirds and the last are read, the last id is the mask."""
        layers = target.layers
        return cls(
            taps=tuple(sorted({layers // 3, 2 * layers // 3, layers - 1})), mask=target.vocabulary - 1, rank=rank
        )


class DraftLayer(nn.Module):
    """Attention from a block to the past and to itself, then feed-forward."""

    def __init__(self, target: Shape, inner: int) -> None:
        super().__init__()
        t = self.target = target
        self.norm, self.post_norm = Norm(t.width, t.eps), Norm(t.width, t.eps)
        self.q = nn.Linear(t.width, t.heads * t.head_size, bias=False)
        self.k = nn.Linear(t.width, t.kv_heads * t.head_size, bias=False)
        self.v = nn.Linear(t.width, t.kv_heads * t.head_size, bias=False)
        self.o = nn.Linear(t.heads * t.head_size, t.width, bias=False)
        self.q_norm, self.k_norm = Norm(t.head_size, t.eps), Norm(t.head_size, t.eps)
        self.ffn = FeedForward(t.width, inner)

    def forward(self, x: Tensor, past: Tensor, at: Tensor, visible: Tensor) -> Tensor:
        """x: [1, rows, width]; past: [1, time, width]; at: positions of the rows; visible: [rows, time + rows]."""
        h = self.norm(x)
        both = torch.cat([past.to(h.dtype), h], 1)
        positions = torch.cat([torch.arange(past.shape[1]), at])
        q = self._heads(self.q(h), self.q_norm, at)
        k = self._heads(self.k(both), self.k_norm, positions)
        v = self.v(both).view(1, both.shape[1], self.target.kv_heads, -1).transpose(1, 2)
        shared = self.target.heads // self.target.kv_heads
        k, v = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
        y = F.scaled_dot_product_attention(q, k, v.to(q.dtype), attn_mask=visible)
        x = x + self.o(y.transpose(1, 2).reshape(1, x.shape[1], -1))
        return x + self.ffn(self.post_norm(x))  # type: ignore[no-any-return]

    def _heads(self, x: Tensor, norm: Norm, positions: Tensor) -> Tensor:
        size = self.target.head_size
        return rotate(norm(x.view(1, x.shape[1], -1, size)), positions, size, self.target.rope_base).transpose(1, 2)


class MarkovHead(nn.Module):
    """What DSpark adds: a bias on each row's logits by the token before it, and how sure a row is."""

    def __init__(self, target: Shape, rank: int) -> None:
        super().__init__()
        self.before = nn.Embedding(target.vocabulary, rank)
        self.after = nn.Linear(rank, target.vocabulary, bias=False)
        self.sure = nn.Linear(target.width + rank, 1, bias=False)

    def forward(self, hidden: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """hidden [..., width] of rows and the tokens [...] before them -> biases [..., vocabulary], and log-odds [...]
        that the row is right."""
        code = self.before(tokens)
        return self.after(code), self.sure(torch.cat([hidden.to(code.dtype), code], -1))[..., 0]


class BlockDraft(nn.Module):
    """The drafter without the matrices that it shares with its target."""

    def __init__(self, target: Shape, shape: DraftShape) -> None:
        super().__init__()
        self.target, self.shape = target, shape
        self.fuse = nn.Linear(len(shape.taps) * target.width, target.width, bias=False)
        self.fuse_norm = Norm(target.width, target.eps)
        self.layers = nn.ModuleList(DraftLayer(target, shape.inner) for _ in range(shape.layers))
        self.norm = Norm(target.width, target.eps)
        self.markov = MarkovHead(target, shape.rank) if shape.rank else None
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, 0.0, 0.02)

    def forward(self, tapped: Tensor, tokens: Tensor, anchors: Tensor, embedding: Tensor) -> Tensor:
        """tapped: [time, taps * width]; tokens: [time]; anchors: positions whose token opens a block; embedding: the
        target's. Returns the hidden rows [anchors, block, width]; row 0 is the anchor's and predicts nothing."""
        time, block = tapped.shape[0], self.shape.block
        past = self.fuse_norm(self.fuse(tapped))[None]
        at = (anchors[:, None] + torch.arange(block)[None]).reshape(-1)
        ids = torch.full((len(anchors), block), self.shape.mask)
        ids[:, 0] = tokens[anchors]
        owner = torch.arange(len(anchors)).repeat_interleave(block)
        before = torch.arange(time)[None] < anchors.repeat_interleave(block)[:, None]
        visible = torch.cat([before, owner[:, None] == owner[None]], 1)
        x = embedding[ids.reshape(-1)][None]
        for layer in self.layers:
            x = layer(x, past, at, visible)
        return self.norm(x).view(len(anchors), block, -1)  # type: ignore[no-any-return]


@torch.no_grad()
def features(target: TinyHybrid, tokens: Tensor, taps: tuple[int, ...]) -> Tensor:
    """Inputs of the target's layers `taps` for tokens [time], side by side: [time, taps * width], float32."""
    positions = torch.arange(len(tokens))
    h, kept = target.embedding(tokens[None]), {}
    for i, block in enumerate(target.blocks):
        if i in taps:
            kept[i] = h[0]
        h = block(h, positions)
    return torch.cat([kept[i].float() for i in taps], -1)


def draft_loss(
    drafter: BlockDraft, target: TinyHybrid, tokens: Tensor, learnt: Tensor, anchors: Tensor
) -> tuple[Tensor, float]:
    """Cross entropy of the rows that predict a learnt token, the near ones weigh more (0.8 per row); and how many of
    a block's rows are right before the first wrong one, on average. tokens, learnt: [time]."""
    block = drafter.shape.block
    tapped = features(target, tokens, drafter.shape.taps)
    embedding = target.embedding.weight.detach()
    hidden = drafter(tapped, tokens, anchors, embedding)[:, 1:]
    at = anchors[:, None] + torch.arange(1, block)[None]
    wanted, counts = tokens[at], learnt[at] > 0
    logits = (hidden @ embedding.t().to(hidden.dtype)).float()
    odds = None
    if drafter.markov is not None:
        bias, odds = drafter.markov(hidden, tokens[at - 1])
        logits = logits + bias.float()
    losses = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="none").view_as(wanted)
    good = logits.argmax(-1) == wanted
    if odds is not None:
        losses = losses + 0.1 * F.binary_cross_entropy_with_logits(odds.float(), good.float(), reduction="none")
    weights = counts * 0.8 ** torch.arange(block - 1)
    right = (good & counts).long().cumprod(-1).sum(-1).float().mean().item()
    return (losses * weights).sum() / weights.sum().clamp(min=1e-6), right
