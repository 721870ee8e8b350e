"""Typed answers: read, validated, asked for again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, Field

from agentloop.agent import Agent
from agentloop.context import RunContext
from agentloop.events import Event, Retry
from agentloop.exceptions import AgentLoopError, ModelRetry, UnexpectedModelBehavior
from agentloop.testing import ScriptedEngine, call, say, think
from tests.agent_tools import add, check_whole


class City(BaseModel):
    name: str
    people: int = Field(gt=0)


@dataclass
class Point:
    x: int
    y: int


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (City, '{"name": "Oslo", "people": 700000}', City(name="Oslo", people=700000)),
        (City, '```json\n{"name": "Oslo", "people": 1}\n```', City(name="Oslo", people=1)),
        (Point, '{"x": 1, "y": 2}', Point(1, 2)),
        (list[int], "[1, 2, 3]", [1, 2, 3]),
        (bool, "true", True),
        (bool, "True", True),
        (int, "42", 42),
        (str, "plain text", "plain text"),
        (City | Point, '{"x": 1, "y": 2}', Point(1, 2)),
    ],
)
def test_answers_of_many_types(kind: Any, text: str, value: Any) -> None:
    engine = ScriptedEngine([think("Hm.") + say(text)])
    agent: Agent[None, Any] = Agent(engine, output_type=kind, instructions="Be exact.")
    result = agent.run_sync("Go.")
    assert result.output == value
    if kind is not str:
        assert "JSON that fits this schema" in result.messages[0]["content"]
    assert result.conversation.first_difference() is None
    check_whole(result.conversation)


def test_what_does_not_fit_goes_back_with_the_place() -> None:
    engine = ScriptedEngine([say('{"name": "Oslo", "people": -1}'), say("Oslo!"), say('{"name": "Oslo", "people": 5}')])
    events: list[Event] = []
    result = Agent(engine, output_type=City).run_sync("Go.", on_event=events.append)
    assert result.output.people == 5
    first, second = [e.message for e in events if isinstance(e, Retry)]
    assert "people: Input should be greater than 0" in first
    assert "not JSON" in second
    assert first in engine.prompts[1]
    assert result.usage.recomputed == 0


def test_it_is_bounded() -> None:
    engine = ScriptedEngine([say("no")] * 9)
    with pytest.raises(UnexpectedModelBehavior) as caught:
        Agent(engine, output_type=City, retries=2).run_sync("Go.")
    assert caught.value.reason == "output"
    assert engine.remaining == 6


def test_validators_see_the_context_and_may_change_or_refuse() -> None:
    engine = ScriptedEngine([say("41"), say("42")])
    agent: Agent[int, int] = Agent(engine, output_type=int, deps_type=int)

    @agent.output_validator
    async def right(ctx: RunContext[int], value: int) -> int:
        if value != ctx.deps:
            raise ModelRetry(f"{value} is not it.")
        return value

    @agent.output_validator
    def twice(value: int) -> int:
        return 2 * value

    result = agent.run_sync("Go.", deps=42)
    assert result.output == 84
    assert "41 is not it." in engine.prompts[1]


def test_a_conversation_of_another_agent_is_told_of_the_schema() -> None:
    engine = ScriptedEngine([say("Hi."), call("add", a=1, b=2), say("3")])
    first = Agent(engine, tools=[add]).run_sync("Hello")
    result = Agent(engine, tools=[add], output_type=int).run_sync("1 + 2?", conversation=first.conversation)
    assert result.output == 3
    assert "JSON that fits this schema" in result.messages[2]["content"]


def test_a_type_without_a_schema_is_refused() -> None:
    class Plain:
        pass

    with pytest.raises(AgentLoopError, match="cannot become a JSON schema"):
        Agent(ScriptedEngine(), output_type=Plain)


def test_a_sub_agent_with_a_type_answers_as_json() -> None:
    engine = ScriptedEngine([call("find", task="Oslo"), say('{"name": "Oslo", "people": 5}'), say("5")])
    finder = Agent(engine, output_type=City)
    result = Agent(engine, tools=[finder.as_tool("find", "Finds a city.")]).run_sync("Go.")
    assert result.messages[-2]["content"] == '{"name": "Oslo", "people": 5}'
