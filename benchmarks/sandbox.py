"""Code of a model, run in a process of its own with limits: time, memory, files, processes, and no network where the
kernel lets an ordinary user cut it off. It is a fence against accidents, not against an attacker: run a model that you
do not trust in a container.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import secrets
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Outcome", "run_code"]

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000


@dataclass(frozen=True, slots=True)
class Outcome:
    """`passed`: the program ran to its last line. `reason`: "passed", "failed", "timeout" or "memory"; `output` is the
    end of what it printed."""

    passed: bool
    reason: str
    output: str = ""


def run_code(source: str, *, seconds: float = 10.0, memory_mib: int = 512) -> Outcome:
    """Run Python source in an empty folder, with nothing of the environment. A program that ends early, with whatever
    exit code, has not passed."""
    done = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="agentloop-code-") as folder:
        program = Path(folder) / "program.py"
        program.write_text(f"{source}\n\nprint({done!r})\n", encoding="utf-8")
        with tempfile.TemporaryFile() as out:
            process = subprocess.Popen(
                [sys.executable, "-I", "-B", str(program)],
                cwd=folder,
                env={"PATH": os.defpath, "HOME": folder},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=lambda: _fence(seconds, memory_mib),
            )
            try:
                process.wait(seconds)
                timed_out = False
            except subprocess.TimeoutExpired:
                timed_out = True
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # its children too; the group is its own session
                process.wait()
            size = out.seek(0, os.SEEK_END)
            out.seek(max(0, size - 4000))
            text = out.read().decode("utf-8", "replace")
    if timed_out or process.returncode == -signal.SIGXCPU:
        return Outcome(False, "timeout", text)
    if process.returncode == 0 and text.rstrip().endswith(done):
        return Outcome(True, "passed", text.rstrip().removesuffix(done))
    return Outcome(False, "memory" if "MemoryError" in text else "failed", text)


def _fence(seconds: float, memory_mib: int) -> None:
    """In the child, before the program: only these."""
    cpu = int(seconds) + 1
    for what, limit in (
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_AS, memory_mib << 20),
        (resource.RLIMIT_FSIZE, 1 << 20),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (limit, limit))
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NPROC, (64, 64))
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
