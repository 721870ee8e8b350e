"""`agentloop inspect` of a saved conversation, and the steps that `agentloop bench` shows."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from agentloop import Agent
from agentloop.cli import main
from agentloop.cli.bench import steps_shown
from agentloop.testing import ScriptedEngine, call, say
from agentloop.tools.samples import calculator


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    engine = ScriptedEngine([call("calculator", expression="2 + 2"), say("It is 4.")])
    result = Agent(engine, tools=[calculator], instructions="Be brief.").run_sync("2 + 2?")
    path = tmp_path / "talk.json"
    result.conversation.save(path)
    return path


def test_a_saved_conversation_for_programs(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(saved), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["messages"] == {"system": 1, "user": 1, "assistant": 2, "tool": 1}
    assert (facts["turns"], facts["tools"], facts["state"]) == (2, ["calculator"], None)
    assert facts["usage"]["recomputed"] == 0
    assert facts["tokens"] == sum(facts["usage"][name] for name in ("new", "generated"))


def test_a_saved_conversation_for_people(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = saved.with_name("talk.json.state")
    assert main(["inspect", str(saved)]) == 0
    text = capsys.readouterr().out
    assert "1 system, 1 user, 2 assistant, 1 tool" in text
    assert "its tokens are decoded again" in text
    state.write_bytes(b"12345")
    assert main(["inspect", str(saved)]) == 0
    text = capsys.readouterr().out
    assert f"{state} (5 bytes); agentloop inspect shows it too" in text
    assert f"agentloop chat --resume {saved}" in text


def test_a_conversation_that_was_changed(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved.write_text(saved.read_text().replace("2 + 2?", "2 + 3?"))
    assert main(["inspect", str(saved)]) == 1
    assert "it was changed" in capsys.readouterr().err


def test_steps_of_a_benchmark_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("agentloop.bench.state")
    with steps_shown():
        logger.info("prefill of %d tokens", 5)
    logger.info("nobody sees this")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "agentloop: prefill of 5 tokens\n")
