"""How a run is shown: nothing twice, nothing that a terminal would obey, no time on the last line of a result."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from agentloop.calls import Call
from agentloop.cli.transcript import Transcript, make_console, visible
from agentloop.events import CallReady, Event, Retry, TextDelta, ToolFinished, ToolProgress, TurnStarted


def shown(*events: Event) -> str:
    out = io.StringIO()
    transcript = Transcript(Console(file=out, highlight=False, markup=False, emoji=False, soft_wrap=True))
    for event in events:
        transcript.show(event)
    transcript.end()
    return out.getvalue()


def test_an_unknown_tool_is_told_once() -> None:
    error = 'Error: there is no tool "fly"; declared tools: walk'
    text = shown(
        CallReady(0, Call("fly", {}, "unknown_tool", error=error), "call_0"),
        ToolFinished("call_0", "fly", error, "retry", 0.0),
        Retry("unknown_tool", error, 1, 2),
    )
    assert text.splitlines() == ["→ fly()  [unknown_tool]", f"  {error}", "↻ unknown_tool (1 of 2)"]


def test_other_retries_say_why() -> None:
    text = shown(TurnStarted(1, 0, 5), Retry("empty_reply", "Your reply was empty.\nAnswer.", 1, 2))
    assert text == "↻ empty_reply (1 of 2): Your reply was empty.\n"
    twice = shown(
        ToolFinished("call_0", "fly", "Error: no", "retry", 0.0), TurnStarted(2, 9, 5), Retry("x", "Error: no", 1, 2)
    )
    assert twice.count("Error: no") == 2, "what an earlier turn showed is told again"


def test_the_time_of_a_tool_has_its_own_line() -> None:
    slow = shown(ToolFinished("call_0", "run_tests", "1 failed\n3 passed", "ok", 1.26))
    assert slow.splitlines() == ["  1 failed", "  3 passed", "  (run_tests took 1.3 s)"]
    assert shown(ToolFinished("call_0", "add", "4", "ok", 0.002)) == "  4\n"
    assert shown(ToolFinished("call_0", "add", "", "ok", 0.0)) == "  (empty)\n"
    assert shown(ToolFinished("call_0", "add", "", "deferred", 0.0)) == ""


def test_nothing_that_comes_from_a_model_moves_the_cursor() -> None:
    evil = "\x1b[2J\x1b]0;title\x07 \u202egnp.exe \x9b1A\ttab\r\n"
    text = shown(
        TextDelta(evil),
        CallReady(0, Call("run\x1b[1A", {"na\x07me": evil, "long": evil + "more"}), "call_0"),
        ToolProgress("call_0", "run", evil),
        ToolFinished("call_0", "run", evil, "ok", 0.0),
        Retry("x", evil, 1, 2),
    )
    assert not set(text) & set("\x1b\x07\x9b\r\u202e")
    assert text.count("[2J") == 5, "the retry does not tell it again"
    assert visible("a\tb\r\nc\x08\u2066") == "a\tb\nc\\x08\\u2066"


@pytest.mark.parametrize(("no_color", "styled"), [("1", False), ("", True)])
def test_no_color_means_no_styles_at_all(no_color: str, styled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    console = make_console()
    with console.capture() as capture:
        console.print("thought", style="dim italic")
    assert ("\x1b[" in capture.get()) is styled
