"""A real browser for tests, through the WebDriver protocol of chromedriver: https://www.w3.org/TR/webdriver2/"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["Browser", "browser", "missing"]

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,1100",
)
KEYS = {"Right": "\ue014", "Left": "\ue012", "Up": "\ue013", "Down": "\ue015", "Escape": "\ue00c", "End": "\ue010"}


def binary() -> str | None:
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def missing() -> str | None:
    """Why there is no browser to test with, or None."""
    if binary() is None:
        return "no chromium or chrome on PATH"
    return None if shutil.which("chromedriver") else "no chromedriver on PATH"


class Browser:
    def __init__(self, address: str, profile: str) -> None:
        self._address = address
        options = {"binary": binary(), "args": [*ARGUMENTS, f"--user-data-dir={profile}"]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._address += f"/session/{made['sessionId']}"

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._address + path, data, {"Content-Type": "application/json"}, method=method
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from None

    def open(self, path: Path) -> None:
        self._call("POST", "/url", {"url": path.as_uri()})

    def run(self, script: str, *arguments: Any) -> Any:
        """What the body of a function returns in the page."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def text(self, selector: str) -> str:
        out = self.run("return document.querySelector(arguments[0]).textContent", selector)
        assert isinstance(out, str)
        return out

    def move(self, x: float, y: float, *, click: bool = False) -> None:
        """Put the pointer at a place in the window."""
        steps: list[dict[str, Any]] = [{"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)}]
        if click:
            steps += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": steps}
        self._call("POST", "/actions", {"actions": [mouse]})

    def keys(self, *names: str) -> None:
        steps = [{"type": kind, "value": KEYS.get(name, name)} for name in names for kind in ("keyDown", "keyUp")]
        self._call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": steps}]})

    def log(self) -> list[str]:
        """What the console said since the last call."""
        return [entry["message"] for entry in self._call("POST", "/se/log", {"type": "browser"})]

    def close(self) -> None:
        self._call("DELETE", "")


@contextmanager
def browser() -> Iterator[Browser]:
    driver = subprocess.Popen(
        [str(shutil.which("chromedriver")), "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert driver.stdout is not None
        port = next(found[1] for line in driver.stdout if (found := re.search(r"successfully on port (\d+)", line)))
        with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as profile:
            made = Browser(f"http://127.0.0.1:{port}", profile)
            try:
                yield made
            finally:
                made.close()
    finally:
        driver.terminate()
        driver.wait(30)
