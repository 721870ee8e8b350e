"""Runs a template from a model file in a process of its own, bounded in time, memory and size.

A model file is untrusted. Jinja's sandbox keeps a template from the Python objects around it, but not from
`10 ** 10 ** 10` or from nested loops without end; a process that can be killed does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..exceptions import TemplateRenderError

__all__ = ["JinjaSandbox", "TemplateRefused"]

_WORKER = Path(__file__).with_name("jinja_worker.py")
_START = 60.0  # seconds for the process to come up on a busy machine; nothing of the template runs yet


class TemplateRefused(TemplateRenderError):
    """The template itself refused the messages, with `raise_exception`."""


class JinjaSandbox:
    """One template text and the process that renders it, started at the first `render`; safe to use from any thread.

    seconds: wall time for compiling and for each render. memory: bytes of address space of the process, where the
    system knows this bound. most: characters of the text. Raises nothing until it renders.
    """

    def __init__(self, text: str, *, seconds: float = 5.0, memory: int = 1 << 28, most: int = 1 << 25) -> None:
        self.text = text
        self._seconds = seconds
        self._memory = memory
        self._most = most
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._finalizer: Any = None

    def render(self, variables: Mapping[str, Any]) -> str:
        """The template's text. Raises TemplateRefused where the template refuses the messages, and TemplateRenderError
        for a template that is no Jinja, that fails, or that goes over a bound."""
        try:
            request = json.dumps({"variables": dict(variables), "most": self._most}).encode() + b"\n"
        except (TypeError, ValueError, RecursionError) as error:
            raise TemplateRenderError(f"messages, tools and knobs must be JSON values: {error}") from error
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            return self._ask(request)

    def close(self) -> None:
        """End the process; the next render starts another."""
        with self._lock:
            self._stop()

    def _start(self) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        self._stop()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _boot()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self._finalizer = weakref.finalize(self, _end, self._process)
        try:
            self._ask(b"", seconds=_START)
            self._ask(json.dumps({"template": self.text, "memory": self._memory}).encode() + b"\n")
        except TemplateRenderError:
            self._stop()
            raise

    def _ask(self, request: bytes, *, seconds: float | None = None) -> str:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            process.kill()

        seconds = self._seconds if seconds is None else seconds
        timer = threading.Timer(seconds, expire)
        timer.daemon = True
        timer.start()
        try:
            process.stdin.write(request)
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = b""
        except BaseException:  # an interrupt; what is still to come would be taken for the next answer
            self._stop()
            raise
        finally:
            timer.cancel()
        if not line.endswith(b"\n"):
            self._stop()
            why = f"took more than {seconds:g} s" if expired.is_set() else "ended its process (out of memory?)"
            raise TemplateRenderError(f"the model file's chat template {why}; give another template (template=...)")
        answer: dict[str, str] = json.loads(line)
        if "ok" in answer:
            return answer["ok"]
        message = f"the model file's chat template {_SAYS[answer['error']]}: {answer['message']}"
        raise (TemplateRefused if answer["error"] == "refused" else TemplateRenderError)(message)

    def _stop(self) -> None:
        if self._process is not None:
            self._finalizer.detach()
            _end(self._process)
            self._process = None


_SAYS = {
    "syntax": "is no valid Jinja",
    "refused": "refuses the messages",
    "size": "writes too much",
    "memory": "ran out of memory",
    "failed": "failed",
}


def _boot() -> str:
    """A program that finds the packages where this process has them, and takes nothing else from around it."""
    paths = [path for path in sys.path if path and Path(path).is_absolute()]
    return f"import runpy, sys; sys.path.extend({paths!r}); runpy.run_path({str(_WORKER)!r}, run_name='__main__')"


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                continue
    process.wait()
