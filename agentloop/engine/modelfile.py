"""The head of a GGUF file: what it says of itself, and whether the file can hold what its head promises.

llama.cpp is given a file only after this check, which reads no tensor data and bounds every count by the file's size.
Format: GGUF specification, versions 2 and 3, little-endian (ggml/docs/gguf.md). The `gguf` package reads the same,
but builds an array object per vocabulary entry, which takes seconds on a real model.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ..exceptions import ModelLoadError

__all__ = ["ModelFile", "TensorInfo", "read_model_file"]

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MAX_STRING = 64 << 20

# (elements per block, bytes per block) by ggml type number; ggml.h and ggml-common.h
_BLOCKS: Mapping[int, tuple[int, int]] = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """`shape` innermost first, as in the file; `offset` in bytes from the start of the data part."""

    name: str
    shape: tuple[int, ...]
    ggml_type: int
    offset: int

    @property
    def n_bytes(self) -> int | None:
        """Bytes of data; None for a type that this version does not know."""
        block = _BLOCKS.get(self.ggml_type)
        if block is None:
            return None
        count = 1
        for n in self.shape:
            count *= n
        return -(-count // block[0]) * block[1]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """`metadata` holds scalars and short number arrays; long arrays are given by `array_lengths` alone. Tensor data
    begins at byte `data_start`."""

    path: Path
    version: int
    size: int
    metadata: Mapping[str, Any]
    array_lengths: Mapping[str, int]
    tensors: tuple[TensorInfo, ...]
    data_start: int = 0

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture", ""))

    def get(self, key: str, default: Any = None) -> Any:
        """Metadata by key; a key that starts with a dot belongs to the architecture (`.block_count`)."""
        return self.metadata.get(self.architecture + key if key.startswith(".") else key, default)

    def fingerprint(self) -> str:
        """Hex SHA-256 over the file's size, its head and 1 MiB at each of 16 places spread over it: tells model files
        apart without reading gigabytes."""
        digest = hashlib.sha256(str(self.size).encode())
        chunk = 1 << 20
        with self.path.open("rb") as file:
            for i in range(16):
                file.seek(i * max(0, self.size - chunk) // 15)
                digest.update(file.read(chunk))
        return digest.hexdigest()


class _Reader:
    def __init__(self, path: Path, file: IO[bytes], size: int) -> None:
        self.path, self.file, self.size = path, file, size

    def fail(self, reason: str, message: str) -> ModelLoadError:
        return ModelLoadError(self.path, reason, message)

    def take(self, n: int) -> bytes:
        data = self.file.read(n)
        if len(data) < n:
            raise self.fail("truncated", "the file ends inside its head; download or copy it again")
        return data

    def number(self, code: str) -> Any:
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def count(self, what: str, least_bytes: int) -> int:
        n = int(self.number("Q"))
        if n * least_bytes > self.size:
            raise self.fail("truncated", f"the head names {n} {what}, more than the file can hold")
        return n

    def string(self) -> str:
        n = int(self.number("Q"))
        if n > min(self.size, _MAX_STRING):
            raise self.fail("truncated", f"the head names a string of {n} bytes, more than the file can hold")
        return self.take(n).decode("utf-8", "replace")

    def skip_strings(self, n: int) -> None:
        """Pass over `n` strings, reading in large pieces: vocabularies have hundreds of thousands."""
        read, seek, unpack = self.file.read, self.file.seek, struct.Struct("<Q").unpack
        for _ in range(n):
            head = read(8)
            if len(head) < 8:
                raise self.fail("truncated", "the file ends inside its vocabulary; download or copy it again")
            (length,) = unpack(head)
            if length > self.size:
                raise self.fail("truncated", f"the head names a string of {length} bytes, more than the file can hold")
            seek(length, os.SEEK_CUR)

    def array(self) -> tuple[int, Any]:
        kind = int(self.number("I"))
        if kind == _STRING:
            n = self.count("array entries", 8)
            self.skip_strings(n)
            return n, None
        if kind not in _SCALARS:
            raise self.fail("not_gguf", f"metadata of unknown type {kind}")
        width = struct.calcsize("<" + _SCALARS[kind])
        n = self.count("array entries", width)
        data = self.take(n * width)
        return n, list(struct.unpack(f"<{n}{_SCALARS[kind]}", data)) if n <= 4096 else None

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind not in _SCALARS:
            raise self.fail("not_gguf", f"metadata of unknown type {kind}")
        return self.number(_SCALARS[kind])


def read_model_file(path: str | Path) -> ModelFile:
    """Read and check the head of a GGUF file.

    Raises ModelLoadError with reason `missing`, `not_a_file`, `not_gguf`, `unsupported_version`, `truncated` (in the
    head, or tensor data that would lie behind the end of the file) or `vocabulary_only` (no tensors at all).
    """
    path = Path(path)
    try:
        exists = path.exists()
    except (OSError, ValueError) as error:  # a name too long, a zero byte
        raise ModelLoadError(str(path)[:200], "missing", f"no usable file name ({error})") from error
    if not exists:
        raise ModelLoadError(path, "missing", "no such file; give the path of a .gguf file")
    if not path.is_file():
        raise ModelLoadError(path, "not_a_file", "not a regular file; give the path of a .gguf file")
    size = path.stat().st_size
    try:
        with path.open("rb", buffering=1 << 20) as file:
            return _read(_Reader(path, file, size))
    except OSError as error:
        raise ModelLoadError(path, "refused", f"cannot be read: {error.strerror or error}") from error


def _read(r: _Reader) -> ModelFile:
    if r.size < 24 or r.file.read(4) != b"GGUF":
        raise r.fail(
            "not_gguf", "not a GGUF file (it does not start with the GGUF magic); convert the model to GGUF first"
        )
    version = int(r.number("I"))
    if version not in (2, 3):
        swapped = version & 0xFFFF == 0
        hint = "a big-endian file" if swapped else f"GGUF version {version}"
        raise r.fail("unsupported_version", f"{hint} is not supported; versions 2 and 3, little-endian, are")
    n_tensors, n_values = r.count("tensors", 24), r.count("metadata entries", 13)
    metadata: dict[str, Any] = {}
    lengths: dict[str, int] = {}
    for _ in range(n_values):
        key, kind = r.string(), int(r.number("I"))
        if kind == _ARRAY:
            lengths[key], values = r.array()
            if values is not None:
                metadata[key] = values
        else:
            metadata[key] = r.value(kind)
    if n_tensors == 0:
        raise r.fail("vocabulary_only", "the file holds a vocabulary and no weights; use the full model file")
    tensors = tuple(_tensor(r) for _ in range(n_tensors))
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
        raise r.fail("not_gguf", f"general.alignment must be a power of two, not {alignment!r}")
    start = -(-r.file.tell() // alignment) * alignment
    for tensor in tensors:
        if start + tensor.offset + (tensor.n_bytes or 0) > r.size:
            raise r.fail(
                "truncated",
                f"the data of tensor {tensor.name!r} lies behind the end of the file ({r.size} bytes); "
                "download or copy it again",
            )
    return ModelFile(r.path, version, r.size, metadata, lengths, tensors, start)


def _tensor(r: _Reader) -> TensorInfo:
    name = r.string()
    n_dims = int(r.number("I"))
    if not 1 <= n_dims <= 4:
        raise r.fail("not_gguf", f"tensor {name!r} has {n_dims} dimensions")
    shape = tuple(int(r.number("Q")) for _ in range(n_dims))
    return TensorInfo(name, shape, int(r.number("I")), int(r.number("Q")))
