"""The page in a real browser: what is under the pointer, keys, hostile texts, long runs; nothing in the console."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentloop.trace import read_trace, write_page
from tests.trace.browser import Browser, browser, missing
from tests.trace.files import HOSTILE, timed_body, write_body

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

DRAWING = (Path(__file__).parents[2] / "agentloop" / "trace" / "drawing.js").read_text(encoding="utf-8")
SIZES = {name: int(n) for name, n in re.findall(r"\b(LEFT|AXIS|PROMPT|DRAFT|REPLY|TOOL|SPACE) = (\d+)", DRAWING)}
SIZES["lane:step"] = SIZES["AXIS"] + SIZES["PROMPT"] + SIZES["SPACE"] + SIZES["DRAFT"] + 10
SIZES["lane:prefill"] = SIZES["AXIS"] + 5
SIZES["lane:tool"] = SIZES["AXIS"] + SIZES["PROMPT"] + 2 * SIZES["SPACE"] + SIZES["DRAFT"] + 2 + SIZES["REPLY"] + 5


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    with browser() as made:
        yield made


class Page:
    """A page that is open, and where its events are."""

    def __init__(self, chrome: Browser, tmp_path: Path, body: dict[str, Any]) -> None:
        self.chrome = chrome
        saved = write_body(tmp_path / "saved.json", body)
        self.data = read_trace(saved)
        chrome.open(write_page(saved))
        chrome.log()

    def point(self, lane: str, t: float, *, click: bool = False) -> str:
        """Point at time `t` of a lane, the whole run being shown; the tip's text."""
        script = "const r = document.getElementById('lanes').getBoundingClientRect(); return [r.left, r.top, r.width]"
        left, top, width = self.chrome.run(script)
        length = max(self.data["length"], 1e-3)
        x = SIZES["LEFT"] + (t + 0.01 * length) / (1.02 * length) * (width - SIZES["LEFT"])
        self.chrome.move(left + x, top + SIZES[f"lane:{lane}"], click=click)
        return self.chrome.text("#tip")

    def detail(self) -> str:
        return self.chrome.text("#detail")


def test_what_is_under_the_pointer(chrome: Browser, tmp_path: Path) -> None:
    page = Page(chrome, tmp_path, timed_body())
    assert "5 tokens: 5 drafted by suffix, 4 accepted" in page.point("step", 0.35)
    assert "drafted0 own0 " in chrome.text("#tip")
    assert chrome.text("#detail .on") == "drafted0 own0 "
    assert chrome.text("#detail .on u") == "drafted0 "
    assert "question 0" in page.detail()
    assert "2 tokens decoded" in page.point("step", 1.1 + 0.45)
    assert chrome.text("#detail .on") == "word1.2 "
    assert "Prefill of turn 1: 10 new, 15 reused" in page.point("prefill", 1.1 + 0.1)
    assert "Tool add: ok" in page.point("tool", 0.95)
    assert '"a": 0' in page.detail()
    assert "result 0" in page.detail()
    assert chrome.log() == []


def test_holding_and_keys(chrome: Browser, tmp_path: Path) -> None:
    page = Page(chrome, tmp_path, timed_body())
    page.point("step", 0.25, click=True)
    page.point("tool", 2.0)
    assert "Tool add" in page.detail()
    chrome.move(2, 2)
    assert chrome.text("#detail .on") == "word0.0 "
    assert chrome.run("return document.getElementById('tip').hidden")
    assert chrome.text("tr.held button") == "0"
    chrome.run("document.getElementById('chart').focus()")
    chrome.keys("Right")
    assert chrome.text("#detail .on") == "drafted0 own0 "
    assert "drafted0 own0" in chrome.text("#say")
    chrome.keys("Down", "Right", "+", "+")
    assert chrome.text("#detail .on") == "word1.0 "
    assert chrome.text("tr.held button") == "1"
    chrome.keys("Up", "End")
    assert "result 2" in page.detail()
    chrome.keys("Escape")
    assert "Point at something" in page.detail()
    chrome.run("document.querySelectorAll('[data-turn]')[2].click()")
    assert "Prefill of turn 2" in page.detail()
    assert chrome.log() == []


def test_hostile_texts_are_texts(chrome: Browser, tmp_path: Path) -> None:
    body = timed_body()
    body["model_name"] = body["template"] = HOSTILE
    for message in body["messages"]:
        message["content"] = HOSTILE
    for entry in body["timeline"]:
        if entry["kind"] == "turn":
            entry |= {"prompt": HOSTILE, "finish": HOSTILE}
            entry["steps"][0][3:5] = [HOSTILE, HOSTILE]
            entry["steps"][1][5] = HOSTILE
        else:
            entry |= {"name": HOSTILE, "outcome": HOSTILE}
    page = Page(chrome, tmp_path, body)
    assert HOSTILE in page.point("step", 0.25)
    assert chrome.text("#detail .on") == HOSTILE
    assert HOSTILE in page.point("tool", 0.95)
    assert HOSTILE in page.detail()
    assert f"drafted by {HOSTILE}" in page.point("step", 0.35)
    assert chrome.run("return window.pwned === undefined")
    assert chrome.run("return [document.images.length, document.scripts.length]") == [0, 2]
    assert chrome.log() == []


def test_nothing_is_fetched_and_nothing_else_may_run(chrome: Browser, tmp_path: Path) -> None:
    page = Page(chrome, tmp_path, timed_body())
    assert chrome.run("return performance.getEntriesByType('resource').length") == 0
    script = (
        "const s = document.createElement('script'); s.textContent = 'window.pwned = 1'; document.body.append(s);"
        "const i = new Image(); i.src = 'https://example.invalid/x.png'; document.body.append(i);"
        "return window.pwned === undefined"
    )
    assert chrome.run(script)
    assert "Tool add" in page.point("tool", 0.95)
    said = chrome.log()
    assert said
    assert all("Content Security Policy" in line for line in said)


def test_a_long_run_stays_usable(chrome: Browser, tmp_path: Path) -> None:
    """150 turns with 20 steps and a tool each: 3,300 events."""
    page = Page(chrome, tmp_path, timed_body(turns=150, steps=20))
    assert chrome.run("return document.querySelectorAll('tbody tr').length") == 150
    assert "turn 50" in page.point("prefill", 50 * 2.5 + 0.1)
    chrome.run("document.querySelectorAll('[data-turn]')[70].click()")
    chrome.run("document.getElementById('chart').focus()")
    chrome.keys("Right", "Right")
    assert chrome.text("#detail .on") == "drafted70 own70 "
    assert chrome.log() == []


def test_files_without_a_timeline(chrome: Browser, tmp_path: Path) -> None:
    body = timed_body()
    body.pop("timeline")
    page = Page(chrome, tmp_path, body)
    assert "is not recorded" in chrome.text(".note")
    page.point("step", 0.5)
    assert chrome.text("#detail .on") == "answer 0"
    assert chrome.log() == []


def test_an_empty_conversation(chrome: Browser, tmp_path: Path) -> None:
    body = timed_body(turns=0)
    Page(chrome, tmp_path, body)
    assert "Point at something" in chrome.text("#detail")
    chrome.run("document.getElementById('chart').focus()")
    chrome.keys("Right", "Down", "Up", "End", "+", "-", "0")
    assert chrome.log() == []
