"""Write a trained network as GGUF, in the names and forms that llama.cpp reads for `qwen35`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from tokenizers import Tokenizer
from torch import Tensor

from .model import Shape
from .tokenizer import CONTROL, SPECIAL

__all__ = ["MTP_TENSORS", "Writer", "add_vocabulary", "block_tensors", "export"]

_ATTENTION = {"q.weight": "attn_q.weight", "k.weight": "attn_k.weight", "v.weight": "attn_v.weight"} | {
    "o.weight": "attn_output.weight",
    "q_norm.weight": "attn_q_norm.weight",
    "k_norm.weight": "attn_k_norm.weight",
}
_DELTA = {"qkv.weight": "attn_qkv.weight", "z.weight": "attn_gate.weight", "conv": "ssm_conv1d.weight"} | {
    "dt": "ssm_dt.bias",
    "log_decay": "ssm_a",
    "beta.weight": "ssm_beta.weight",
    "alpha.weight": "ssm_alpha.weight",
    "norm.weight": "ssm_norm.weight",
    "o.weight": "ssm_out.weight",
}
_FFN = {f"{name}.weight": f"ffn_{name}.weight" for name in ("gate", "up", "down")}
_NORMS = {"norm.weight": "attn_norm.weight", "post_norm.weight": "post_attention_norm.weight"}
_BLOCK = (
    _NORMS
    | {f"attention.{k}": v for k, v in _ATTENTION.items()}
    | {f"delta.{k}": v for k, v in _DELTA.items()}
    | {f"ffn.{k}": v for k, v in _FFN.items()}
)
MTP_TENSORS = {
    "mtp_join.weight": "nextn.eh_proj.weight",
    "mtp_token_norm.weight": "nextn.enorm.weight",
    "mtp_hidden_norm.weight": "nextn.hnorm.weight",
    "mtp_norm.weight": "nextn.shared_head_norm.weight",
}
_KEPT_F32 = ("ssm_conv1d", "ssm_beta", "ssm_alpha", "shortconv.conv")


class Writer:
    """A GGUF writer that stores matrices in `kind` (F16 or F32), the rest in F32."""

    def __init__(self, path: Path, architecture: str, kind: str) -> None:
        if kind not in ("F16", "F32"):
            raise ValueError(f"matrices are stored as F16 or F32, not {kind}")
        self.gguf: Any = gguf.GGUFWriter(path, architecture)
        self.kind = kind

    def tensor(self, name: str, value: Tensor) -> None:
        data = np.ascontiguousarray(value.detach().float().numpy())
        matrix = data.ndim == 2 and not any(part in name for part in _KEPT_F32)
        self.gguf.add_tensor(name, data.astype(np.float16) if matrix and self.kind == "F16" else data)

    def close(self) -> None:
        self.gguf.write_header_to_file()
        self.gguf.write_kv_data_to_file()
        self.gguf.write_tensors_to_file()
        self.gguf.close()


def export(
    weights: Mapping[str, Tensor], shape: Shape, tokenizer: Tokenizer, path: Path, kind: str = "F16", template: str = ""
) -> Path:
    """Write `path` from a state dict, with the chat `template` if any; returns `path`. The same input gives the same
    bytes."""
    out = Writer(path, "qwen35", kind)
    _add_shape(out.gguf, shape)
    add_vocabulary(out.gguf, tokenizer, shape.vocabulary)
    if template:
        out.gguf.add_chat_template(template)
    out.tensor("token_embd.weight", weights["embedding.weight"])
    out.tensor("output_norm.weight", weights["norm.weight"])
    for layer in range(shape.layers):
        _block(out, weights, f"blocks.{layer}.", f"blk.{layer}.")
    _block(out, weights, "mtp_block.", f"blk.{shape.layers}.")
    for source, target in MTP_TENSORS.items():
        out.tensor(f"blk.{shape.layers}.{target}", weights[source])
    out.close()
    return path


def _block(out: Writer, weights: Mapping[str, Tensor], source: str, target: str) -> None:
    for ours, theirs in block_tensors(source, target).items():
        value = weights.get(ours)
        if value is not None:
            out.tensor(theirs, -value.exp() if ours.endswith("log_decay") else value)


def block_tensors(source: str, target: str) -> dict[str, str]:
    """Names in a state dict to names in a GGUF, for the block whose names begin so; of both kinds of mixer."""
    return {source + ours: target + theirs for ours, theirs in _BLOCK.items()}


def _add_shape(w: Any, s: Shape) -> None:
    w.add_name("agentloop tiny hybrid")
    w.add_block_count(s.layers + 1)
    w.add_context_length(s.context)
    w.add_embedding_length(s.width)
    w.add_feed_forward_length(s.inner)
    w.add_head_count(s.heads)
    w.add_head_count_kv(s.kv_heads)
    w.add_rope_freq_base(s.rope_base)
    w.add_layer_norm_rms_eps(s.eps)
    w.add_key_length(s.head_size)
    w.add_value_length(s.head_size)
    w.add_rope_dimension_count(s.rope_dims)
    half, third = s.rope_dims // 2, s.rope_dims // 6
    w.add_rope_dimension_sections([half - 2 * third, third, third, 0])
    w.add_ssm_conv_kernel(s.kernel)
    w.add_ssm_state_size(s.state_size)
    w.add_ssm_group_count(s.state_heads)
    w.add_ssm_time_step_rank(s.state_heads)
    w.add_ssm_inner_size(s.state_size * s.state_heads)
    w.add_full_attention_interval(s.interval)
    w.add_nextn_predict_layers(1)


def add_vocabulary(w: Any, tokenizer: Tokenizer, size: int, pre: str = "qwen35") -> None:
    """The tokens, their types, the merges and the ids with a role."""
    vocabulary = tokenizer.get_vocab()
    tokens = [f"[PAD{i}]" for i in range(size)]
    types = [gguf.TokenType.UNUSED] * size
    for token, index in vocabulary.items():
        tokens[index], types[index] = token, gguf.TokenType.NORMAL
    for token in SPECIAL:
        types[vocabulary[token]] = gguf.TokenType.CONTROL if token in CONTROL else gguf.TokenType.USER_DEFINED
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(pre)
    w.add_token_list(tokens)
    w.add_token_types([int(kind) for kind in types])
    w.add_token_merges(_merges(tokenizer))
    w.add_eos_token_id(vocabulary["<|im_end|>"])
    w.add_pad_token_id(vocabulary["<|endoftext|>"])
    w.add_bos_token_id(vocabulary["<|endoftext|>"])
    w.add_add_bos_token(False)


def _merges(tokenizer: Tokenizer) -> list[str]:
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [merge if isinstance(merge, str) else " ".join(merge) for merge in merges]
