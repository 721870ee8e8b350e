"""A program on a terminal of its own, as a person would use it: what it writes, and keys that are pressed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from types import TracebackType

COMMAND = [sys.executable, "-m", "agentloop"]
CTRL_C, CTRL_D, UP = "\x03", "\x04", "\x1b[A"
STYLE = re.compile(r"\x1b\[[0-9;]*m")


class Terminal:
    """Runs `agentloop ARGUMENTS` on a new terminal. `written` is all that came so far, `raw` the same with styles."""

    def __init__(self, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        self._at = 0
        self._bytes = b""
        self.raw = ""
        self.written = ""
        self._master, slave = pty.openpty()
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200", **(env or {})}
        if env is None or "NO_COLOR" not in env:
            environment.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def type(self, line: str) -> None:
        self.press(line + "\r")

    def expect(self, text: str, seconds: float = 60) -> str:
        """Read until `text` comes; returns what stood before it, styles left out."""
        until = time.monotonic() + seconds
        while (found := self.written.find(text, self._at)) < 0:
            assert time.monotonic() < until, f"{text!r} did not come; this did: {self.written[self._at :]!r}"
            assert self._read(), f"the program ended before {text!r}: {self.written[self._at :]!r}"
        before, self._at = self.written[self._at : found], found + len(text)
        return before

    def interrupt(self, text: str) -> str:
        """Ctrl-C until `text` comes: one that arrives between the prompt and the wait for a key is seen by Python with
        the next key only."""
        for _ in range(10):
            self.press(CTRL_C)
            until = time.monotonic() + 3
            while time.monotonic() < until and self.written.find(text, self._at) < 0:
                assert self._read(), f"the program ended before {text!r}: {self.written[self._at :]!r}"
            if self.written.find(text, self._at) >= 0:
                break
        return self.expect(text)

    def leave(self, prompt: str = "> ") -> None:
        """Ctrl-D at the next prompt ends it, with exit code 0."""
        self.expect(prompt)
        self.press(CTRL_D)
        assert self.end() == 0

    def end(self, seconds: float = 60) -> int:
        """Read to the end; returns the exit code."""
        until = time.monotonic() + seconds
        while self._read():
            assert time.monotonic() < until, f"it did not end: {self.written[self._at :]!r}"
        return self.process.wait(timeout=seconds)

    def _read(self) -> bool:
        if not select.select([self._master], [], [], 0.2)[0]:
            return self.process.poll() is None
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other end is closed
            return False
        self._bytes += data  # a character may come in two parts
        self.raw = self._bytes.decode("utf-8", "replace")
        self.written = STYLE.sub("", self.raw).replace("\r\n", "\n")
        return bool(data)
