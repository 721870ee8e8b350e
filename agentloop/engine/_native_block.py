"""ctypes calls for block drafting: inputs of the target's layers, and a context that takes them as rows.

A `dflash` context decodes two kinds of batches: rows of target features, which fill its KV at the target's positions
(injection), and a block of tokens, the last known one and masks behind it (noise). llama.cpp aborts the process on
several misuses; `BlockContext` asserts what is decoded, and drafters/block.py refuses files that cannot be decoded.

The functions are in `src/llama-ext.h` ("work in progress" there) under C++ names; each is looked up when it is first
asked for, and a library without them has no drafter of this kind.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native

__all__ = ["BlockContext", "can_draft_blocks", "mask_token", "selector_top_k", "tap_layers", "tapped_rows"]

_P, _I, _U, _B = ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint32, ctypes.c_bool

_FUNCTIONS: dict[str, tuple[tuple[str, ...], tuple[Any, ...]]] = {
    "set_tap": (
        ("llama_set_embeddings_layer_inp", "_Z30llama_set_embeddings_layer_inpP13llama_contextjb"),
        (None, _P, _U, _B),
    ),
    "get_tap": (
        ("llama_get_embeddings_layer_inp", "_Z30llama_get_embeddings_layer_inpP13llama_contextj"),
        (_P, _P, _U),
    ),
    "set_nextn": (
        ("llama_set_embeddings_nextn", "_Z26llama_set_embeddings_nextnP13llama_contextbb"),
        (None, _P, _B, _B),
    ),
    "get_nextn": (("llama_get_embeddings_nextn", "_Z26llama_get_embeddings_nextnP13llama_context"), (_P, _P)),
    "top_k": (
        ("llama_model_dflash_selector_top_k", "_Z33llama_model_dflash_selector_top_kPK11llama_model"),
        (_I, _P),
    ),
    "set_causal": (("llama_set_causal_attn",), (None, _P, _B)),
    "mask": (("llama_vocab_mask",), (_I, _P)),
    "rope_type": (("llama_model_rope_type",), (_I, _P)),
}
_MROPE = 8  # llama.h: LLAMA_ROPE_TYPE_MROPE
_found: dict[str, Callable[..., Any] | None] = {}


def _function(name: str) -> Callable[..., Any] | None:
    if name not in _found:
        names, types = _FUNCTIONS[name]
        _found[name] = _native.find_function(names, *types)
    return _found[name]


def _call(name: str, *args: Any) -> Any:
    function = _function(name)
    if function is None:
        raise RuntimeError(f"this llama.cpp library has no {_FUNCTIONS[name][0][0]}")
    return function(*args)


def can_draft_blocks() -> bool:
    """True if this library exports all that block drafting needs."""
    return all(_function(name) is not None for name in _FUNCTIONS)


def selector_top_k(model: _native.NativeModel) -> int:
    """Candidates a position in the lattice of a DFlash2 model; 0 for the other kinds."""
    return int(_call("top_k", model.handle))


def mask_token(model: _native.NativeModel) -> int:
    """The id that stands for a token to be drafted; -1 when the vocabulary has none."""
    return int(_call("mask", model.vocab))


def tap_layers(target: _native.NativeContext, layers: Sequence[int]) -> None:
    """Keep the input of these layers for every token of every batch from now on. Layers must be below the target's
    number of layers, on an architecture that exports them: anything else aborts at the next decode."""
    for layer in layers:
        _call("set_tap", target.handle, layer, True)


def tapped_rows(target: _native.NativeContext, layers: Sequence[int], n: int, n_embd: int) -> NDArray[np.float32]:
    """A copy, float32 [n, len(layers) * n_embd], of the layers' inputs for the first `n` tokens of the last batch."""
    out = np.empty((n, len(layers) * n_embd), np.float32)
    for i, layer in enumerate(layers):
        address = _call("get_tap", target.handle, layer)
        if not address:
            raise RuntimeError(f"the target has no input of layer {layer}")
        memory: Any = (ctypes.c_float * (n * n_embd)).from_address(address)
        out[:, i * n_embd : (i + 1) * n_embd] = np.frombuffer(memory, np.float32).reshape(n, n_embd)
    return out


class BlockContext:
    """A context of a `dflash` model beside the target's, with the same sequence ids. Plain attention KV: it can be cut
    anywhere."""

    def __init__(
        self,
        model: _native.NativeModel,
        target: _native.NativeContext,
        *,
        width: int,
        causal: bool,
        hidden: bool,
        all_hidden: bool,
        settings: dict[str, int | bool],
    ) -> None:
        """`width`: floats in one row of target features. `hidden`: noise rows have hidden rows to read (confidences or
        a lattice), `all_hidden`: also rows without logits."""
        context = _native.NativeContext.create(model, ctx_other=target.handle, n_rs_seq=0, **settings)
        if context is None:
            raise RuntimeError("llama.cpp could not make the drafter's context")
        self.ctx = context
        self.width = width
        self.n_embd = model.n_embd
        self.most = min(context.n_batch, context.n_ubatch)  # non-causal: more rows in one call abort the process
        _call("set_causal", context.handle, causal)
        if hidden:
            _call("set_nextn", context.handle, True, not all_hidden)
        # Rows of features alone carry four positions each on M-RoPE models: time, height, width, unused.
        self._axes = 4 if int(_call("rope_type", model.handle)) == _MROPE else 1
        self._token = np.zeros(self.most, np.int32)
        self._pos = np.zeros(self.most * 4, np.int32)
        self._n_seq, self._seq = np.ones(self.most, np.int32), np.zeros(1, np.int32)
        self._seq_ptr = np.full(self.most, self._seq.ctypes.data, np.uintp)
        self._out = np.zeros(self.most, np.int8)
        self._rows = np.zeros((0, width), np.float32)
        self._batch = type(context._batch)()
        self._point("n_seq_id", self._n_seq)
        self._point("seq_id", self._seq_ptr)
        self._point("pos", self._pos)
        self._point("logits", self._out)

    def inject(self, rows: NDArray[np.float32], pos: int, slot: int) -> int:
        """Fill the KV of positions `pos`... with target features, float32 [n, width]. Returns llama.cpp's first code
        that is not 0; what was injected before it stays."""
        self._check(pos, slot)
        for start in range(0, len(rows), self.most):
            self._rows = np.ascontiguousarray(rows[start : start + self.most], np.float32)
            n = len(self._rows)
            steps = np.arange(pos + start, pos + start + n, dtype=np.int32)
            axes = self._pos[: n * self._axes].reshape(self._axes, n)  # section-major
            axes[: min(3, self._axes)] = steps
            axes[3:] = 0
            self._out[:n] = 0
            self._point("embd", self._rows)
            self._point("token", None)
            code = self._run(n, slot)
            if code != 0:
                return code
        return 0

    def noise(self, ids: Sequence[int], pos: int, slot: int, outputs: bool) -> int:
        """Decode a block at `pos`, all rows with logits or none; `remove` its rows before the next injection."""
        n = len(ids)
        assert 0 < n <= self.most, f"a block holds 1 to {self.most} tokens, not {n}"
        self._check(pos, slot)
        self._token[:n] = ids
        self._pos[:n] = np.arange(pos, pos + n, dtype=np.int32)
        self._out[:n] = outputs  # a part of them would give the logits of other rows
        self._point("token", self._token)
        self._point("embd", None)
        return self._run(n, slot)

    def best(self, first: int, end: int) -> list[int]:
        """The most probable token of the noise rows `first` to `end - 1`."""
        return [int(self.ctx.row(i).argmax()) for i in range(first, end)]

    def hidden(self, n: int) -> NDArray[np.float32]:
        """A copy, float32 [n, n_embd], of the hidden rows of the last block."""
        address = _call("get_nextn", self.ctx.handle)
        if not address:
            raise RuntimeError("the drafter has no hidden rows")
        memory: Any = (ctypes.c_float * (n * self.n_embd)).from_address(address)
        rows: NDArray[np.float32] = np.frombuffer(memory, np.float32).reshape(n, self.n_embd).copy()
        return rows

    def close(self) -> None:
        self.ctx.close()

    def _check(self, pos: int, slot: int) -> None:
        behind = self.ctx.position(slot) - 1
        assert behind in (-1, pos - 1), f"position {pos} does not follow {behind} in sequence {slot}"

    def _point(self, field: str, array: NDArray[Any] | None) -> None:
        fields: Any = type(self._batch)._fields_
        pointer = None if array is None else ctypes.cast(array.ctypes.data, dict(fields)[field])
        setattr(self._batch, field, pointer)

    def _run(self, n: int, slot: int) -> int:
        self._seq[0] = slot
        self._batch.n_tokens = n
        self.ctx.serial += 1
        return int(_native._decode(self.ctx.handle, self._batch))
