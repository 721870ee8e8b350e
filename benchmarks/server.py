"""A llama-server of our own: found, started on the loopback interface, ended by its process id.

It is found through AGENTLOOP_LLAMA_SERVER or on PATH (benchmarks/build_server.sh builds it from the source that
llama-cpp-python ships). Where that is the same llama.cpp, it runs on the very libraries that agentloop runs on, so that
both have the same kernels. One thread, and no repacked weights, as agentloop loads the same files.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

from .wire import get_json

__all__ = ["Server", "find_server"]

_LIFE_S = 1800


def find_server() -> str | None:
    """The binary, or None: the peer is then left out."""
    given = os.environ.get("AGENTLOOP_LLAMA_SERVER")
    if given:
        if not os.access(given, os.X_OK):
            raise SystemExit(f"AGENTLOOP_LLAMA_SERVER names {given}, which cannot be run")
        return given
    return shutil.which("llama-server")


def library_folder() -> str | None:
    """Where llama-cpp-python keeps its libllama."""
    spec = importlib.util.find_spec("llama_cpp")
    folder = None if spec is None or spec.origin is None else Path(spec.origin).parent / "lib"
    return str(folder) if folder is not None and folder.is_dir() else None


class Server:
    """A running llama-server for `model`; `args` are added to its command line. Use it as a context manager."""

    def __init__(self, binary: str, model: str, *args: str, n_ctx: int = 8192) -> None:
        self.command = [binary, "-m", model, "-c", str(n_ctx), "-t", "1", "-tb", "1", "--jinja", "--no-repack"]
        self.command += ["--host", "127.0.0.1", "--no-ui", *args]
        self.address = ""
        self.own_libraries = False
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115

    def start(self) -> None:
        """Start it, on agentloop's own libraries where they fit, and wait until it answers."""
        folder = library_folder()
        for libraries in (folder, None) if folder else (None,):
            if self._try(libraries):
                self.own_libraries = libraries is None
                return
        self._log.seek(0)
        raise RuntimeError(f"{' '.join(self.command)} did not come up:\n{self._log.read()[-2000:].decode()}")

    def _try(self, libraries: str | None) -> bool:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        environment = dict(os.environ)
        if libraries:
            environment["LD_LIBRARY_PATH"] = libraries
        command = [*self.command, "--port", str(port)]
        if shutil.which("timeout"):  # it ends by itself even when this process is killed
            command = ["timeout", str(_LIFE_S), *command]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, env=environment)
        self.address = f"http://127.0.0.1:{port}"
        ends = time.monotonic() + 60
        while time.monotonic() < ends and self._process.poll() is None:
            try:
                if get_json(f"{self.address}/health", timeout=5).get("status") == "ok":
                    return True
            except OSError:
                time.sleep(0.05)
        self.stop()
        return False

    @property
    def pid(self) -> int:
        """The process that was started: `timeout`, or the server itself."""
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """End it. Stopping twice is allowed."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(20)

    def restart(self) -> None:
        """End it and start it again with nothing in memory."""
        self.stop()
        self.start()

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        self._log.close()
