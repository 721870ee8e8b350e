"""GGUF files with random weights and real architectures, for benchmarks and tests that need a shape and no meaning.

Tensor names and shapes as llama.cpp loads them: src/models/qwen35.cpp (Gated DeltaNet, full attention every `interval`
layers, an optional MTP layer), src/models/lfm2.cpp (short convolutions), src/models/llama.cpp. Norms are 1; matrices
are normal with variance 1 / fan-in, so that activations keep their size and logits depend on the whole state.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

__all__ = ["QWEN35_08B", "RandomModel", "write_random_model"]

Architecture = Literal["qwen35", "lfm2", "llama"]

_SPECIAL = (
    ("<|endoftext|>", 3),
    ("<|im_start|>", 3),
    ("<|im_end|>", 3),
    ("<think>", 4),
    ("</think>", 4),
    ("<tool_call>", 4),
    ("</tool_call>", 4),
    ("<tool_response>", 4),
    ("</tool_response>", 4),
)


@dataclass(frozen=True, slots=True)
class RandomModel:
    """Sizes of a model to write. The defaults make a file of about 1 MB that decodes a token in a fraction of a
    millisecond. `half` stores matrices as 16-bit floats. The vocabulary is one token per byte, the special tokens of
    the Qwen family, those in `special`, and fillers up to `vocab`; it is the same for every architecture.
    lfm2 has heads of embd // heads, whatever `head_dim` says."""

    architecture: Architecture = "qwen35"
    layers: int = 4
    embd: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    ffn: int = 128
    interval: int = 2
    ssm_heads: int = 2
    ssm_groups: int = 2
    ssm_state: int = 32
    l_cache: int = 3
    mtp: int = 0
    vocab: int = 320
    ctx: int = 4096
    seed: int = 0
    half: bool = False
    template: str | None = None
    special: tuple[str, ...] = ()


QWEN35_08B = RandomModel(
    layers=24,
    embd=1024,
    heads=8,
    kv_heads=2,
    head_dim=256,
    ffn=3584,
    interval=4,
    ssm_heads=16,
    ssm_groups=16,
    ssm_state=128,
    vocab=248320,
    ctx=262144,
    half=True,
)
"""The sizes of Qwen3.5-0.8B without its MTP layer, as its config.json gives them."""


def write_random_model(path: str | os.PathLike[str], model: RandomModel | None = None) -> Path:
    """Write the GGUF file and return its path. The same `RandomModel` gives the same weights."""
    import gguf

    model = model or RandomModel()
    path = Path(path)
    w = gguf.GGUFWriter(str(path), model.architecture)
    w.add_name(f"random {model.architecture}")
    w.add_block_count(model.layers + model.mtp)
    w.add_context_length(model.ctx)
    w.add_embedding_length(model.embd)
    w.add_feed_forward_length(model.ffn)
    w.add_head_count(model.heads)
    w.add_layer_norm_rms_eps(1e-6)
    w.add_rope_freq_base(10000.0)
    w.add_vocab_size(model.vocab)
    _vocabulary(w, model)
    if model.template is not None:
        w.add_chat_template(model.template)
    writer = _Weights(w, model)
    {"qwen35": _qwen35, "lfm2": _lfm2, "llama": _llama}[model.architecture](writer)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path


def _vocabulary(w: Any, model: RandomModel) -> None:
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in visible]
    characters = {b: chr(b) for b in visible} | {b: chr(256 + i) for i, b in enumerate(others)}
    tokens = [*(characters[b] for b in range(256)), "th"]
    types = [1] * 257
    special = {}
    for text, kind in (*_SPECIAL, *((text, 3) for text in model.special)):
        special[text] = len(tokens)
        tokens.append(text)
        types.append(kind)
    for i in range(len(tokens), model.vocab):
        tokens.append(f"[PAD{i}]")
        types.append(5)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list(tokens)
    w.add_token_types(types)
    w.add_token_merges(["t h"])
    w.add_bos_token_id(special["<|endoftext|>"])
    w.add_eos_token_id(special["<|im_end|>"])
    w.add_pad_token_id(special["<|endoftext|>"])
    w.add_add_bos_token(False)


class _Weights:
    def __init__(self, w: Any, model: RandomModel) -> None:
        if model.architecture == "lfm2":
            model = replace(model, head_dim=model.embd // model.heads)
        self.w, self.m = w, model
        self.random = np.random.default_rng(model.seed)

    def matrix(self, name: str, out: int, into: int, gain: float = 1.0) -> None:
        values = self.random.standard_normal((out, into), np.float32) * np.float32(gain / np.sqrt(into))
        self.w.add_tensor(name, values.astype(np.float16) if self.m.half else values)

    def vector(self, name: str, values: Any) -> None:
        self.w.add_tensor(name, np.ascontiguousarray(values, dtype=np.float32))

    def ones(self, name: str, n: int) -> None:
        self.vector(name, np.ones(n))

    def attention(self, p: str, gated: bool = False) -> None:
        m = self.m
        self.matrix(p + "attn_q.weight", m.heads * m.head_dim * (2 if gated else 1), m.embd)
        self.matrix(p + "attn_k.weight", m.kv_heads * m.head_dim, m.embd)
        self.matrix(p + "attn_v.weight", m.kv_heads * m.head_dim, m.embd)
        self.matrix(p + "attn_output.weight", m.embd, m.heads * m.head_dim)

    def ffn(self, p: str) -> None:
        self.matrix(p + "ffn_gate.weight", self.m.ffn, self.m.embd)
        self.matrix(p + "ffn_up.weight", self.m.ffn, self.m.embd)
        self.matrix(p + "ffn_down.weight", self.m.embd, self.m.ffn)

    def embedding(self) -> None:
        # Small beside what the layers add, so that logits depend on the state and not on the last token alone.
        values = self.random.standard_normal((self.m.vocab, self.m.embd), np.float32) * np.float32(0.1)
        self.w.add_tensor("token_embd.weight", values.astype(np.float16) if self.m.half else values)


def _qwen35(t: _Weights) -> None:
    m, w = t.m, t.w
    rope = m.head_dim // 2
    third = rope // 2 // 3
    inner = m.ssm_heads * m.ssm_state
    w.add_head_count_kv(m.kv_heads)
    w.add_key_length(m.head_dim)
    w.add_value_length(m.head_dim)
    w.add_rope_dimension_count(rope)
    w.add_rope_dimension_sections([rope // 2 - 2 * third, third, third, 0])
    w.add_ssm_conv_kernel(4)
    w.add_ssm_state_size(m.ssm_state)
    w.add_ssm_group_count(m.ssm_groups)
    w.add_ssm_time_step_rank(m.ssm_heads)
    w.add_ssm_inner_size(inner)
    w.add_full_attention_interval(m.interval)
    if m.mtp:
        w.add_nextn_predict_layers(m.mtp)
    t.embedding()
    t.ones("output_norm.weight", m.embd)
    for i in range(m.layers + m.mtp):
        p = f"blk.{i}."
        t.ones(p + "attn_norm.weight", m.embd)
        t.ones(p + "post_attention_norm.weight", m.embd)
        if i >= m.layers or (i + 1) % m.interval == 0:
            t.attention(p, gated=True)
            t.ones(p + "attn_q_norm.weight", m.head_dim)
            t.ones(p + "attn_k_norm.weight", m.head_dim)
        else:
            convolved = inner + 2 * m.ssm_groups * m.ssm_state
            t.matrix(p + "attn_qkv.weight", convolved, m.embd)
            t.matrix(p + "attn_gate.weight", inner, m.embd)
            t.vector(p + "ssm_conv1d.weight", t.random.standard_normal((convolved, 4)) * 0.5)
            t.vector(p + "ssm_dt.bias", t.random.standard_normal(m.ssm_heads) * 0.5 - 3.0)
            t.vector(p + "ssm_a", -np.exp(t.random.uniform(-1.0, 1.0, m.ssm_heads)))
            t.matrix(p + "ssm_beta.weight", m.ssm_heads, m.embd)
            t.matrix(p + "ssm_alpha.weight", m.ssm_heads, m.embd)
            t.ones(p + "ssm_norm.weight", m.ssm_state)
            t.matrix(p + "ssm_out.weight", m.embd, inner)
        t.ffn(p)
        if i >= m.layers:
            t.matrix(p + "nextn.eh_proj.weight", m.embd, 2 * m.embd)
            for name in ("enorm", "hnorm", "shared_head_norm"):
                t.ones(p + f"nextn.{name}.weight", m.embd)


def _lfm2(t: _Weights) -> None:
    m, w = t.m, t.w
    full = [(i + 1) % m.interval == 0 for i in range(m.layers)]
    w.add_head_count_kv([m.kv_heads if f else 0 for f in full])
    w.add_shortconv_l_cache(m.l_cache)
    t.embedding()
    t.ones("token_embd_norm.weight", m.embd)
    for i, attention in enumerate(full):
        p = f"blk.{i}."
        t.ones(p + "attn_norm.weight", m.embd)
        t.ones(p + "ffn_norm.weight", m.embd)
        if attention:
            t.attention(p)
            t.ones(p + "attn_q_norm.weight", m.head_dim)
            t.ones(p + "attn_k_norm.weight", m.head_dim)
        else:
            t.vector(p + "shortconv.conv.weight", t.random.standard_normal((m.embd, m.l_cache)) * 0.6)
            t.matrix(p + "shortconv.in_proj.weight", 3 * m.embd, m.embd)
            t.matrix(p + "shortconv.out_proj.weight", m.embd, m.embd)
        t.ffn(p)


def _llama(t: _Weights) -> None:
    m, w = t.m, t.w
    w.add_head_count_kv(m.kv_heads)
    w.add_key_length(m.head_dim)
    w.add_value_length(m.head_dim)
    w.add_rope_dimension_count(m.head_dim)
    t.embedding()
    t.ones("output_norm.weight", m.embd)
    for i in range(m.layers):
        p = f"blk.{i}."
        t.ones(p + "attn_norm.weight", m.embd)
        t.ones(p + "ffn_norm.weight", m.embd)
        t.attention(p)
        t.ffn(p)
