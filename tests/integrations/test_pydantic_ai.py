"""pydantic-ai agents on the embedded model: real tasks, and how little a request decodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, PromptedOutput, Tool
from pydantic_ai.exceptions import ModelAPIError, ModelContextWindowExceededError, UnexpectedModelBehavior, UserError
from pydantic_ai.messages import (
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.settings import ModelSettings, ToolOrOutput
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import UsageLimits

from agentloop import Engine
from agentloop.exceptions import DecodeError
from agentloop.integrations.pydantic_ai import AgentLoopModel, AgentLoopModelSettings
from agentloop.testing import ScriptedEngine, call, say

FILES = {"app.txt": "20", "notes.txt": "22"}


def read_file(path: str) -> str:
    """Read a text file and return its content.

    Args:
        path: Path of the file to read.
    """
    return FILES[path]


def calculator(expression: str) -> str:
    """Evaluate an arithmetic expression.

    Args:
        expression: The expression, for example 2 + 3.
    """
    a, sign, b = expression.split()
    return str({"+": int(a) + int(b), "-": int(a) - int(b), "*": int(a) * int(b)}[sign])


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load(n_ctx=8192, sequences=4) as engine:
        yield engine


@pytest.fixture
def model(engine: Engine) -> Iterator[AgentLoopModel]:
    model = AgentLoopModel(engine, conversations=4)
    yield model
    model.close()


def costs(messages: list[ModelMessage]) -> list[tuple[int, int, int, int]]:
    """(cached, new, recomputed, generated) of each response."""
    responses = [m for m in messages if isinstance(m, ModelResponse)]
    return [
        (
            r.usage.cache_read_tokens,
            r.usage.details["new_tokens"],
            r.usage.details["recomputed_tokens"],
            r.usage.output_tokens,
        )
        for r in responses
    ]


def appended(rows: list[tuple[int, int, int, int]], standing: int = 0) -> int:
    """Every request found all that stood before it, and decoded nothing twice. Returns what stands behind."""
    for cached, new, recomputed, generated in rows:
        assert (cached, recomputed) == (standing, 0)
        standing += new + generated
    return standing


def test_a_task_of_several_steps_decodes_each_token_once(model: AgentLoopModel) -> None:
    agent = Agent(model, tools=[read_file, calculator])
    result = agent.run_sync("Read app.txt and notes.txt and add the numbers.")
    assert "42" in result.output
    responses = [m for m in result.all_messages() if isinstance(m, ModelResponse)]
    assert len(responses) >= 3
    assert {r.finish_reason for r in responses[:-1]} == {"tool_call"}
    assert responses[-1].finish_reason == "stop"
    assert isinstance(responses[0].parts[0], ThinkingPart)
    rows = costs(result.all_messages())
    standing = appended(rows)
    usage = result.usage
    assert usage.input_tokens == sum(cached + new for cached, new, _, _ in rows)
    assert usage.cache_read_tokens == sum(cached for cached, _, _, _ in rows)
    again = agent.run_sync("What is 12 * 7?", message_history=result.all_messages())
    assert "84" in again.output
    appended(costs(again.new_messages()), standing)


def test_a_history_that_was_stored_goes_on(model: AgentLoopModel) -> None:
    agent = Agent(model, tools=[calculator])
    first = agent.run_sync("What is 12 * 7?")
    stored = ModelMessagesTypeAdapter.validate_json(first.all_messages_json())
    second = agent.run_sync("What is 20 + 22?", message_history=stored)
    assert "42" in second.output
    appended(costs(second.new_messages()), appended(costs(first.all_messages())))


def test_a_second_run_reuses_instructions_and_tools(model: AgentLoopModel) -> None:
    agent = Agent(model, tools=[calculator], instructions="You are a helpful agent. " * 20)
    first = costs(agent.run_sync("What is 12 * 7?").all_messages())
    second = costs(agent.run_sync("What is 20 + 22?").all_messages())
    assert first[0][0] == 0
    assert second[0][0] > 0.8 * first[0][1], "the head was there"
    assert second[0][1] < 40
    assert second[0][2] == 0


def test_two_answers_to_one_history(model: AgentLoopModel) -> None:
    """Going back to an earlier point takes a fork: the later one can still go on."""
    agent = Agent(model, tools=[calculator])
    first = agent.run_sync("What is 12 * 7?")
    standing = appended(costs(first.all_messages()))
    second = agent.run_sync("What is 20 + 22?", message_history=first.all_messages())
    other = agent.run_sync("What is 3 + 4?", message_history=first.all_messages())
    assert "7" in other.output
    appended(costs(other.new_messages()), standing)
    third = agent.run_sync("What is 30 + 12?", message_history=second.all_messages())
    appended(costs(third.new_messages()), appended(costs(second.new_messages()), standing))


def test_a_history_from_elsewhere_and_one_that_was_changed(model: AgentLoopModel) -> None:
    agent = Agent(model, tools=[calculator])
    foreign: list[ModelMessage] = [
        ModelRequest([UserPromptPart("Hello!")]),
        ModelResponse([TextPart("Hello! What can I do?")]),
    ]
    result = agent.run_sync("What is 12 * 7?", message_history=foreign)
    assert "84" in result.output
    appended(costs(result.new_messages()))
    changed = [foreign[0], ModelResponse([TextPart("Good day.")]), *result.all_messages()[2:]]
    other = agent.run_sync("What is 20 + 22?", message_history=changed)
    assert "42" in other.output
    cached = costs(other.new_messages())[0][0]
    assert 0 < cached < 500, "the head and the first question"


def test_runs_at_once(model: AgentLoopModel) -> None:
    agent = Agent(model, tools=[calculator])

    async def main() -> list[Any]:
        return await asyncio.gather(*(agent.run(f"What is {a} + {a}?") for a in (11, 21, 31)))

    results = asyncio.run(main())
    assert [str(2 * a) in r.output for a, r in zip((11, 21, 31), results, strict=True)] == [True] * 3
    for result in results:
        assert all(recomputed == 0 for _, _, recomputed, _ in costs(result.all_messages()))


def test_streaming(model: AgentLoopModel) -> None:
    agent = Agent(model, tools=[calculator])

    async def main() -> tuple[list[str], list[ModelMessage]]:
        async with agent.run_stream("What is 12 * 7?") as result:
            texts = [text async for text in result.stream_text(delta=True, debounce_by=None)]
            return texts, result.all_messages()

    texts, messages = asyncio.run(main())
    assert "".join(texts).strip() == "12 * 7 = 84."
    assert len(texts) > 3
    standing = appended(costs(messages))
    again = agent.run_sync("What is 20 + 22?", message_history=messages)
    appended(costs(again.new_messages()), standing)


CALCULATOR = ToolDefinition(
    name="calculator",
    description="Evaluate an arithmetic expression.",
    parameters_json_schema=Tool(calculator).function_schema.json_schema,
)
WEATHER = ToolDefinition(
    name="get_weather",
    description="Return the current weather in a city.",
    parameters_json_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


def ask(
    model: AgentLoopModel, text: str, settings: ModelSettings | None, tools: list[ToolDefinition]
) -> list[tuple[str, str]]:
    """The kinds and names of the parts of one reply; without an agent between."""
    params = ModelRequestParameters(function_tools=tools)
    response = asyncio.run(model.request([ModelRequest([UserPromptPart(text)])], settings, params))
    return [(part.part_kind, getattr(part, "tool_name", "")) for part in response.parts]


def test_a_stream_that_is_left_stops_the_model_and_loses_nothing(model: AgentLoopModel) -> None:
    params = ModelRequestParameters(function_tools=[CALCULATOR])
    history: list[ModelMessage] = [ModelRequest([UserPromptPart("Hello!")])]
    history.append(asyncio.run(model.request(history, None, params)))
    standing = appended(costs(history))
    history.append(ModelRequest([UserPromptPart("What is 20 + 22?")]))

    async def leave() -> None:
        async with model.request_stream(history, None, params) as stream:
            async for _ in stream:
                await stream.cancel()
            assert stream.get().state == "interrupted"

    asyncio.run(leave())
    again = asyncio.run(model.request(history, None, params))
    cached, _, recomputed, _ = costs([again])[0]
    assert (cached >= standing, recomputed) == (True, 0)
    assert [part.part_kind for part in again.parts] == ["thinking", "tool-call"]


def test_tool_choice(model: AgentLoopModel) -> None:
    both = [CALCULATOR, WEATHER]
    question = "What is 12 * 7?"
    assert ("tool-call", "calculator") in ask(model, question, None, both)
    assert "tool-call" not in dict(ask(model, question, ModelSettings(tool_choice="none", max_tokens=60), both))
    assert "tool-call" in dict(ask(model, "Hello!", ModelSettings(tool_choice="required"), both))
    forced = ask(model, question, ModelSettings(tool_choice=["get_weather"], max_tokens=200), both)
    assert {name for kind, name in forced if kind == "tool-call"} == {"get_weather"}
    either = ModelSettings(tool_choice=ToolOrOutput(["get_weather"]), max_tokens=60)
    assert ("tool-call", "calculator") not in ask(model, question, either, both)
    with pytest.raises(UserError, match="names no tool of the agent; it has: calculator, get_weather"):
        ask(model, question, ModelSettings(tool_choice=["fly"]), both)
    with pytest.raises(UserError, match="no function tools"):
        ask(model, question, ModelSettings(tool_choice="required"), [])


def test_tools_that_come_and_go(model: AgentLoopModel) -> None:
    """A tool that is new is announced behind what was decoded; one that is gone cannot be called."""
    history: list[ModelMessage] = [ModelRequest([UserPromptPart("Hello!")])]
    first = asyncio.run(model.request(history, None, ModelRequestParameters(function_tools=[WEATHER])))
    history += [first, ModelRequest([UserPromptPart("What is 12 * 7?")])]
    params = ModelRequestParameters(function_tools=[CALCULATOR])
    second = asyncio.run(model.request(history, ModelSettings(max_tokens=120), params))
    rows = costs([first, second])
    appended(rows)
    names = {part.tool_name for part in second.parts if isinstance(part, ToolCallPart)}
    assert names <= {"calculator"}


class Answer(BaseModel):
    """The result."""

    yes: bool
    number: int


def test_output_through_a_tool_is_forced_into_its_schema(model: AgentLoopModel) -> None:
    """The embedded model knows nothing of such tools: only the grammar makes it call one."""
    agent = Agent(model, output_type=Answer, retries=0)
    result = agent.run_sync("Hello!", model_settings=AgentLoopModelSettings(max_tokens=400))
    assert isinstance(result.output, Answer)


def test_native_output_is_held_to_its_schema(model: AgentLoopModel) -> None:
    agent = Agent(model, output_type=NativeOutput(Answer), retries=0)
    result = agent.run_sync("Hello!", model_settings=AgentLoopModelSettings(max_tokens=400))
    assert isinstance(result.output, Answer)


def test_settings(model: AgentLoopModel) -> None:
    agent = Agent(model, tools=[calculator])
    settings = AgentLoopModelSettings(temperature=0.7, seed=3, top_p=0.9, agentloop_thinking_budget=4, max_tokens=40)
    result = agent.run_sync("Hello!", model_settings=settings)
    response = result.all_messages()[-1]
    assert isinstance(response, ModelResponse)
    assert response.usage.output_reasoning_tokens <= 4
    assert response.usage.output_tokens <= 40
    off = agent.run_sync("Hello!", model_settings=ModelSettings(thinking=False))
    assert not any(isinstance(p, ThinkingPart) for m in off.all_messages() for p in m.parts)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"temperature": -1.0}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"agentloop_thinking_budget": -1}, "budget"),
    ],
)
def test_wrong_settings_are_user_errors(model: AgentLoopModel, settings: Any, said: str) -> None:
    agent = Agent(model)
    with pytest.raises(UserError, match=said):
        agent.run_sync("Hello!", model_settings=settings)
    assert agent.run_sync("Hello!").output


def test_what_does_not_fit_and_what_is_no_text(model: AgentLoopModel) -> None:
    agent = Agent(model)
    with pytest.raises(ModelContextWindowExceededError, match="do not fit"):
        agent.run_sync("word " * 9000)
    with pytest.raises(UserError, match="reads text only; the prompt holds a ImageUrl"):
        agent.run_sync(["Look:", ImageUrl("https://example.org/a.png")])
    assert agent.run_sync("Hello!").output


def test_a_closed_engine_is_said() -> None:
    engine = Engine.load(n_ctx=1024)
    model = AgentLoopModel(engine)
    engine.close()
    with pytest.raises(UserError, match="closed"):
        Agent(model).run_sync("Hello!")
    with pytest.raises(ValueError, match="conversations must be"):
        AgentLoopModel(engine, conversations=0)


def test_what_a_model_gets_wrong_goes_back_to_it() -> None:
    """An unknown tool, arguments that do not fit, a call that is no call: the framework's own answers, then the end."""
    broken = "\n</think>\n\n<tool_call>\n<function=calculator>\n<parameter=expression>\n1"
    engine = ScriptedEngine(
        [
            call("fly", to="Oslo"),
            call("calculator", wrong="x"),
            broken,
            call("calculator", expression="2 + 2"),
            say("4"),
        ]
    )
    agent = Agent(AgentLoopModel(engine), tools=[calculator], retries=3)
    result = agent.run_sync("2 + 2?")
    assert result.output == "4"
    engine.assert_complete()
    assert "Unknown tool name: 'fly'" in engine.prompts[1]
    appended(costs(result.all_messages()))
    failing = AgentLoopModel(ScriptedEngine([call("fly")] * 3))
    with pytest.raises(UnexpectedModelBehavior, match="fly"):
        Agent(failing, tools=[calculator], retries=1).run_sync("Go.")


