"""Turn a trained GGUF into the model that the package ships.

    python scripts/embed_model.py SOURCE.gguf [--type F16|Q8_0] [--output agentloop/models/tiny-hybrid.gguf]

Copies every key and tensor, writes the chat template of the package and the `general.*` keys, and stores the matrices
in the asked type. The same input gives the same bytes. With a shipped model as SOURCE it renews the template alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import quants

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = ROOT / "agentloop" / "templates" / "qwen3_8.jinja"
OUTPUT = ROOT / "agentloop" / "models" / "tiny-hybrid.gguf"

GENERAL: dict[str, str] = {
    "general.type": "model",
    "general.name": "agentloop tiny hybrid",
    "general.basename": "tiny-hybrid",
    "general.organization": "agentloop",
    "general.version": "4",
    "general.size_label": "5.9M",
    "general.license": "apache-2.0",
    "general.description": (
        "A 5.9-million-parameter hybrid (Gated DeltaNet and attention, one MTP layer), trained from nothing on "
        "synthetic agent episodes. It drives seven small tools and knows little else."
    ),
}
"""Written into every output; the source's own values are replaced."""

FILE_TYPES = {"F16": gguf.LlamaFileType.MOSTLY_F16, "Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}
SKIPPED_KEYS = frozenset({"general.architecture", "general.file_type", "general.quantization_version"})


def stored(name: str, data: Any, source: gguf.GGMLQuantizationType, target: gguf.GGMLQuantizationType) -> bool:
    """Whether the tensor is stored in `target`: matrices whose rows fill whole blocks.

    llama.cpp wants convolution kernels, norms and the DeltaNet gates in F32; the source keeps them so.
    """
    row = int(data.shape[-1]) if source in (gguf.GGMLQuantizationType.F16, gguf.GGMLQuantizationType.F32) else 0
    block = gguf.GGML_QUANT_SIZES[target][0]
    return source == gguf.GGMLQuantizationType.F16 and data.ndim == 2 and row % block == 0


def embed(source: Path, output: Path, template: str, type_name: str) -> dict[str, Any]:
    """Write `output`; returns what the card records: bytes, SHA-256 of the file and of the template."""
    reader = gguf.GGUFReader(source)
    architecture = str(reader.fields["general.architecture"].contents())
    target = gguf.GGMLQuantizationType[type_name]
    writer = gguf.GGUFWriter(output, architecture)
    for key, value in GENERAL.items():
        writer.add_string(key, value)
    writer.add_file_type(FILE_TYPES[type_name])
    if target is not gguf.GGMLQuantizationType.F16:
        writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in SKIPPED_KEYS or key in GENERAL or key == "tokenizer.chat_template":
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(key, field.contents(), kind, sub_type=sub)
    writer.add_chat_template(template)
    for tensor in reader.tensors:
        if stored(tensor.name, tensor.data, tensor.tensor_type, target) and target != tensor.tensor_type:
            packed = quants.quantize(np.asarray(tensor.data, dtype=np.float32), target)
            writer.add_tensor(tensor.name, packed, raw_dtype=target)
        else:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    content = output.read_bytes()
    return {
        "file": output.name,
        "type": type_name,
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "template_sha256": hashlib.sha256(template.encode()).hexdigest(),
        "source_sha256": hashlib.sha256(source.read_bytes()).hexdigest(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("source", type=Path)
    parser.add_argument("--type", choices=sorted(FILE_TYPES), default="F16")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--template", type=Path, default=TEMPLATE)
    options = parser.parse_args()
    if options.source.resolve() == options.output.resolve():
        parser.error("source and output are the same file")
    facts = embed(options.source, options.output, options.template.read_text(encoding="utf-8"), options.type)
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
