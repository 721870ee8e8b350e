"""Search files for a regular expression, as a program of its own so that a runaway expression can be stopped.

Runs as a script on the standard library alone: `_search.py FD PREFIX GLOB LIMIT PATTERN` searches below the open
directory FD, never through a symlink, and writes `path:line: text`.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
import sys

__all__ = ["main"]

_MAX_BYTES = 8 * 1024 * 1024
_MAX_LINE = 200


def main(argv: list[str]) -> int:
    root, prefix, glob, limit = int(argv[0]), argv[1], argv[2], int(argv[3])
    pattern = re.compile(argv[4])
    hidden = set(argv[5:])
    os.fchdir(root)
    found = 0
    for folder, folders, files, handle in os.fwalk(".", follow_symlinks=False):
        folders[:] = sorted(name for name in folders if name not in hidden)
        for name in sorted(files):
            path = os.path.normpath(os.path.join(folder, name))
            if not (fnmatch.fnmatch(name, glob) or fnmatch.fnmatch(path, glob)):
                continue
            text = _text(name, handle)
            if text is None:
                continue
            for number, line in enumerate(text.splitlines(), 1):
                if pattern.search(line) is None:
                    continue
                if found == limit:
                    sys.stdout.write(f"[stopped after {limit} matches; use a narrower pattern, directory or glob]\n")
                    return 0
                found += 1
                sys.stdout.write(
                    f"{os.path.normpath(os.path.join(prefix, path))}:{number}: {line.strip()[:_MAX_LINE]}\n"
                )
    if not found:
        sys.stdout.write("No matches.\n")
    return 0


def _text(name: str, folder: int) -> str | None:
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or info.st_size > _MAX_BYTES:
            return None
        data = file.read()
    return None if b"\0" in data else data.decode("utf-8", "replace")


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    sys.exit(main(sys.argv[1:]))
