"""Metadata and tensor types that llama.cpp does not refuse but dies of: it asserts, divides by zero, or loops.

Checked before llama.cpp sees the file. Only what is certain is refused, so that a new architecture is not.
"""

from __future__ import annotations

import math
import re
from typing import Any

from ..exceptions import ModelLoadError
from .modelfile import ModelFile

__all__ = ["check_model_file"]

_BLOCK = re.compile(r"blk\.(\d+)\.")
_INTEGERS = range(24, 28)  # ggml.h: I8, I16, I32, I64
_F32 = 0
_ALWAYS_F32 = re.compile(r"(\.ssm_a|\.ssm_dt\.bias|\.ssm_norm\.weight|norm\.weight|\.ssm_conv1d\.weight)$")


def check_model_file(file: ModelFile) -> None:
    """Raises ModelLoadError with reason `damaged` for a head that cannot be that of a working model."""

    def refuse(message: str) -> ModelLoadError:
        return ModelLoadError(file.path, "damaged", f"{message}; the file is damaged, download or convert it again")

    def number(key: str, least: float, most: float, whole: bool = True) -> Any:
        value = file.get(key)
        values = value if isinstance(value, list) else [] if value is None else [value]
        for v in values:
            kind = isinstance(v, int) and not isinstance(v, bool)
            if not (kind if whole else kind or isinstance(v, float)) or not (least <= v <= most):
                raise refuse(f"{file.architecture}{key} is {v!r}")
        return value

    blocks = {int(m.group(1)) for t in file.tensors if (m := _BLOCK.match(t.name))}
    count = number(".block_count", 1, 4096)
    if count is not None and blocks and max(blocks) >= count:
        raise refuse(f"{file.architecture}.block_count is {count}, but there are tensors of block {max(blocks)}")
    if isinstance(count, int) and blocks and len(blocks) < count and file.architecture in ("qwen35", "lfm2", "llama"):
        raise refuse(f"{file.architecture}.block_count is {count}, but only {len(blocks)} blocks have tensors")
    number(".nextn_predict_layers", 0, (count if isinstance(count, int) else 4096) - 1)
    for key in (".attention.layer_norm_rms_epsilon", ".attention.layer_norm_epsilon"):
        number(key, 0.0, 1.0, whole=False)
    number(".rope.freq_base", math.ulp(0.0), 1e15, whole=False)
    embd = number(".embedding_length", 1, 1 << 20)
    heads = number(".attention.head_count", 0, 1 << 16)
    head_dim = number(".attention.key_length", 1, 1 << 16)
    if head_dim is None and isinstance(embd, int) and isinstance(heads, int) and heads > 0:
        head_dim = embd // heads
    rotary = number(".rope.dimension_count", 1, 1 << 16)
    if isinstance(rotary, int) and isinstance(head_dim, int) and (rotary % 2 or rotary > head_dim):
        raise refuse(f"{file.architecture}.rope.dimension_count is {rotary} with heads of {head_dim}")
    sections = number(".rope.dimension_sections", 0, 1 << 16)
    if isinstance(sections, list) and isinstance(rotary, int) and sum(sections) > rotary:
        raise refuse(f"{file.architecture}.rope.dimension_sections sum to {sum(sections)}, more than {rotary}")
    number(".full_attention_interval", 1, 4096)
    _check_state_space(file, number, refuse)
    for tensor in file.tensors:
        if tensor.ggml_type in _INTEGERS and not tensor.name.startswith("d2t"):
            raise refuse(f"tensor {tensor.name!r} holds integers")
        if _ALWAYS_F32.search(tensor.name) and tensor.ggml_type != _F32:
            raise refuse(f"tensor {tensor.name!r} is not of 32-bit floats")


def _check_state_space(file: ModelFile, number: Any, refuse: Any) -> None:
    """Sizes of the recurrent state against the tensors that have them."""
    inner = number(".ssm.inner_size", 1, 1 << 20)
    for key in (".ssm.state_size", ".ssm.group_count", ".ssm.time_step_rank", ".ssm.conv_kernel"):
        number(key, 1, 1 << 16)
    number(".shortconv.l_cache", 2, 1 << 10)
    if not isinstance(inner, int):
        return
    for tensor in file.tensors:
        if tensor.name.endswith(".ssm_out.weight") and tensor.shape[0] != inner:
            raise refuse(f"{file.architecture}.ssm.inner_size is {inner}, but {tensor.name!r} has {tensor.shape[0]}")
