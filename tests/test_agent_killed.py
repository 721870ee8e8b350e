"""A process that is killed in a tool or in a decode leaves a file that another one goes on from."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from agentloop.agent import Agent
from agentloop.conversation import Conversation
from agentloop.testing import ScriptedEngine, say
from tests.agent_tools import add, check_whole, results

VICTIM = """
    import os, signal, sys
    from agentloop.agent import Agent
    from agentloop.events import ReasoningDelta
    from agentloop.testing import ScriptedEngine, call, say, think
    from agentloop.tools import tool

    place, path = sys.argv[1:]

    @tool
    def add(a: int, b: int) -> int:
        "Add two numbers."
        if place == "tool" and a == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return a + b

    def reply(prompt):
        if prompt.count("<tool_response>") < 1:
            return call("add", a=1, b=2)
        return think("fatal") + call("add", a=3, b=4)

    seen = ""
    def collect(event):
        global seen
        if isinstance(event, ReasoningDelta):
            seen += event.text
            if place == "decode" and "fatal" in seen:
                os.kill(os.getpid(), signal.SIGKILL)

    Agent(ScriptedEngine(reply), tools=[add]).run_sync("Go.", save_to=path, on_event=collect)
"""


@pytest.mark.parametrize(("place", "turns", "contents"), [("tool", 2, ["3", "7"]), ("decode", 1, ["3"])])
def test_kill(tmp_path: Path, place: str, turns: int, contents: list[str]) -> None:
    path = tmp_path / "talk.json"
    code = textwrap.dedent(VICTIM)
    done = subprocess.run(
        [sys.executable, "-c", code, place, str(path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == -9, done.stderr
    engine = ScriptedEngine([say("Done.")])
    conversation = Conversation.load(path, engine)
    assert len(conversation.turns) == turns
    result = Agent(engine, tools=[add]).run_sync(conversation=conversation)
    assert result.output == "Done."
    assert results(conversation) == contents
    assert conversation.first_difference() is None
    assert result.usage.recomputed == 0
    check_whole(conversation)
