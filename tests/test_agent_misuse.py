"""What cannot be meant is refused at once, by an error that says what to pass; and nothing is lost by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from agentloop.agent import Agent
from agentloop.conversation import Conversation
from agentloop.engine.seam import CancelToken
from agentloop.exceptions import AgentLoopError, ConversationError, InvalidOption, RunCancelled
from agentloop.testing import ScriptedEngine, say
from agentloop.tools.samples import calculator
from agentloop.tools.toolset import FunctionToolset
from tests.agent_tools import add, run


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"engine": "model.gguf"}, r"engine cannot be 'model.gguf'; pass Engine.load\('model.gguf'\)"),
        ({"engine": Path("model.gguf")}, r"pass Engine.load\('model.gguf'\)"),
        ({"engine": 5}, "pass Engine.load"),
        ({"tools": calculator}, r"pass a list: tools=\[calculator\]"),
        ({"tools": len}, r"pass a list: tools=\[len\]"),
        ({"tools": FunctionToolset([add])}, "pass a list"),
        ({"tools": "calculator"}, "pass a list of functions"),
        ({"tools": {"add": add}}, "pass a list of functions"),
        ({"tools": 5}, "pass a list of functions"),
        ({"tools": ["add"]}, "a tool cannot be 'add'; pass a function, a Tool or a Toolset"),
        ({"limits": {}}, r"limits cannot be an object of type dict; pass UsageLimits\("),
        ({"limits": {"request_limit": 5}}, r"pass UsageLimits\("),
        ({"limits": 5}, r"limits cannot be 5; pass UsageLimits\("),
        ({"thinking": {}}, r"pass Thinking\(budget=256\)"),
        ({"thinking": 256}, r"pass Thinking\(budget=256\)"),
        ({"sampling": 0.7}, r"pass Sampling\(temperature=0.7\)"),
        ({"approve": True}, "pass a function"),
        ({"compaction": True}, r"pass Compaction\(\)"),
        ({"result_cap": "4k"}, "a number of tokens"),
        ({"max_tokens": 9.5}, "a number of tokens"),
        ({"max_tokens": True}, "a number of tokens"),
        ({"retries": None}, "pass a number"),
        ({"tool_timeout": "5s"}, "a number of seconds"),
        ({"strict": "yes"}, "True or False"),
        ({"name": 7}, "pass text"),
    ],
)
def test_settings_of_an_agent(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidOption, match=says) as caught:
        Agent(**settings)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, AgentLoopError)


def test_numbers_that_are_too_small() -> None:
    for settings in ({"max_tokens": 0}, {"retries": -1}, {"result_cap": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(settings))} must be >="):
            Agent(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"conversation": "talk.json"}, r"pass Conversation.load\('talk.json', engine\)"),
        ({"conversation": [{"role": "user", "content": "x"}]}, r"pass Conversation\(engine, messages="),
        ({"conversation": 5}, "pass a Conversation"),
        ({"limits": {}}, r"pass UsageLimits\("),
        ({"usage": {}}, r"pass Usage\(\)"),
        ({"cancel": True}, r"pass CancelToken\(\)"),
        ({"on_event": []}, "pass a function"),
        ({"deferred_tool_results": {"call_0": True}}, r"pass DeferredToolResults\("),
        ({"save_to": 5}, "the name of a file"),
        ({"temperature": 1.0}, "option cannot be 'temperature'; pass one of approve, cancel"),
    ],
)
def test_options_of_a_run(options: dict[str, Any], says: str) -> None:
    engine = ScriptedEngine([say("Hi.")])
    agent = Agent(engine)
    with pytest.raises(InvalidOption, match=says):
        agent.run_sync("Go.", **options)
    with pytest.raises(InvalidOption, match=says):
        agent.stream("Go.", **options)
    assert run(agent).output == "Hi."


def test_a_result_is_no_conversation() -> None:
    agent = Agent(ScriptedEngine([say("Hi."), say("Again.")]))
    first = run(agent)
    with pytest.raises(InvalidOption, match=r"pass result\.conversation"):
        agent.run_sync("Go.", conversation=first)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match=r"pass result\.conversation"):
        anyio.run(lambda: agent.best_of("Go.", 2, conversation=first))  # type: ignore[arg-type]
    assert run(agent, conversation=first.conversation).output == "Again."


@pytest.mark.parametrize("prompt", [5, b"Go.", {"role": "user", "content": "Go."}])
def test_prompts(prompt: Any) -> None:
    with pytest.raises(InvalidOption, match="pass text, or a list of parts"):
        Agent(ScriptedEngine([])).run_sync(prompt)


def test_an_override_is_checked_too() -> None:
    agent = Agent(ScriptedEngine([]))
    with pytest.raises(InvalidOption, match=r"tools=\[calculator\]"), agent.override(tools=calculator):  # type: ignore[arg-type]
        pass
    with pytest.raises(InvalidOption, match=r"Engine\.load"), agent.override(engine="x.gguf"):  # type: ignore[arg-type]
        pass


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    engine = ScriptedEngine([say("Hi."), say("Again.")])
    agent, place = Agent(engine), tmp_path / "missing" / "talk.json"
    with pytest.raises(ConversationError, match=r"there is no folder .*missing to save talk\.json in$"):
        agent.run_sync("Go.", save_to=place)
    assert engine.remaining == 2  # before anything was decoded
    result = run(agent)
    with pytest.raises(ConversationError, match=r"there is no folder .*missing to save talk\.json in; make it first"):
        result.conversation.save(place)
    blocked = tmp_path / "file"
    blocked.write_text("x")
    with pytest.raises(ConversationError, match=r"there is no folder .*file to save"):
        result.conversation.save(blocked / "talk.json")
    with pytest.raises(ConversationError, match="cannot be saved"):
        result.conversation.save(tmp_path / ("x" * 300))
    assert list(tmp_path.iterdir()) == [blocked]
    place.parent.mkdir()
    assert run(agent, conversation=result.conversation, save_to=place).output == "Again."
    assert Conversation.load(place, engine).messages == result.conversation.messages


def test_a_cancel_before_the_beginning_says_that_nothing_was_done() -> None:
    engine, cancel = ScriptedEngine([say("Hi."), say("Later.")]), CancelToken()
    cancel.cancel()
    agent = Agent(engine)
    with pytest.raises(RunCancelled, match="nothing was done, run it again") as caught:
        agent.run_sync("Go.", cancel=cancel)
    assert caught.value.conversation is None
    given = run(agent).conversation
    with pytest.raises(RunCancelled) as caught:
        agent.run_sync("Go.", cancel=cancel, conversation=given)
    assert caught.value.conversation is given
    assert run(agent, conversation=given).output == "Later."
