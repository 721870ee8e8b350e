"""Train a block drafter for a GGUF and write it beside it.

    python -m training.make_drafter TARGET.gguf OUT.gguf [--kind dflash|dspark] [--steps 1500] [--seed 0]

OUT has no embedding and no output matrix: llama.cpp takes the target's. It drafts for this target alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from .drafter import BlockDraft, DraftShape, draft_loss
from .export import Writer, add_vocabulary
from .model import Shape, TinyHybrid
from .optim import Muon
from .samples import packed_rows
from .start import BadStart, read_start

__all__ = ["export_drafter", "main", "train_drafter"]

RANK = 64
"""Of the Markov head of a DSpark."""

_LAYER = {
    "norm.weight": "attn_norm.weight",
    "post_norm.weight": "ffn_norm.weight",
    "q.weight": "attn_q.weight",
    "k.weight": "attn_k.weight",
    "v.weight": "attn_v.weight",
    "o.weight": "attn_output.weight",
    "q_norm.weight": "attn_q_norm.weight",
    "k_norm.weight": "attn_k_norm.weight",
    "ffn.gate.weight": "ffn_gate.weight",
    "ffn.up.weight": "ffn_up.weight",
    "ffn.down.weight": "ffn_down.weight",
}


def train_drafter(
    target: TinyHybrid, tokenizer: Tokenizer, shape: DraftShape, *, steps: int, seed: int = 0, length: int = 768
) -> BlockDraft:
    """A drafter for `target`, which is not changed. Each step takes one row of episodes and 64 blocks of it."""
    torch.manual_seed(seed)
    target.requires_grad_(False)
    drafter = BlockDraft(target.shape, shape)
    matrices = [p for n, p in drafter.named_parameters() if p.dim() == 2 and not n.startswith("markov.")]
    others = [p for n, p in drafter.named_parameters() if p.dim() < 2 or n.startswith("markov.")]
    optimizers: list[torch.optim.Optimizer] = [Muon(matrices), torch.optim.AdamW(others, weight_decay=0.0)]
    total = 0.0
    for step in range(steps):
        r = random.Random(f"draft {seed} {step}")
        rows, mask = packed_rows(tokenizer, r, rows=1, length=length, system_share=0.15)
        tokens, learnt = torch.from_numpy(rows[0]), torch.from_numpy(mask[0])
        anchors = _anchors(learnt, shape.block, r)
        rate = (
            2e-3 * min(1.0, (step + 1) / min(30, steps // 5 + 1)) * max(0.02, min(1.0, (steps - step) / (0.6 * steps)))
        )
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss, right = draft_loss(drafter, target, tokens, learnt, anchors)
        drafter.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        total += right
        if (step + 1) % 50 == 0:
            entry = {"step": step + 1, "loss": round(loss.item(), 3), "right_in_a_row": round(total / 50, 3)}
            print(json.dumps(entry), file=sys.stderr, flush=True)
            total = 0.0
    return drafter


def _anchors(learnt: Tensor, block: int, r: random.Random) -> Tensor:
    """Up to 64 positions inside replies, from which a whole block fits."""
    places = [int(i) for i in (learnt > 0).nonzero() if 0 < i < len(learnt) - block]
    return torch.tensor(sorted(r.sample(places, min(64, len(places)))) or [1])


def export_drafter(drafter: BlockDraft, tokenizer: Tokenizer, path: Path, kind: str = "F16") -> Path:
    """Write the GGUF; returns `path`."""
    target: Shape = drafter.target
    out = Writer(path, "dflash", kind)
    w: Any = out.gguf
    w.add_name("agentloop tiny block drafter")
    w.add_block_count(drafter.shape.layers)
    w.add_context_length(target.context)
    w.add_embedding_length(target.width)
    w.add_feed_forward_length(drafter.shape.inner)
    w.add_head_count(target.heads)
    w.add_head_count_kv(target.kv_heads)
    w.add_key_length(target.head_size)
    w.add_value_length(target.head_size)
    w.add_layer_norm_rms_eps(target.eps)
    w.add_rope_freq_base(target.rope_base)
    w.add_rope_dimension_sections([target.head_size // 2, 0, 0, 0])  # M-RoPE targets: the time axis alone
    w.add_vocab_size(target.vocabulary)
    w.add_array("dflash.target_layers", list(drafter.shape.taps))
    w.add_uint32("dflash.block_size", drafter.shape.block)
    add_vocabulary(w, tokenizer, target.vocabulary)
    w.add_uint32("tokenizer.ggml.mask_token_id", drafter.shape.mask)
    out.tensor("fc.weight", drafter.fuse.weight)
    out.tensor("enc.output_norm.weight", drafter.fuse_norm.weight)
    out.tensor("output_norm.weight", drafter.norm.weight)
    weights = drafter.state_dict()
    for layer in range(drafter.shape.layers):
        for ours, theirs in _LAYER.items():
            out.tensor(f"blk.{layer}.{theirs}", weights[f"layers.{layer}.{ours}"])
    if drafter.markov is not None:
        w.add_bool("dflash.sample_from_anchor", False)
        w.add_bool("dflash.has_confidence_head", True)
        out.tensor("markov_w1.weight", drafter.markov.before.weight)
        out.tensor("markov_w2.weight", drafter.markov.after.weight)
        out.tensor("conf_proj.weight", drafter.markov.sure.weight)
    out.close()
    return path


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.make_drafter", description="Train a block drafter.")
    parser.add_argument("target", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--kind", choices=("dflash", "dspark"), default="dspark")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.steps < 1:
        parser.error(f"--steps {options.steps}: at least one is needed")
    if options.out.resolve() == options.target.resolve():
        parser.error(f"{options.out} is the target, which would be overwritten")
    try:
        start = read_start(options.target)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.touch()  # a file that cannot be written is found out before the training, not after it
    except (OSError, BadStart) as error:
        parser.error(str(error))
    torch.set_num_threads(1)
    target = TinyHybrid(start.shape)
    target.load_state_dict(start.weights)
    plan = DraftShape.of(start.shape, rank=RANK if options.kind == "dspark" else 0)
    drafter = train_drafter(target, start.tokenizer, plan, steps=options.steps, seed=options.seed)
    path = export_drafter(drafter, start.tokenizer, options.out)
    content = path.read_bytes()
    facts = {
        "file": path.name,
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "target_sha256": start.sha256,
        "steps": options.steps,
        "seed": options.seed,
    }
    print(json.dumps({**facts, "parameters": sum(p.numel() for p in drafter.parameters())}))


if __name__ == "__main__":
    main()
