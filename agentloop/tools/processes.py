"""Run a program with a time limit, an end for its whole process group, and bounded output."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

__all__ = ["Finished", "bounded_environment", "run_process"]

_KEPT = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE"),
    *("PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
)
_CHUNK = 65536
_GRACE = 0.5  # seconds between the polite signal and the other one
_DRAIN = 0.2  # seconds to read what is left in the pipe behind the end of the program


@dataclass(frozen=True, slots=True)
class Finished:
    """`output`: stdout and stderr in the order they came, cut in the middle if long. `code`: the exit status, negative
    for a signal. `timed_out`: it was stopped at the time limit."""

    output: str
    code: int
    timed_out: bool


def bounded_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """A small environment for programs that a model runs: paths and language, no secrets of the parent."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    kept.update({name: value for name, value in os.environ.items() if name.startswith("LC_")})
    kept.setdefault("PATH", os.defpath)
    return {**kept, "TERM": "dumb", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1", **(extra or {})}


async def run_process(
    command: Sequence[str],
    *,
    cwd: str | Path,
    timeout: float,
    env: Mapping[str, str] | None = None,
    keep: int = 200_000,
    pass_fds: Sequence[int] = (),
) -> Finished:
    """Run `command` for at most `timeout` seconds; `keep` bytes of output are kept, head and tail.

    The program is the leader of a new process group. When it ends, is timed out or the caller is cancelled, every
    process of the group ends: on return nothing of it runs. Raises `OSError` if it cannot be started.
    """
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=dict(env) if env is not None else bounded_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=tuple(pass_fds),
    )
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    os.set_blocking(pipe, False)
    output = _Output(keep)
    try:
        with anyio.move_on_after(timeout):
            pause = 0.001
            while process.poll() is None:
                pause = 0.001 if output.read(pipe) else min(pause * 1.5, 0.02)
                await anyio.sleep(pause)
        timed_out = process.returncode is None
        if timed_out:
            await _end(process)
        # Whoever of the group still lives holds the pipe open and would be left behind.
        _signal(process, signal.SIGKILL)
        with anyio.move_on_after(_DRAIN):
            while output.read(pipe) or not output.ended:
                await anyio.sleep(0.001)
        return Finished(output.text(), process.returncode, timed_out)
    finally:
        if process.returncode is None:
            with anyio.CancelScope(shield=True):
                await _end(process)
        _signal(process, signal.SIGKILL)
        process.stdout.close()


async def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM to the group, SIGKILL soon after, and the leader's exit status collected."""
    _signal(process, signal.SIGTERM)
    with anyio.move_on_after(_GRACE):
        while process.poll() is None:
            await anyio.sleep(0.005)
    _signal(process, signal.SIGKILL)
    while process.poll() is None:
        await anyio.sleep(0.005)


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


class _Output:
    """Head and tail of a stream, at most `keep` bytes in all."""

    def __init__(self, keep: int) -> None:
        self.half = max(keep // 2, 1)
        self.head = bytearray()
        self.tail = bytearray()
        self.left_out = 0
        self.ended = False

    def read(self, pipe: int) -> bool:
        """Take what is in the pipe now; True if there was something."""
        try:
            data = os.read(pipe, _CHUNK)
        except BlockingIOError:
            return False
        self.ended = not data
        room = self.half - len(self.head)
        self.head += data[:room] if room > 0 else b""
        self.tail += data[max(room, 0) :]
        if len(self.tail) > self.half:
            self.left_out += len(self.tail) - self.half
            del self.tail[: len(self.tail) - self.half]
        return bool(data)

    def text(self) -> str:
        gap = f"\n[... {self.left_out} bytes left out ...]\n".encode() if self.left_out else b""
        return bytes(self.head + gap + self.tail).decode("utf-8", "replace").replace("\r\n", "\n")
