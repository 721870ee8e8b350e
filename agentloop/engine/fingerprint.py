"""What a saved state depends on, and whether two of these agree."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from ..exceptions import SnapshotError
from .modelfile import ModelFile

__all__ = ["check_fingerprint", "fingerprint_of"]


def fingerprint_of(file: ModelFile, library: str, template: str | None, flash_attention: bool) -> dict[str, str]:
    """Named parts of a fingerprint: the model file's hash, the library's version, the hash of the chat template, and
    the context settings that the layout of the state depends on."""
    return {
        "model": file.fingerprint(),
        "library": library,
        "template": hashlib.sha256((template or "").encode("utf-8", "replace")).hexdigest(),
        "context": f"kv_unified=1;type_k=f16;type_v=f16;flash_attention={int(flash_attention)}",
    }


def check_fingerprint(found: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """Raise SnapshotError when saved state belongs elsewhere; it names every part that differs."""
    different = [name for name in expected if found.get(name) != expected[name]]
    if not different:
        return
    if different == ["library"]:
        raise SnapshotError(
            "version",
            f"the snapshot was made with llama-cpp-python {found.get('library', 'of an unknown version')}, this is "
            f"{expected['library']}; decode its tokens again",
        )
    raise SnapshotError(
        "foreign", f"the snapshot belongs to another {' and '.join(different)}; decode its tokens again on this engine"
    )
