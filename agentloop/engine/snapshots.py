"""Snapshot: everything needed to go on with a sequence elsewhere, as data.

File form, version 1, little-endian: 8 bytes magic, u32 length of the header, the header (JSON, UTF-8), the sections one
behind the other, and the SHA-256 of all bytes before it. The header names every section with its size, its stored size
and whether it is compressed (zlib). llama.cpp takes altered state bytes without a word, so nothing is handed to it
before the hash was found right. Reading makes numbers, bytes and text, never objects: saved state cannot run code.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import SnapshotError
from .checkpoints import Checkpoint

__all__ = ["Snapshot"]

_MAGIC = b"ALSNAP\x00\x01"
_FORMAT = 1
_MAX_HEADER = 16 << 20
_CHUNK = 8 << 20


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`state` holds llama.cpp's full state of the first `n_decoded` of `tokens`; `row` the logits behind it, float32
    [n_vocab], or None. `checkpoints` are the pinned ones. `extra` is the caller's, bytes by name. `fingerprint` tells
    which model file, template, library and context settings the state belongs to. `drafters`: their own states by
    name; without them drafts start poorly and nothing else changes."""

    tokens: tuple[int, ...] = field(repr=False)
    n_decoded: int
    state: bytes = field(repr=False)
    row: NDArray[np.float32] | None = field(repr=False)
    fingerprint: Mapping[str, str]
    checkpoints: tuple[Checkpoint, ...] = ()
    extra: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False)
    drafters: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False)

    @property
    def n_bytes(self) -> int:
        """Bytes in memory, roughly."""
        rows = 0 if self.row is None else self.row.nbytes
        held = sum(c.n_bytes for c in self.checkpoints)
        held += sum(map(len, self.extra.values())) + sum(map(len, self.drafters.values()))
        return len(self.state) + rows + held + 8 * len(self.tokens)

    def write(self, file: IO[bytes], *, compress: bool = False) -> None:
        """Write the file form to a binary file. `compress`: zlib level 1 on every section that gets smaller by it."""
        sections: dict[str, bytes] = {
            "tokens": np.asarray(self.tokens, "<i4").tobytes(),
            "state": self.state,
            "row": b"" if self.row is None else self.row.astype("<f4").tobytes(),
        }
        points: list[dict[str, Any]] = []
        for i, c in enumerate(self.checkpoints):
            points.append({"position": c.position, "label": c.label, "pinned": c.pinned})
            sections[f"checkpoint.{i}.state"] = c.state
            sections[f"checkpoint.{i}.row"] = b"" if c.row is None else c.row.astype("<f4").tobytes()
        sections |= {f"extra.{name}": data for name, data in self.extra.items()}
        sections |= {f"drafter.{name}": data for name, data in self.drafters.items()}
        stored: list[bytes] = []
        table: list[dict[str, Any]] = []
        for name, data in sections.items():
            packed = zlib.compress(data, 1) if compress and data else data
            packed = packed if len(packed) < len(data) else data
            stored.append(packed)
            table.append({"name": name, "size": len(data), "stored": len(packed), "zlib": packed is not data})
        header = {
            "format": _FORMAT,
            "fingerprint": dict(self.fingerprint),
            "n_decoded": self.n_decoded,
            "has_row": self.row is not None,
            "checkpoints": points,
            "sections": table,
        }
        text = json.dumps(header, sort_keys=True).encode()
        digest = hashlib.sha256()
        for piece in (_MAGIC, struct.pack("<I", len(text)), text, *stored):
            for i in range(0, len(piece), _CHUNK):
                digest.update(piece[i : i + _CHUNK])
                file.write(piece[i : i + _CHUNK])
        file.write(digest.digest())

    @classmethod
    def read(cls, file: IO[bytes]) -> Snapshot:
        """Read the file form. Raises SnapshotError with reason `foreign` (no snapshot), `version`, `truncated` or
        `altered`; nothing is returned before the hash over the whole file was found right."""
        digest = hashlib.sha256()

        def take(n: int) -> bytes:
            parts: list[bytes] = []
            while n:
                piece = file.read(min(n, _CHUNK))
                if not piece:
                    raise SnapshotError("truncated", "the snapshot ends too early; it was not written to its end")
                digest.update(piece)
                parts.append(piece)
                n -= len(piece)
            return b"".join(parts)

        magic = file.read(len(_MAGIC))
        if magic != _MAGIC:
            if len(magic) < len(_MAGIC) and _MAGIC.startswith(magic):
                raise SnapshotError("truncated", "the snapshot ends too early; it was not written to its end")
            if magic[:6] == _MAGIC[:6]:
                raise SnapshotError("version", "the snapshot has a format that this version does not read")
            raise SnapshotError("foreign", "this is not an agentloop snapshot")
        digest.update(magic)
        (length,) = struct.unpack("<I", take(4))
        if length > _MAX_HEADER:
            raise SnapshotError("altered", "the snapshot's header is damaged")
        text = take(length)
        try:
            header = json.loads(text)
            table = [(str(s["name"]), int(s["size"]), int(s["stored"]), bool(s["zlib"])) for s in header["sections"]]
            if header["format"] != _FORMAT:
                raise SnapshotError("version", f"snapshot format {header['format']} is not {_FORMAT}")
            if any(size < 0 or stored < 0 or stored > size for _, size, stored, _ in table):
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise SnapshotError("altered", "the snapshot's header is damaged") from error
        packed = {name: take(stored) for name, _, stored, _ in table}
        expected = digest.digest()
        if (found := file.read(32)) != expected:
            reason = "truncated" if len(found) < 32 else "altered"
            raise SnapshotError(reason, "the snapshot's content does not match its hash; it was cut or changed")
        try:
            data = {name: _unpack(packed[name], size, zipped) for name, size, _, zipped in table}
            points = tuple(
                Checkpoint(
                    int(point["position"]),
                    data[f"checkpoint.{i}.state"],
                    _row(data[f"checkpoint.{i}.row"]),
                    str(point["label"]),
                    bool(point["pinned"]),
                )
                for i, point in enumerate(header["checkpoints"])
            )
            return cls(
                tuple(np.frombuffer(data["tokens"], "<i4").tolist()),
                int(header["n_decoded"]),
                data["state"],
                _row(data["row"]),
                {str(k): str(v) for k, v in header["fingerprint"].items()},
                points,
                {name[6:]: value for name, value in data.items() if name.startswith("extra.")},
                {name[8:]: value for name, value in data.items() if name.startswith("drafter.")},
            )
        except (ValueError, KeyError, TypeError, AttributeError, zlib.error) as error:
            raise SnapshotError("altered", "the snapshot's sections do not fit its header") from error

    def to_bytes(self, *, compress: bool = False) -> bytes:
        """The file form as bytes."""
        buffer = io.BytesIO()
        self.write(buffer, compress=compress)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Snapshot:
        """Read `to_bytes`; raises as `read` does, and SnapshotError `altered` for bytes behind the end."""
        buffer = io.BytesIO(data)
        snapshot = cls.read(buffer)
        if buffer.read(1):
            raise SnapshotError("altered", "there are bytes behind the end of the snapshot")
        return snapshot


def _unpack(data: bytes, size: int, zipped: bool) -> bytes:
    if zipped:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(data, size + 1)
    if len(data) != size:
        raise ValueError("section size")
    return data


def _row(data: bytes) -> NDArray[np.float32] | None:
    return np.frombuffer(data, "<f4").astype(np.float32) if data else None
