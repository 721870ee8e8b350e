"""What a `dflash` file says of itself, held against the target: every misfit is refused here, because llama.cpp aborts
the process on most of them.

Keys and tensors as in llama.cpp's src/models/dflash.cpp and conversion/qwen.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...exceptions import ModelLoadError

if TYPE_CHECKING:
    from ..modelfile import ModelFile, TensorInfo
    from ..shape import ModelShape

    _Need = Callable[[bool, str], None]

__all__ = ["BlockPlan"]

_I64 = 27  # ggml.h: GGML_TYPE_I64

# Architectures whose graphs export the inputs of their layers (t_layer_inp in src/models/): a tap on any other aborts.
_TAPPABLE = frozenset(
    (
        *("bailingmoe3", "gemma4", "gpt-oss", "hunyuan_vl", "lfm2", "lfm2moe", "llama", "mimo2", "minimax-01"),
        *("minimax-m2", "muse-glimmer", "nanbeige", "nemotron_h", "nemotron_h_moe", "qwen3", "qwen35", "qwen35moe"),
        *("qwen3moe", "qwen3next"),
    )
)
_LAST_OUTPUT = frozenset(("mimo2", "nemotron_h", "nemotron_h_moe"))  # these export the last layer's output as well


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """How to draft with a file. `taps`: target layers whose inputs are injected. `first`: the block's row that holds
    the first drafted token, 0 when the anchor's own row predicts. A block has at most `block_size` rows."""

    kind: Literal["dflash", "dflash2", "dspark"]
    taps: tuple[int, ...]
    block_size: int
    first: int
    causal: bool
    confidence: bool
    top_k: int

    @property
    def depth(self) -> int:
        """The most tokens that one block drafts."""
        return self.block_size - self.first

    @classmethod
    def of(cls, file: ModelFile, target: ModelShape) -> BlockPlan:
        """Raises ModelLoadError with reason `draft_mismatch` when the file cannot draft for the target."""

        def need(holds: bool, what: str) -> None:
            if not holds:
                raise ModelLoadError(file.path, "draft_mismatch", f"cannot draft for this model: {what}")

        tensors = {tensor.name: tensor for tensor in file.tensors}
        need(target.architecture in _TAPPABLE, f"llama.cpp hands out no layer inputs of {target.architecture}")
        need(not file.get(".hyper_connection.count"), "drafters with a DeepSeek-V4 backbone are not supported")
        embd = file.get(".embedding_length")
        need(embd == target.n_embd, f"its width is {embd}, the model's is {target.n_embd}")
        taps = file.get(".target_layers")
        most = target.layers - (target.architecture not in _LAST_OUTPUT)
        need(isinstance(taps, list) and len(taps) > 0, "it names no target layers")
        need(all(isinstance(i, int) and 0 <= i <= most for i in taps), f"target layers {taps} are not in 0 to {most}")
        _check_heads(file, need)
        top_k = int(file.get(".selector_top_k") or 0)
        lattice = "selector_hidden.weight" in tensors
        need((top_k > 0) == lattice, "its selector is incomplete")
        need(top_k <= _vocabulary(file), f"its selector takes {top_k} candidates of {_vocabulary(file)} tokens")
        dspark = "markov_w1.weight" in tensors
        need(not (lattice and dspark), "it has both a selector and a Markov head")
        size = file.get(".block_size", None if dspark or lattice else 16)
        need(isinstance(size, int) and size >= 1, "it names no block size")
        from_anchor = dspark and bool(file.get(".sample_from_anchor", True))
        need(from_anchor or size >= 2, f"a block of {size} drafts nothing")
        mask = file.get("tokenizer.ggml.mask_token_id")
        need(isinstance(mask, int) and 0 <= mask < _vocabulary(file), f"its mask token is {mask}")
        d2t = tensors.get("d2t")
        if d2t is not None:
            _check_map(file, d2t, need, "output.weight" in tensors or "token_embd.weight" in tensors)
        return cls(
            "dflash2" if lattice else "dspark" if dspark else "dflash",
            tuple(taps),
            size,
            0 if from_anchor else 1,
            bool(file.get(".attention.causal", False)),
            dspark and "conf_proj.weight" in tensors,
            top_k,
        )


def _vocabulary(file: ModelFile) -> int:
    return int(file.array_lengths.get("tokenizer.ggml.tokens", 0))


def _check_heads(file: ModelFile, need: _Need) -> None:
    heads, kv_heads = file.get(".attention.head_count"), file.get(".attention.head_count_kv")
    if not isinstance(heads, int) or heads < 1:
        need(False, "it names no attention heads")
        return
    if isinstance(kv_heads, int):
        need(kv_heads > 0 and heads % kv_heads == 0, f"{heads} heads cannot share {kv_heads} KV heads")
    default = int(file.get(".embedding_length")) // heads
    key, value = (int(file.get(f".attention.{part}_length", default)) for part in ("key", "value"))
    need(key == value, f"its heads have keys of {key} and values of {value}")
    rope = int(file.get(".rope.dimension_count", key))
    need(rope <= key and rope % 2 == 0, f"its rope turns {rope} of {key} dimensions")


def _check_map(file: ModelFile, d2t: TensorInfo, need: _Need, own_output: bool) -> None:
    """The graph scatters its logits by this map without looking."""
    need(own_output, "it has a vocabulary of its own and no output matrix for it")
    need(d2t.ggml_type == _I64 and len(d2t.shape) == 1, "its vocabulary map is not a list of 64-bit ids")
    with file.path.open("rb") as data:
        data.seek(file.data_start + d2t.offset)
        ids = np.frombuffer(data.read(8 * d2t.shape[0]), "<i8")
    inside = len(ids) > 0 and int(ids.min()) >= 0 and int(ids.max()) < _vocabulary(file)
    need(inside, "its vocabulary map names ids outside the vocabulary")