def test_an_error_of_the_engine_is_one_of_the_model() -> None:
    model = AgentLoopModel(ScriptedEngine([DecodeError(1, 7, "no memory"), say("fine")]))
    with pytest.raises(ModelAPIError, match="no memory"):
        Agent(model).run_sync("Go.")
    assert Agent(model).run_sync("Go.").output == "fine"


def test_what_went_through_the_model() -> None:
    """The engine's own count of rows, not that of turns: each token of three requests went through once."""
    with Engine.load(n_ctx=4096, drafters="none") as plain:
        model = AgentLoopModel(plain)
        result = Agent(model, tools=[read_file, calculator]).run_sync("Read app.txt and notes.txt and add the numbers.")
        standing = appended(costs(result.all_messages()))
        assert model._lives is not None
        stats = model._lives._lives[-1].conversation.sequence.stats
        assert standing - 1 <= stats.evaluated <= standing
        assert stats.recomputed == 0


def test_counting_tokens_before_a_request(model: AgentLoopModel) -> None:
    agent = Agent(model, tools=[calculator])
    limits = UsageLimits(input_tokens_limit=5000, count_tokens_before_request=True)
    result = agent.run_sync("What is 12 * 7?", usage_limits=limits)
    first = costs(result.all_messages())[0]

    async def count() -> int:
        params = ModelRequestParameters()
        return (await model.count_tokens([ModelRequest([UserPromptPart("Hello!")])], None, params)).input_tokens

    assert 0 < asyncio.run(count()) < first[1]


def test_conversations_are_bounded(engine: Engine) -> None:
    model = AgentLoopModel(engine, conversations=2)
    agent = Agent(model)
    histories = [agent.run_sync(text).all_messages() for text in ("Hi", "Good morning", "Thanks!")]
    assert model._lives is not None
    assert len(model._lives._lives) == 2
    old = agent.run_sync("Hello!", message_history=histories[0])
    assert costs(old.new_messages())[0][0] > 0, "the head was kept"
    model.close()
    assert agent.run_sync("Hello!").output
    model.close()


def test_prompted_output_and_a_model_to_fall_back_on() -> None:

    first = AgentLoopModel(ScriptedEngine([DecodeError(1, 7, "no memory")]))
    second = AgentLoopModel(ScriptedEngine([say('{"yes": true, "number": 7}')]))
    result = Agent(FallbackModel(first, second), output_type=PromptedOutput(Answer)).run_sync("Go.")
    assert result.output == Answer(yes=True, number=7)


def test_a_conversation_that_another_run_uses_is_left_alone(model: AgentLoopModel) -> None:
    """Two runs at once on one history: neither waits for the other's conversation, and both are right."""
    agent = Agent(model, tools=[calculator])
    history = agent.run_sync("What is 12 * 7?").all_messages()

    async def main() -> list[Any]:
        runs = (agent.run(f"What is {a} + {a}?", message_history=history) for a in (11, 21))
        return await asyncio.gather(*runs)

    outputs = [result.output for result in asyncio.run(main())]
    assert "22" in outputs[0]
    assert "42" in outputs[1]
