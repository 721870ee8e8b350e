"""From a path to a model, a context and its drafters, with every refusal made clear before llama.cpp would abort."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..exceptions import ModelLoadError
from .checkpoints import available_memory
from .draft_loading import check_draft_file, draft_kind, load_draft_file
from .drafters import DrafterFactory, MtpFactory, SuffixFactory
from .modelfile import ModelFile, read_model_file
from .sanity import check_model_file
from .shape import ModelShape

if TYPE_CHECKING:
    from ._native import NativeContext, NativeModel

__all__ = ["DRAFTERS", "Loaded", "load_model"]

DRAFTERS = ("suffix", "mtp", "block", "draft_model")
"""Names of the drafters, in the order in which they are asked."""

_RING_BYTES = 2 << 30
_SCORE_BYTES = 1 << 30  # scores of one attention layer, float32 [heads, n_ubatch, n_ctx]
_SMALL = 64 << 20  # below this, threads wait for each other longer than they compute
_log = logging.getLogger("agentloop.engine")


@dataclass(slots=True)
class Loaded:
    """What an engine is made of."""

    file: ModelFile
    shape: ModelShape
    model: NativeModel
    context: NativeContext
    drafters: list[DrafterFactory]
    threads: int
    flash_attention: bool  # left to llama.cpp; False: attention by matrix products, the values transposed in the cache


def load_model(
    path: str | os.PathLike[str] | None,
    *,
    n_ctx: int,
    sequences: int,
    n_batch: int,
    draft_max: int,
    drafters: str | Iterable[str],
    threads: int | None,
    n_gpu_layers: int,
    draft_path: str | os.PathLike[str] | None = None,
    flash_attention: bool | None = None,
) -> Loaded:
    """See `Engine.load` for the meaning of the settings and what is raised."""
    for name, value, least, most in (
        ("n_ctx", n_ctx, 0, 1 << 27),
        ("sequences", sequences, 1, 64),
        ("n_batch", n_batch, 1, 1 << 16),
        ("draft_max", draft_max, 0, 128),
        ("threads", 1 if threads is None else threads, 1, 512),
    ):
        if not least <= value <= most:
            raise ValueError(f"{name} must be from {least} to {most}, not {value}")
    wanted = _wanted(drafters)
    draft = _draft_file(draft_path, wanted) if draft_max > 0 else None
    if path is None:
        from ..models import default_model_path

        path = default_model_path()
    file = read_model_file(Path(path))
    check_model_file(file)
    shape = ModelShape.of(file)
    if draft is not None:
        check_model_file(draft)
        check_draft_file(draft, file, shape)
    from . import _native

    with_mtp = shape.mtp_layers == 1 and "mtp" in wanted
    model = _native.NativeModel.load(str(file.path), n_gpu_layers=n_gpu_layers, load_mtp=with_mtp)
    if model is None:
        raise _refused(file, _native.recent_errors())
    if not model.has_decoder or model.has_encoder:
        model.close()
        message = "not a decoder-only text model; agentloop cannot generate with it"
        raise ModelLoadError(file.path, "no_decoder", message)
    if n_ctx == 0:
        draft_bytes = ModelShape.of(draft).kv_bytes_per_token if draft is not None else 0
        n_ctx = _fitting_context(shape.kv_bytes_per_token + draft_bytes, model.n_ctx_train)
    n_ctx = -(-n_ctx // 256) * 256  # llama.cpp rounds it so, but cuts batches to what was asked
    if not _native.can_offload() and n_ctx * shape.kv_bytes_per_token > available_memory():
        model.close()
        size = n_ctx * shape.kv_bytes_per_token
        message = f"a context of {n_ctx} tokens takes {size:,} bytes, more than is free; try a smaller n_ctx"
        raise ModelLoadError(file.path, "refused", message)
    threads = threads or (1 if file.size < _SMALL else _physical_cores())
    # Rolling back a recurrent state takes a snapshot plane a token; attention alone is cut for nothing.
    recurrent = model.is_hybrid or model.is_recurrent
    ring = _fitting_ring(shape, draft_max if recurrent else 0, sequences)
    # Trailing ring + 1 tokens of a batch must fit one micro-batch (llama-batch.cpp), with a row to spare.
    n_ubatch = min(n_ctx, max(n_batch, max(ring, draft_max) + 2))
    # The CPU backend's flash attention walks the cache once a row, 3 to 9 times slower than the matrix products that
    # it replaces when a step decodes few rows; what it saves is the matrix of scores, which is bounded here.
    flash = _native.can_offload() and n_gpu_layers != 0 if flash_attention is None else bool(flash_attention)
    if not flash:
        n_ubatch = max(bounded_batch(n_ubatch, shape.heads, n_ctx), min(n_ctx, max(ring, draft_max) + 2))
    common: dict[str, int | bool] = {
        "flash_attn_type": -1 if flash else 0,
        "n_ctx": n_ctx,
        "n_batch": n_ubatch,
        "n_ubatch": n_ubatch,
        "n_seq_max": sequences,
        "n_threads": threads,
        "n_threads_batch": threads,
        "n_outputs_max_per_seq": 0,
        "kv_unified": True,
    }
    outputs = max(sequences, draft_max + 1)
    context = _native.NativeContext.create(model, n_rs_seq=ring, n_outputs_max=outputs, **common)
    if context is None:
        errors = _native.recent_errors()
        model.close()
        detail = f" ({errors[-1]})" if errors else ""
        message = f"no context of {n_ctx} tokens could be made{detail}; try a smaller n_ctx"
        raise ModelLoadError(file.path, "refused", message)
    factories: list[DrafterFactory] = []
    depth = min(draft_max, context.n_ring) if recurrent else draft_max
    if depth > 0:
        if "suffix" in wanted:
            factories.append(SuffixFactory(depth))
        if with_mtp:
            try:
                factories.append(MtpFactory(model, context, min(depth, 4), {**common, "n_outputs_max": sequences}))
            except RuntimeError as error:
                _log.warning("no MTP drafter: %s", error)
        if draft is not None:
            try:
                drafter = load_draft_file(draft, model, context, shape, depth, common, n_gpu_layers)
            except BaseException:
                for factory in factories:
                    factory.close()
                context.close()
                model.close()
                raise
            if drafter is not None:
                factories.append(drafter)
    return Loaded(file, shape, model, context, factories, threads, flash)


def bounded_batch(n_ubatch: int, heads: int, n_ctx: int) -> int:
    """The most tokens of a micro-batch, up to `n_ubatch`, whose scores fit 1 GiB; never fewer than 64 where more were
    wanted."""
    return min(n_ubatch, max(64, _SCORE_BYTES // (4 * max(1, heads) * max(1, n_ctx))))


def _wanted(drafters: str | Iterable[str]) -> tuple[str, ...]:
    names = [drafters] if isinstance(drafters, str) else list(drafters)
    if names == ["auto"]:
        return DRAFTERS
    if names == ["none"]:
        return ()
    for name in names:
        if name not in DRAFTERS:
            raise ValueError(f"drafters must be 'auto', 'none' or names of {', '.join(DRAFTERS)}, not {name!r}")
    return tuple(names)


def _draft_file(path: str | os.PathLike[str] | None, wanted: tuple[str, ...]) -> ModelFile | None:
    """The head of the draft file if its drafter is wanted."""
    named = [name for name in wanted if name in ("block", "draft_model")]
    if path is None:
        if named and wanted != DRAFTERS:  # "auto" does without
            raise ValueError(f"drafter {named[0]!r} needs a file: give draft_path")
        return None
    if not named:
        return None
    file = read_model_file(Path(path))
    kind = draft_kind(file)
    if kind not in named:
        raise ValueError(f"{file.path} is a file for drafter {kind!r}, not for {named[0]!r}")
    return file


def _refused(file: ModelFile, errors: list[str]) -> ModelLoadError:
    known = file.architecture or "no architecture"
    causes = [e for e in errors if "error loading model" in e] or errors
    detail = f": {causes[0].partition('error loading model: ')[2] or causes[0]}" if causes else ""
    return ModelLoadError(
        file.path, "refused", f"llama.cpp could not load this file ({known}){detail}; is it a complete text model?"
    )


def _fitting_ring(shape: ModelShape, draft_max: int, sequences: int) -> int:
    """Planes for a draft of that length, as far as all sequences' planes stay under 2 GiB."""
    if shape.recurrent_bytes == 0:
        return draft_max
    return max(0, min(draft_max, _RING_BYTES // (sequences * shape.recurrent_bytes)))


def _fitting_context(bytes_per_token: int, n_ctx_train: int) -> int:
    """The model's own length, or what half of the free memory holds, in multiples of 256."""
    most = max(n_ctx_train, 512)
    if bytes_per_token:
        most = min(most, available_memory() // 2 // bytes_per_token)
    return max(512, most // 256 * 256)


def _physical_cores() -> int:
    """Cores that this process may use, counting two hyper-threads as one where the system tells."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        text = Path("/sys/devices/system/cpu/smt/active").read_text()
    except OSError:
        text = "0"
    return max(1, usable // 2 if text.strip() == "1" and usable > 1 else usable)
