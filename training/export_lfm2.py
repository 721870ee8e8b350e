"""Write a TinyLfm2 as GGUF, in the names and forms that llama.cpp reads for `lfm2`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tokenizers import Tokenizer
from torch import Tensor

from .export import Writer, add_vocabulary
from .model_lfm2 import Lfm2Shape

__all__ = ["export_lfm2"]

_BLOCK = {
    "norm.weight": "attn_norm.weight",
    "post_norm.weight": "ffn_norm.weight",
    "attention.q.weight": "attn_q.weight",
    "attention.k.weight": "attn_k.weight",
    "attention.v.weight": "attn_v.weight",
    "attention.o.weight": "attn_output.weight",
    "attention.q_norm.weight": "attn_q_norm.weight",
    "attention.k_norm.weight": "attn_k_norm.weight",
    "convolution.into.weight": "shortconv.in_proj.weight",
    "convolution.out.weight": "shortconv.out_proj.weight",
    "convolution.conv": "shortconv.conv.weight",
    "ffn.gate.weight": "ffn_gate.weight",
    "ffn.up.weight": "ffn_up.weight",
    "ffn.down.weight": "ffn_down.weight",
}


def export_lfm2(
    weights: Mapping[str, Tensor],
    shape: Lfm2Shape,
    tokenizer: Tokenizer,
    path: Path,
    kind: str = "F16",
    template: str = "",
) -> Path:
    """Write `path` from a state dict, with the chat `template` if any; returns `path`."""
    out = Writer(path, "lfm2", kind)
    w = out.gguf
    w.add_name("agentloop tiny lfm2")
    w.add_block_count(shape.layers)
    w.add_context_length(shape.context)
    w.add_embedding_length(shape.width)
    w.add_feed_forward_length(shape.inner)
    w.add_head_count(shape.heads)
    w.add_head_count_kv([shape.kv_heads if shape.is_attention(i) else 0 for i in range(shape.layers)])
    w.add_shortconv_l_cache(shape.kernel)
    w.add_rope_freq_base(shape.rope_base)
    w.add_layer_norm_rms_eps(shape.eps)
    w.add_vocab_size(shape.vocabulary)
    add_vocabulary(w, tokenizer, shape.vocabulary)
    if template:
        w.add_chat_template(template)
    out.tensor("token_embd.weight", weights["embedding.weight"])
    out.tensor("token_embd_norm.weight", weights["norm.weight"])
    for layer in range(shape.layers):
        for ours, theirs in _BLOCK.items():
            value = weights.get(f"blocks.{layer}.{ours}")
            if value is not None:
                out.tensor(f"blk.{layer}.{theirs}", value)
    out.close()
    return path
