"""What a model's metadata says of its size at run time: layers by kind, bytes per KV token, bytes per recurrent plane.

Keys as llama.cpp reads them (src/llama-model.cpp, src/models/): qwen35 and its relatives have a full attention layer
every `full_attention_interval` layers and Gated DeltaNet between them; lfm2 marks its convolution layers by a
`head_count_kv` of 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .modelfile import ModelFile

__all__ = ["ModelShape"]


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Layers are those of the target itself; MTP layers are counted in `mtp_layers` alone.
    `kv_bytes_per_token` is for a 16-bit KV cache. `recurrent_bytes` is one plane of one sequence (float32): the context
    holds 1 + ring planes for each. `heads`: query heads of an attention layer."""

    architecture: str
    layers: int
    attention_layers: int
    recurrent_layers: int
    mtp_layers: int
    n_embd: int
    n_ctx_train: int
    kv_bytes_per_token: int
    recurrent_bytes: int
    heads: int

    @classmethod
    def of(cls, file: ModelFile) -> ModelShape:
        mtp = _int(file.get(".nextn_predict_layers"), 0)
        layers = max(0, _int(file.get(".block_count"), 0) - mtp)
        n_embd = _int(file.get(".embedding_length"), 0)
        heads = _per_layer(file.get(".attention.head_count"), layers, 1)
        kv_heads = _per_layer(file.get(".attention.head_count_kv"), layers, heads[0] if heads else 1)
        head_dim = n_embd // max(1, max(heads, default=1))
        key = _int(file.get(".attention.key_length"), head_dim)
        value = _int(file.get(".attention.value_length"), head_dim)
        per_plane = 0
        if (state := _int(file.get(".ssm.state_size"), 0)) > 0:
            interval = _int(file.get(".full_attention_interval"), 0)
            attention = [interval > 0 and (i + 1) % interval == 0 for i in range(layers)]
            inner, kernel = _int(file.get(".ssm.inner_size"), 0), _int(file.get(".ssm.conv_kernel"), 1)
            groups = _int(file.get(".ssm.group_count"), 1)
            per_plane = (kernel - 1) * (inner + 2 * groups * state) + state * inner
        else:
            attention = [n > 0 for n in kv_heads]
            if (cache := _int(file.get(".shortconv.l_cache"), 0)) > 1:
                per_plane = (cache - 1) * n_embd
        n_attention = sum(attention)
        kv = sum(n * (key + value) * 2 for n, full in zip(kv_heads, attention, strict=True) if full)
        recurrent = layers - n_attention
        return cls(
            file.architecture,
            layers,
            n_attention,
            recurrent,
            mtp,
            n_embd,
            _int(file.get(".context_length"), 0),
            kv,
            recurrent * per_plane * 4,
            max(heads, default=1),
        )


def _int(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def _per_layer(value: Any, layers: int, default: int) -> list[int]:
    if isinstance(value, list):
        numbers = [_int(v, 0) for v in value[:layers]]
        return numbers + [0] * (layers - len(numbers))
    return [_int(value, default)] * layers
