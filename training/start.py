"""Start from a GGUF that `export` wrote: its weights, its tokenizer, and a narrower feed-forward if asked."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from .export import MTP_TENSORS, block_tensors
from .model import Shape
from .tokenizer import SPECIAL, new_tokenizer

__all__ = ["BadStart", "Start", "narrowed", "read_gguf", "read_start"]


class BadStart(ValueError):
    """A file that no training can start from, or a width that its network does not have."""


@dataclasses.dataclass(frozen=True)
class Start:
    """What a training goes on from: a state dict, its shape, its tokenizer, and the SHA-256 of the file it is of."""

    weights: dict[str, Tensor]
    shape: Shape
    tokenizer: Tokenizer
    sha256: str


def read_start(path: Path, inner: int | None = None) -> Start:
    """The network of a GGUF, with `inner` units in each feed-forward if that is given. Raises as `read_gguf` does."""
    weights, shape, tokenizer = read_gguf(path)
    if inner is not None:
        weights, shape = narrowed(weights, shape, inner)
    return Start(weights, shape, tokenizer, hashlib.sha256(path.read_bytes()).hexdigest())


def read_gguf(path: Path) -> tuple[dict[str, Tensor], Shape, Tokenizer]:
    """The state dict (float32), the shape and the tokenizer of a `qwen35` GGUF with one MTP layer, in F16 or F32.

    Raises OSError where it cannot be read, BadStart where it is no such file.
    """
    try:
        reader = gguf.GGUFReader(path)
    except (ValueError, IndexError, KeyError) as error:
        raise BadStart(f"{path} is no GGUF that can be read: {error}") from error

    def key(name: str) -> Any:
        if name not in reader.fields:
            raise BadStart(f"{path} has no {name}; a qwen35 GGUF that `python -m training` wrote is wanted")
        return reader.fields[name].contents()

    if (family := key("general.architecture")) != "qwen35" or key("qwen35.nextn_predict_layers") != 1:
        raise BadStart(f"{path} is a {family} model; a qwen35 GGUF with one MTP layer is wanted")
    kinds = {t.tensor_type.name for t in reader.tensors}
    if kinds - {"F16", "F32"}:
        raise BadStart(f"{path} has tensors in {', '.join(sorted(kinds))}; F16 and F32 can be trained")

    def size(name: str) -> int:
        return int(key(f"qwen35.{name}"))

    shape = Shape(
        vocabulary=len(key("tokenizer.ggml.tokens")),
        width=size("embedding_length"),
        layers=size("block_count") - 1,
        heads=size("attention.head_count"),
        kv_heads=size("attention.head_count_kv"),
        head_size=size("attention.key_length"),
        inner=size("feed_forward_length"),
        state_size=size("ssm.state_size"),
        state_heads=size("ssm.time_step_rank"),
        interval=size("full_attention_interval"),
        rope_dims=size("rope.dimension_count"),
        rope_base=float(key("qwen35.rope.freq_base")),
        context=size("context_length"),
    )
    stored = {t.name: torch.from_numpy(np.array(t.data, dtype=np.float32)) for t in reader.tensors}
    names = {"embedding.weight": "token_embd.weight", "norm.weight": "output_norm.weight"}
    for layer in range(shape.layers):
        names |= block_tensors(f"blocks.{layer}.", f"blk.{layer}.")
    names |= block_tensors("mtp_block.", f"blk.{shape.layers}.")
    names |= {ours: f"blk.{shape.layers}.{theirs}" for ours, theirs in MTP_TENSORS.items()}
    weights = {ours: stored[theirs] for ours, theirs in names.items() if theirs in stored}
    for name in weights:
        if name.endswith("log_decay"):
            weights[name] = (-weights[name]).log()
    return weights, shape, _tokenizer(key("tokenizer.ggml.tokens"), key("tokenizer.ggml.merges"))


def narrowed(weights: dict[str, Tensor], shape: Shape, inner: int) -> tuple[dict[str, Tensor], Shape]:
    """Keep the `inner` units of every feed-forward that weigh most (product of the norms of their three rows). Raises
    BadStart unless 1 <= inner <= shape.inner."""
    if not 1 <= inner <= shape.inner:
        raise BadStart(f"the feed-forward has {shape.inner} units; {inner} of them cannot be kept")
    out = dict(weights)
    for name in weights:
        if name.endswith("ffn.gate.weight"):
            stem = name.removesuffix("gate.weight")
            gate, up, down = (weights[f"{stem}{part}.weight"] for part in ("gate", "up", "down"))
            keep = (gate.norm(dim=1) * up.norm(dim=1) * down.norm(dim=0)).topk(inner).indices.sort().values
            out[f"{stem}gate.weight"], out[f"{stem}up.weight"] = gate[keep], up[keep]
            out[f"{stem}down.weight"] = down[:, keep].contiguous()
    return out, dataclasses.replace(shape, inner=inner)


def _tokenizer(tokens: list[str], merges: list[str]) -> Tokenizer:
    plain = {token: i for i, token in enumerate(tokens) if token not in SPECIAL and not token.startswith("[PAD")}
    tokenizer = new_tokenizer(plain, [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)])
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer
