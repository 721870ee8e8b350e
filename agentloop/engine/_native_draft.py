"""ctypes calls for drafting: hidden rows of the target, and contexts that are fed tokens together with hidden rows.

The hidden-row functions are in `src/llama-ext.h` ("work in progress" there) under C++ names; each is looked up when it
is first asked for, and a library without them has no drafter of that kind.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native

__all__ = ["DraftContext", "has_hidden_rows", "hidden_rows", "want_hidden_rows"]

_P, _I, _B = ctypes.c_void_p, ctypes.c_int32, ctypes.c_bool

_NAMES = {
    "set_nextn": ("llama_set_embeddings_nextn", "_Z26llama_set_embeddings_nextnP13llama_contextbb"),
    "get_nextn": ("llama_get_embeddings_nextn", "_Z26llama_get_embeddings_nextnP13llama_context"),
    "get_nextn_ith": ("llama_get_embeddings_nextn_ith", "_Z30llama_get_embeddings_nextn_ithP13llama_contexti"),
}
_TYPES: dict[str, tuple[Any, ...]] = {
    "set_nextn": (None, _P, _B, _B),
    "get_nextn": (_P, _P),
    "get_nextn_ith": (_P, _P, _I),
}
_found: dict[str, Callable[..., Any] | None] = {}


def _function(name: str) -> Callable[..., Any] | None:
    if name not in _found:
        _found[name] = _native.find_function(_NAMES[name], *_TYPES[name])
    return _found[name]


def has_hidden_rows() -> bool:
    """True if this library can hand out hidden rows."""
    return all(_function(name) is not None for name in _NAMES)


def want_hidden_rows(ctx: _native.NativeContext) -> None:
    """Keep a hidden row, float32 [n_embd], for every token of every batch of the target from now on."""
    set_nextn = _function("set_nextn")
    assert set_nextn is not None
    set_nextn(ctx.handle, True, False)


def hidden_rows(ctx: _native.NativeContext, n: int, n_embd: int) -> NDArray[np.float32]:
    """A copy, float32 [n, n_embd], of the hidden rows of the first `n` tokens of the last batch."""
    get_nextn = _function("get_nextn")
    address = get_nextn(ctx.handle) if get_nextn is not None else None
    if not address:
        raise RuntimeError("the target has no hidden rows")
    memory: Any = (ctypes.c_float * (n * n_embd)).from_address(address)
    rows: NDArray[np.float32] = np.frombuffer(memory, np.float32).reshape(n, n_embd).copy()
    return rows


class DraftContext:
    """A second context on the same model whose batches hold a token and a hidden row each. Same sequence ids as the
    target's. Plain attention KV: it can be cut anywhere."""

    def __init__(self, model: _native.NativeModel, target: _native.NativeContext, **settings: Any) -> None:
        context = _native.NativeContext.create(model, ctx_other=target.handle, **settings)
        if context is None:
            raise RuntimeError("llama.cpp could not make the drafter's context")
        self.ctx = context
        self.n_embd = model.n_embd
        self._last = 0
        set_nextn = _function("set_nextn")
        assert set_nextn is not None
        # Rows of all tokens. With rows of outputs alone (masked), llama.cpp copies as many rows as there are outputs
        # from the start of a tensor that has one for every token: the first token's in place of the last one's
        # (llama-context.cpp: decode; models/qwen35.cpp: h_nextn is set before the outputs are picked).
        set_nextn(context.handle, True, False)
        self._embd = np.zeros((context.n_batch, self.n_embd), np.float32)
        context.feed_embeddings(self._embd)

    def decode(self, ids: Sequence[int], rows: NDArray[np.float32], pos: int, slot: int) -> None:
        """Decode tokens with their hidden rows; the last one has logits and a hidden row. RuntimeError on failure."""
        n = len(ids)
        self._embd[:n] = rows
        behind = self.ctx.position(slot)
        if behind > pos:
            self.ctx.remove(slot, pos)
        self._last = n - 1
        code = self.ctx.decode_at(ids, pos, slot)
        if code != 0:
            raise RuntimeError(f"the drafter's decode failed with code {code}")

    def best(self) -> int:
        """The most probable token behind the last row."""
        return int(self.ctx.row(-1).argmax())

    def hidden(self) -> NDArray[np.float32]:
        """A copy of the hidden row of the last token of the last batch."""
        get = _function("get_nextn_ith")
        address = get(self.ctx.handle, self._last) if get is not None else None
        if not address:
            raise RuntimeError("the drafter has no hidden row")
        memory: Any = (ctypes.c_float * self.n_embd).from_address(address)
        row: NDArray[np.float32] = np.frombuffer(memory, np.float32).copy()
        return row

    def close(self) -> None:
        self.ctx.close()
