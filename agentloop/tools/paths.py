"""Files below one folder that no path, symlink or `..` leaves.

Paths are walked one component at a time through open directory descriptors, never following a symlink: the kernel
refuses with `O_NOFOLLOW`, and a symlink met on the way is read and walked the same way. So the answer cannot change
between the check and the use, and `..` goes up to directories that are still open, never past the first.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from agentloop.exceptions import ToolDefinitionError, ToolFailed, ToolPathError

__all__ = ["HIDDEN", "Place", "Root"]

HIDDEN = frozenset(
    {".git", ".hg", ".svn", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", "node_modules"}
)
"""Folders that listings, searches and suggestions leave out."""

_MAX_LINKS = 40
_MAX_SEEN = 5000  # files looked at for a suggestion
_MAX_BYTES = 8 * 1024 * 1024  # of a file that is read as text


class Place(NamedTuple):
    """`name` in the open directory `folder`: no symlink at the time it was looked up. `.` is the folder itself."""

    folder: int
    name: str


class Root:
    """The folder `path`, which must exist. Every method takes paths relative to it, or absolute ones inside it.

    Raises `ToolPathError` for a path that leaves the folder and `ToolFailed`, in words for the model, where the
    operating system refuses.
    """

    def __init__(self, path: str | Path) -> None:
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise ToolDefinitionError("workspace", "this system cannot open files safely below a folder (no openat)")
        self.given = os.path.abspath(path)
        self.path = Path(os.path.realpath(path))
        if not self.path.is_dir():
            raise ToolDefinitionError("workspace", f"{path} is no folder; create it first")

    @contextlib.contextmanager
    def place(self, path: str, *, create: bool = False) -> Iterator[Place]:
        """The directory that holds the last component, open, and that component's name, which need not exist.

        `create` makes the folders on the way. Raises `FileNotFoundError` or `NotADirectoryError` for a missing one.
        """
        todo = list(reversed(self._inside(path).split("/")))
        stack = [os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
        links = 0
        try:
            while todo:
                part = todo.pop()
                if part in ("", "."):
                    continue
                if part == "..":
                    if len(stack) == 1:
                        raise _outside(path)
                    os.close(stack.pop())
                    continue
                here = stack[-1]
                last = all(rest in ("", ".") for rest in todo)
                mode = _mode(part, here)
                if mode is not None and stat.S_ISLNK(mode):
                    links += 1
                    if links > _MAX_LINKS:
                        raise ToolPathError(f"path {path!r} goes through too many symbolic links")
                    target = os.readlink(part, dir_fd=here)
                    if os.path.isabs(target):
                        target = self._inside(target, shown=path)
                        while len(stack) > 1:
                            os.close(stack.pop())
                    todo += reversed(target.split("/"))
                    continue
                if last:
                    yield Place(here, part)
                    return
                if mode is None and create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=here)
                stack.append(os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here))
            yield Place(stack[-1], ".")
        finally:
            for handle in stack:
                os.close(handle)

    def read(self, path: str) -> str:
        """The text of a file. Raises `ToolFailed` for a missing, large or binary one."""
        with self._errors(path), self.place(path) as (folder, name):
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            try:
                info = os.fstat(handle)
                _require_file(path, info.st_mode)
                if info.st_size > _MAX_BYTES:
                    raise ToolFailed(f"{path} has {info.st_size} bytes, more than the {_MAX_BYTES} that can be read")
                with open(handle, "rb", closefd=False) as file:
                    data = file.read(_MAX_BYTES + 1)
            finally:
                os.close(handle)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as exc:
            raise ToolFailed(f"{path} is no text file: byte {exc.start} is not UTF-8") from None
        if "\0" in text:
            raise ToolFailed(f"{path} is no text file: it holds a zero byte")
        return text

    def write(self, path: str, text: str) -> int:
        """Put `text` in place of what the file held, all of it or nothing; returns the bytes written.

        Folders on the way are made, the mode of a file that was there is kept.
        """
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError as exc:
            raise ToolFailed(f"the content holds a lone surrogate at character {exc.start}") from None
        with self._errors(path), self.place(path, create=True) as (folder, name):
            mode = _mode(name, folder)
            if mode is not None:
                _require_file(path, mode)
            draft = f".agentloop-{secrets.token_hex(8)}.tmp"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(draft, flags, 0o666, dir_fd=folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    if mode is not None:
                        os.fchmod(handle, stat.S_IMODE(mode))
                    file.write(data)
                    file.flush()
                    os.fsync(handle)
                os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(draft, dir_fd=folder)
                raise
        return len(data)

    def names(self, path: str) -> list[str]:
        """The names in a folder, sorted; folders end in `/`."""
        with self.folder(path) as handle, os.scandir(handle) as entries:
            return sorted(
                entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "")
                for entry in entries
                if entry.name not in HIDDEN
            )

    @contextlib.contextmanager
    def folder(self, path: str) -> Iterator[int]:
        """An open descriptor of the folder at `path`."""
        with self._errors(path, "directory"), self.place(path) as (parent, name):
            handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            yield handle
        finally:
            os.close(handle)

    def nearest(self, path: str, kind: str = "file") -> str | None:
        """The existing file (or directory) whose name is nearest to `path`, relative to the root."""
        wanted = os.path.normpath(path.strip().strip("/")) or "."
        best, score = None, 0.5
        for name in self._below(kind):
            this = max(_alike(wanted, name), 0.95 * _alike(os.path.basename(wanted), os.path.basename(name)))
            if this > score:
                best, score = name, this
        return best

    def _below(self, kind: str) -> Iterator[str]:
        seen = 0
        for folder, folders, files in os.walk(self.path):
            folders[:] = sorted(name for name in folders if name not in HIDDEN)
            for name in folders if kind == "directory" else sorted(files):
                seen += 1
                if seen > _MAX_SEEN:
                    return
                yield os.path.relpath(os.path.join(folder, name), self.path)

    def _inside(self, path: str, *, shown: str | None = None) -> str:
        """The path relative to the root, by its text alone; what is left of `..` is for the walk."""
        if "\0" in path:
            raise ToolPathError("a path holds no zero byte")
        if not os.path.isabs(path):
            return path
        for root in (str(self.path), self.given):
            if path == root or path.startswith(root.rstrip("/") + "/"):
                return path[len(root) :].lstrip("/")
        raise _outside(path if shown is None else shown)

    @contextlib.contextmanager
    def _errors(self, path: str, kind: str = "file") -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            near = self.nearest(path, kind)
            hint = f" Did you mean {near}?" if near else ""
            if path != path.strip():  # which nobody sees in the message, and it may be all that is wrong
                raise ToolFailed(f"{kind} not found: {path!r} begins or ends with a space.{hint}") from None
            raise ToolFailed(f"{kind} not found: {path}.{hint}") from None
        except (NotADirectoryError, IsADirectoryError):
            said = "not a directory" if kind == "directory" else "a part of its path is not a directory"
            raise ToolFailed(f"{path} cannot be opened: {said}.") from None
        except OSError as exc:
            if exc.errno == errno.ELOOP:
                raise ToolPathError(f"path {path!r} became a symbolic link while it was opened") from None
            raise ToolFailed(f"{path}: {(exc.strerror or str(exc)).lower()}.") from None


def _mode(name: str, folder: int) -> int | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None


def _require_file(path: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise ToolFailed(f"{path} is a directory, not a file.")
    if not stat.S_ISREG(mode):
        raise ToolFailed(f"{path} is no regular file.")


def _outside(path: str) -> ToolPathError:
    return ToolPathError(f"path {path!r} leaves the workspace; use a path relative to the workspace folder")


def _alike(left: str, right: str) -> float:
    return difflib.SequenceMatcher(None, left.lower(), right.lower()).ratio()
