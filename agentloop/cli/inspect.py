"""`agentloop inspect MODEL`: what a GGUF file says of itself. Reads the head of the file, loads no weights."""

from __future__ import annotations

import json as _json
import math
from pathlib import Path
from typing import Any

from ..engine.modelfile import ModelFile, read_model_file
from ..engine.shape import ModelShape
from ..exceptions import TemplateError
from ..models import default_model_path
from .inspect_state import inspect_state, is_state
from .inspect_talk import inspect_talk, is_talk

__all__ = ["describe", "inspect_model"]


def describe(file: ModelFile) -> dict[str, Any]:
    """The JSON form: counts of layers by kind, sizes in bytes, and what became of the chat template.

    `kv_bytes_per_token` is for a 16-bit cache, all attention layers together; `recurrent_plane_bytes` is one state of
    one sequence, all recurrent layers together. `template.recognised` names agentloop's own template for it, or null.
    """
    shape = ModelShape.of(file)
    types: dict[int, int] = {}
    for tensor in file.tensors:
        types[tensor.ggml_type] = types.get(tensor.ggml_type, 0) + math.prod(tensor.shape)
    text = file.metadata.get("tokenizer.chat_template")
    return {
        "model": str(file.path),
        "name": str(file.get("general.name") or file.path.stem),
        "architecture": file.architecture,
        "license": file.get("general.license"),
        "parameters": sum(types.values()),
        "file_bytes": file.size,
        "layers": shape.layers,
        "attention_layers": shape.attention_layers,
        "recurrent_layers": shape.recurrent_layers,
        "mtp_layers": shape.mtp_layers,
        "embedding": shape.n_embd,
        "vocabulary": file.array_lengths.get("tokenizer.ggml.tokens", 0),
        "context": shape.n_ctx_train,
        "kv_bytes_per_token": shape.kv_bytes_per_token,
        "recurrent_plane_bytes": shape.recurrent_bytes,
        "checkpoint_bytes": shape.recurrent_bytes + 4 * file.array_lengths.get("tokenizer.ggml.tokens", 0),
        "template": {"found": isinstance(text, str), "recognised": _recognised(file, text)},
    }


def _recognised(file: ModelFile, text: Any) -> str | None:
    from ..templates import for_model
    from ..templates.gguf import JinjaTemplate

    if not isinstance(text, str):
        return None
    scalars = {key: str(value) for key, value in file.metadata.items() if not isinstance(value, list)}
    try:
        template = for_model(text, scalars)
    except TemplateError:
        return None
    return None if isinstance(template, JinjaTemplate) else template.name


def inspect_model(model: str | None, *, json: bool) -> int:
    """Print what the file says, as lines for people or as one JSON object. Raises ModelLoadError for a bad file.

    A saved state or conversation is told from a model by how it begins; see `inspect_state` and `inspect_talk`."""
    if model is not None and is_state(Path(model)):
        return inspect_state(Path(model), json=json)
    if model is not None and is_talk(Path(model)):
        return inspect_talk(Path(model), json=json)
    facts = describe(read_model_file(Path(model) if model else default_model_path()))
    if json:
        print(_json.dumps(facts))
        return 0
    template = facts["template"]
    if not template["found"]:
        said = "none in the file: it cannot chat"
    elif template["recognised"]:
        said = f"found, recognised as {template['recognised']}"
    else:
        said = "found, not one of agentloop's own: the file's Jinja text is used"
    rows = {
        "model": facts["model"],
        "name": facts["name"],
        "architecture": facts["architecture"] or "unknown",
        "parameters": f"{facts['parameters']:,}",
        "file": f"{facts['file_bytes']:,} bytes",
        "layers": f"{facts['layers']} ({facts['attention_layers']} attention, {facts['recurrent_layers']} recurrent)",
        "MTP layers": facts["mtp_layers"],
        "vocabulary": f"{facts['vocabulary']:,} tokens",
        "context": f"{facts['context']:,} tokens",
        "KV cache": f"{facts['kv_bytes_per_token']:,} bytes per token",
        "recurrent plane": f"{facts['recurrent_plane_bytes']:,} bytes per sequence",
        "checkpoint": f"{facts['checkpoint_bytes']:,} bytes (recurrent state and logits)",
        "chat template": said,
    }
    for key, value in rows.items():
        print(f"{key:16} {value}")
    return 0
