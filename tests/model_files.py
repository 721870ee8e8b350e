"""Model files that tests make: variants of the embedded model, whole and broken."""

from __future__ import annotations

from pathlib import Path

import gguf

from agentloop.models import default_model_path

TEMPLATE_KEY = "tokenizer.chat_template"


def copy_of_model(
    path: Path, *, drop: tuple[str, ...] = (), texts: dict[str, str] | None = None, tensors: bool = True
) -> Path:
    """The embedded model at `path`, without the keys in `drop`, with the string keys `texts`, or without weights."""
    reader = gguf.GGUFReader(default_model_path())
    texts = texts or {}
    writer = gguf.GGUFWriter(path, texts.get("general.architecture", "qwen35"))
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture" or key in drop or key in texts:
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(key, field.contents(), kind, sub_type=sub)
    for key, value in texts.items():
        if key != "general.architecture":
            writer.add_string(key, value)
    if tensors:
        for tensor in reader.tensors:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def data_start() -> int:
    """The byte at which the embedded model's tensor data begins."""
    return int(gguf.GGUFReader(default_model_path()).data_offset)


def cut_model(path: Path, size: int) -> Path:
    """The first `size` bytes of the embedded model."""
    with default_model_path().open("rb") as file:
        path.write_bytes(file.read(size))
    return path
