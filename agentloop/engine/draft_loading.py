"""From `draft_path` to a drafter: which kind the file is, whether it fits the target, and what it takes to run it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

from ..exceptions import ModelLoadError
from .drafters import BlockFactory, BlockPlan, DrafterFactory, DraftModelFactory
from .modelfile import ModelFile
from .shape import ModelShape

if TYPE_CHECKING:
    from ._native import NativeContext, NativeModel

__all__ = ["DraftKind", "check_draft_file", "draft_kind", "load_draft_file"]

DraftKind = Literal["block", "draft_model"]

_CHAIN = 8  # the longest chain of a draft model: each further token costs a decode
_SAMPLE = 4096  # how many tokens of two vocabularies are compared, besides the special ones
_SPECIAL = 8 | 16  # llama.h: LLAMA_TOKEN_ATTR_CONTROL, LLAMA_TOKEN_ATTR_USER_DEFINED
_log = logging.getLogger("agentloop.engine")


def draft_kind(file: ModelFile) -> DraftKind:
    """The name of the drafter that this file is for."""
    return "block" if file.architecture == "dflash" else "draft_model"


def check_draft_file(file: ModelFile, target: ModelFile, shape: ModelShape) -> None:
    """What can be told without loading it. Raises ModelLoadError with reason `draft_mismatch`."""
    ours, theirs = (f.array_lengths.get("tokenizer.ggml.tokens", 0) for f in (target, file))
    if ours != theirs:
        raise _mismatch(file, f"its vocabulary has {theirs} tokens, the model's has {ours}")
    if draft_kind(file) == "block":
        BlockPlan.of(file, shape)


def load_draft_file(
    file: ModelFile,
    target_model: NativeModel,
    target: NativeContext,
    shape: ModelShape,
    depth: int,
    settings: dict[str, int | bool],
    n_gpu_layers: int,
) -> DrafterFactory | None:
    """The drafter for a file that `check_draft_file` passed; None, with a warning in the log, when this library cannot
    run it or has no memory for it. Raises ModelLoadError when llama.cpp refuses the file or the vocabularies differ."""
    from . import _native
    from ._native_block import can_draft_blocks

    kind = draft_kind(file)
    if kind == "block" and not can_draft_blocks():
        _log.warning("no block drafter: this llama.cpp library does not export what it needs")
        return None
    model = _native.NativeModel.load(str(file.path), n_gpu_layers=n_gpu_layers, load_mtp=False)
    if model is None:
        errors = _native.recent_errors()
        detail = f" ({errors[0]})" if errors else ""
        raise ModelLoadError(file.path, "refused", f"llama.cpp could not load this draft file{detail}")
    try:
        _check_vocabulary(file, model, target_model)
        tag = bytes.fromhex(file.fingerprint())
        if kind == "block":
            plan = BlockPlan.of(file, shape)
            return BlockFactory(plan, model, target_model, target, depth, settings, tag)
        if not model.has_decoder or model.has_encoder:
            raise ModelLoadError(file.path, "no_decoder", "not a decoder-only text model; it cannot draft")
        return DraftModelFactory(model, min(depth, _CHAIN), settings, tag)
    except RuntimeError as error:
        model.close()
        _log.warning("no %s drafter: %s", kind, error)
        return None
    except BaseException:
        model.close()
        raise


def _check_vocabulary(file: ModelFile, model: NativeModel, target: NativeModel) -> None:
    n = target.n_vocab
    if model.n_vocab != n:
        raise _mismatch(file, f"its vocabulary has {model.n_vocab} tokens, the model's has {n}")
    special = (target.token_attributes() & _SPECIAL).nonzero()[0].tolist()
    for token in [*special, *range(0, n, max(1, n // _SAMPLE))]:
        ours, theirs = target.piece(token), model.piece(token)
        if ours != theirs:
            raise _mismatch(file, f"token {token} is {theirs!r} in its vocabulary and {ours!r} in the model's")


def _mismatch(file: ModelFile, what: str) -> ModelLoadError:
    return ModelLoadError(file.path, "draft_mismatch", f"cannot draft for this model: {what}")
