"""Where snapshots are kept: in memory, or on a disk. Both hold a number of bytes and drop the least recently used.

A disk store's file is written under another name, flushed to the disk and renamed: whoever is killed while saving
leaves the old snapshot or the new one, never half of one. Names are the caller's; the file name is the name's hash, so
that no name can leave the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from ..exceptions import SnapshotError
from .snapshots import Snapshot

__all__ = ["DiskStore", "RamStore", "SnapshotStore", "write_atomically"]

_SUFFIX = ".alsnap"


class SnapshotStore(Protocol):
    """Snapshots by name."""

    def put(self, name: str, snapshot: Snapshot) -> None: ...
    def get(self, name: str) -> Snapshot: ...
    def delete(self, name: str) -> None: ...


class RamStore:
    """Up to `limit` bytes of snapshots in memory. Safe from any thread."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held: OrderedDict[str, Snapshot] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def n_bytes(self) -> int:
        return sum(s.n_bytes for s in self._held.values())

    def put(self, name: str, snapshot: Snapshot) -> None:
        """Keep it under `name`, in place of an older one. SnapshotError `too_large` when it alone is over the limit;
        an older one of that name then stays."""
        if snapshot.n_bytes > self.limit:
            raise _too_large(snapshot.n_bytes, self.limit)
        with self._lock:
            self._held.pop(name, None)
            self._held[name] = snapshot
            while self.n_bytes > self.limit:
                self._held.popitem(last=False)

    def get(self, name: str) -> Snapshot:
        """SnapshotError `missing` when it was never put, or was dropped."""
        with self._lock:
            if name not in self._held:
                raise _missing(name)
            self._held.move_to_end(name)
            return self._held[name]

    def delete(self, name: str) -> None:
        """Forget it; a name that is not there is fine."""
        with self._lock:
            self._held.pop(name, None)

    def __contains__(self, name: str) -> bool:
        return name in self._held

    def __len__(self) -> int:
        return len(self._held)


class DiskStore:
    """Up to `limit` bytes of snapshot files in `folder`, which is made if need be. Several processes may use one
    folder: each file is replaced as a whole. `compress` trades time for size (zlib)."""

    def __init__(self, folder: str | os.PathLike[str], limit: int, *, compress: bool = False) -> None:
        self.folder = Path(folder)
        self.limit = limit
        self.compress = compress
        self.folder.mkdir(parents=True, exist_ok=True)

    @property
    def n_bytes(self) -> int:
        return sum(size for _, size, _ in self._files())

    def put(self, name: str, snapshot: Snapshot) -> None:
        """Write it and drop the least recently used ones over the limit. On return it is on the disk. SnapshotError
        `too_large` when its file alone is over the limit; an older one of that name then stays. OSError as it comes."""
        path = self._path(name)
        with write_atomically(path) as file:
            snapshot.write(file, compress=self.compress)
            if file.tell() > self.limit:
                raise _too_large(file.tell(), self.limit)
        files = sorted(self._files())
        total = sum(size for _, size, _ in files)
        for _, size, other in files:
            if total <= self.limit:
                break
            if other != path:
                with contextlib.suppress(FileNotFoundError):
                    other.unlink()
                total -= size

    def get(self, name: str) -> Snapshot:
        """Read it back; raises SnapshotError as Snapshot.read does, and `missing`. It counts as used now."""
        path = self._path(name)
        try:
            with path.open("rb") as file:
                snapshot = Snapshot.read(file)
        except FileNotFoundError:
            raise _missing(name) from None
        with contextlib.suppress(OSError):
            os.utime(path)
        return snapshot

    def delete(self, name: str) -> None:
        """Forget it; a name that is not there is fine."""
        with contextlib.suppress(FileNotFoundError):
            self._path(name).unlink()

    def __contains__(self, name: str) -> bool:
        return self._path(name).exists()

    def __len__(self) -> int:
        return len(self._files())

    def _path(self, name: str) -> Path:
        return self.folder / (hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32] + _SUFFIX)

    def _files(self) -> list[tuple[int, int, Path]]:
        found: list[tuple[int, int, Path]] = []
        for path in self.folder.glob("*" + _SUFFIX):
            with contextlib.suppress(FileNotFoundError):
                stat = path.stat()
                found.append((stat.st_mtime_ns, stat.st_size, path))
        return found


@contextlib.contextmanager
def write_atomically(path: Path) -> Iterator[tempfile._TemporaryFileWrapper[bytes]]:
    """A binary file that becomes `path` when the block ends without an error, flushed to the disk first."""
    file = tempfile.NamedTemporaryFile(dir=path.parent, prefix=".tmp-", delete=False)  # noqa: SIM115
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(file.name)
        raise
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)  # the rename itself
        finally:
            os.close(folder)


def _missing(name: str) -> SnapshotError:
    return SnapshotError("missing", f"there is no snapshot {name!r}; decode the conversation's tokens again")


def _too_large(size: int, limit: int) -> SnapshotError:
    return SnapshotError("too_large", f"the snapshot has {size} bytes and the store holds {limit}; raise its limit")
