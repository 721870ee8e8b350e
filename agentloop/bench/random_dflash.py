"""Random-weight block drafters (GGUF architecture `dflash`) for a random target: DFlash, DFlash2 and DSpark.

Tensor names, shapes and keys as llama.cpp loads them (src/models/dflash.cpp). The files have no embedding and no output
matrix: both are shared with the target, as in real ones. The exception is a DSpark file with a reduced vocabulary,
whose output matrix is its own. Meaning has none of it: what such a model drafts is arbitrary, but a function of every
target row that it was given.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .random_model import RandomModel, _vocabulary, _Weights

__all__ = ["BlockKind", "RandomDflash", "write_random_dflash"]

BlockKind = Literal["dflash", "dflash2", "dspark", "dspark_d2t"]


@dataclass(frozen=True, slots=True)
class RandomDflash:
    """What to write. `taps` are input layers of the target. None leaves a key out. `mask` is an id of the target's
    vocabulary. `top_k` (DFlash2) needs top_k * (top_k + 1) <= the target's width."""

    kind: BlockKind = "dflash"
    taps: tuple[int, ...] = (1, 3)
    layers: int = 2
    block_size: int | None = 6
    mask: int | None = 319
    embd: int | None = None
    rank: int = 8
    top_k: int = 4
    window: int = 0
    causal: bool | None = None
    from_anchor: bool = True
    confidence: bool = True
    seed: int = 7


def write_random_dflash(path: str | os.PathLike[str], target: RandomModel, draft: RandomDflash | None = None) -> Path:
    """Write the GGUF file and return its path. The same arguments give the same weights."""
    import gguf

    draft = draft or RandomDflash()
    path = Path(path)
    w: Any = gguf.GGUFWriter(str(path), "dflash")
    embd = draft.embd or target.embd
    shape = RandomModel(
        "llama",
        draft.layers,
        embd,
        target.heads,
        target.kv_heads,
        target.head_dim,
        target.ffn,
        vocab=target.vocab,
        seed=draft.seed,
    )
    w.add_name(f"random {draft.kind}")
    w.add_block_count(draft.layers)
    w.add_context_length(target.ctx)
    w.add_embedding_length(embd)
    w.add_feed_forward_length(target.ffn)
    w.add_head_count(target.heads)
    w.add_head_count_kv(target.kv_heads)
    w.add_key_length(target.head_dim)
    w.add_value_length(target.head_dim)
    w.add_layer_norm_rms_eps(1e-6)
    w.add_rope_freq_base(10000.0)
    w.add_vocab_size(target.vocab)
    if target.architecture == "qwen35":  # M-RoPE: positions on the time axis alone
        w.add_rope_dimension_sections([target.head_dim // 2, 0, 0, 0])
    w.add_array("dflash.target_layers", list(draft.taps))
    if draft.block_size is not None:
        w.add_uint32("dflash.block_size", draft.block_size)
    if draft.causal is not None:
        w.add_bool("dflash.attention.causal", draft.causal)
    if draft.window:
        w.add_uint32("dflash.attention.sliding_window", draft.window)
        w.add_array("dflash.attention.sliding_window_pattern", [i % 2 == 0 for i in range(draft.layers)])
    _vocabulary(w, target)
    if draft.mask is not None:
        w.add_uint32("tokenizer.ggml.mask_token_id", draft.mask)
    t = _Weights(w, shape)
    t.matrix("fc.weight", embd, len(draft.taps) * embd)
    t.ones("enc.output_norm.weight", embd)
    t.ones("output_norm.weight", embd)
    for i in range(draft.layers):
        _layer(t, f"blk.{i}.", draft.kind == "dflash2")
    if draft.kind == "dflash2":
        _selector(t, draft)
    elif draft.kind in ("dspark", "dspark_d2t"):
        _markov(t, draft)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path


_KERNEL, _GROUP = 2, 16


def _layer(t: _Weights, p: str, convolved: bool) -> None:
    t.ones(p + "attn_norm.weight", t.m.embd)
    t.ones(p + "ffn_norm.weight", t.m.embd)
    t.attention(p)
    t.ones(p + "attn_q_norm.weight", t.m.head_dim)
    t.ones(p + "attn_k_norm.weight", t.m.head_dim)
    t.ffn(p)
    if convolved:
        for part in ("attn", "ffn"):
            t.vector(p + f"{part}_conv_base", t.random.standard_normal((2, _KERNEL, t.m.embd)) * 0.5)
            t.matrix(p + f"{part}_conv_proj.weight", 2 * _KERNEL * (t.m.embd // _GROUP), t.m.embd, 0.2)


def _selector(t: _Weights, draft: RandomDflash) -> None:
    t.w.add_uint32("dflash.conv_kernel_size", _KERNEL)
    t.w.add_uint32("dflash.conv_group_size", _GROUP)
    t.w.add_uint32("dflash.selector_rank", draft.rank)
    t.w.add_uint32("dflash.selector_top_k", draft.top_k)
    t.matrix("selector_predecessor.weight", t.m.vocab, draft.rank)
    t.matrix("selector_successor.weight", t.m.vocab, draft.rank)
    t.matrix("selector_hidden.weight", draft.rank, t.m.embd)


def _markov(t: _Weights, draft: RandomDflash) -> None:
    small = t.m.vocab
    if draft.kind == "dspark_d2t":
        small = 200
        ids = np.sort(t.random.choice(256, small, replace=False)).astype(np.int64)
        t.w.add_tensor("d2t", ids)
        t.matrix("output.weight", small, t.m.embd)
    t.w.add_bool("dflash.sample_from_anchor", draft.from_anchor)
    t.w.add_bool("dflash.has_confidence_head", draft.confidence)
    t.matrix("markov_w1.weight", t.m.vocab, draft.rank)
    t.matrix("markov_w2.weight", small, draft.rank)
    if draft.confidence:
        t.matrix("conf_proj.weight", 1, t.m.embd + draft.rank)
