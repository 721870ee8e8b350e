"""Strict calls and typed answers: models without any sense, which write only what is valid."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field, WithJsonSchema

from agentloop import Agent, Conversation, Engine, Thinking, UsageLimitExceeded, UsageLimits
from agentloop.arguments import validate_arguments
from agentloop.bench.random_model import RandomModel, write_random_model
from agentloop.conversation import TurnReply
from agentloop.conversation.constraining import ReplyConstraints, constraints_for
from agentloop.engine.bytevocab import ByteVocab
from agentloop.engine.constraint import Grammar
from agentloop.engine.seam import Sampling
from agentloop.events import ToolStarted
from agentloop.exceptions import ConstraintError, TemplateError
from agentloop.templates import JinjaTemplate, Qwen38
from agentloop.testing import ScriptedEngine, say, think
from agentloop.tools import Tool, tool
from agentloop.tools.samples import calculator, get_weather

ANSWER: dict[str, Any] = {"type": "boolean"}
PLAIN = JinjaTemplate("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}")


def schema(name: str, properties: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": "Does it.", "parameters": parameters}}


SHORT = {"type": "string", "maxLength": 5}
TOOLS = [
    schema("stop", {}),
    schema("read", {"path": SHORT, "lines": {"type": "integer", "minimum": 1, "maximum": 900}}, ("path",)),
    schema("mode", {"mode": {"type": "string", "enum": ["fast", "slow"]}, "on": {"type": "boolean"}}, ("mode",)),
    schema(
        "plot",
        {
            "points": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "maxItems": 3},
            "style": {"type": "object", "properties": {"dash": {"type": "boolean"}, "tag": SHORT}, "required": ["tag"]},
            "title": {"anyOf": [SHORT, {"type": "null"}]},
        },
        ("points", "style"),
    ),
]
BY_NAME = {t["function"]["name"]: t["function"]["parameters"] for t in TOOLS}


@pytest.fixture(scope="module")
def sense_less(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("random") / "m.gguf", RandomModel(mtp=1, seed=5))


@pytest.fixture(scope="module")
def engine(sense_less: Path) -> Iterator[Engine]:
    with Engine.load(sense_less, n_ctx=4096, sequences=2, threads=1) as loaded:
        yield loaded


def replies(
    engine: Engine, n: int, thinking: Thinking, temperature: float = 3.0, prompt: str = "Do something.", **options: Any
) -> Iterator[tuple[Conversation, TurnReply]]:
    """Replies of `n` seeds to one prompt. At the beginning of each stands a boolean or a call."""
    start = Conversation(engine, tools=TOOLS, template=Qwen38(), thinking=thinking)
    start.user(prompt)
    start.prefill()
    for seed in range(n):
        c = start.fork()
        try:
            sampling = Sampling(temperature=temperature, seed=seed)
            yield c, c.reply(max_tokens=500, sampling=sampling, output_schema=ANSWER, **options)
        finally:
            c.close()
    start.close()


@pytest.mark.parametrize("thinking", [Thinking(budget=6), Thinking(enabled=False)], ids=["budget", "off"])
def test_every_call_is_valid_and_every_answer_fits(engine: Engine, thinking: Thinking) -> None:
    calls = answers = 0
    names = set()
    for c, reply in replies(engine, 14, thinking, strict=True):
        cut = "\N{REPLACEMENT CHARACTER}" in reply.reasoning  # a character is completed before reasoning is closed
        assert c.usage.turns[-1].reasoning <= (9 if cut else 6)
        ends = c.tokens[c.turns[-1].prompt_end :].count(engine.vocab.token_id("</think>"))
        assert ends == thinking.enabled or (ends == 0 and reply.calls), "a call may end the reasoning"
        if reply.finish == "end" and not reply.calls:
            assert reply.content in ("true", "false")
            answers += 1
        for call in reply.calls:
            assert call.status == "ok" or (reply.finish == "length" and call is reply.calls[-1]), call.error
            if call.status == "ok":
                calls += 1
                names.add(call.name)
                validate_arguments(call.arguments, BY_NAME[call.name])
        if reply.finish == "end":
            assert c.first_difference() is None or thinking.enabled
    assert calls >= 5
    assert answers >= 2
    assert len(names) >= 2


def test_without_it_the_same_model_calls_nothing_that_is_valid(engine: Engine) -> None:
    found = [call.status for _, reply in replies(engine, 12, Thinking(budget=6)) for call in reply.calls]
    assert len(found) >= 3
    assert "ok" not in found


@pytest.mark.parametrize("budget", [0, 9])
def test_drafts_change_nothing(sense_less: Path, budget: int) -> None:
    texts: list[list[tuple[int, ...]]] = []
    drafted = 0
    for drafters in ((), ("suffix", "mtp")):
        with Engine.load(sense_less, n_ctx=4096, sequences=2, threads=1, drafters=drafters) as engine:
            found = []
            for prompt in ("One.", "Two?", "Three!"):
                for c, _ in replies(engine, 1, Thinking(budget=budget), 0.0, prompt, strict=True):
                    found.append(c.tokens)
                    drafted += sum(c.sequence.stats.drafted.values())
            texts.append(found)
    assert texts[0] == texts[1]
    assert drafted > 0


def test_some_are_strict_and_some_are_not(engine: Engine) -> None:
    seen = set()
    for _, reply in replies(engine, 8, Thinking(enabled=False), strict={"mode", "stop"}):
        for call in reply.calls:
            assert call.name in BY_NAME or call.status == "incomplete"
            if call.name in ("mode", "stop"):
                assert call.status in ("ok", "incomplete")
            seen.add(call.name)
    assert seen & {"mode", "stop"}


def test_a_template_without_a_grammar_says_so(engine: Engine) -> None:
    plain = Conversation(ScriptedEngine([]), tools=TOOLS, template=PLAIN)
    plain.user("Go.")
    with pytest.raises(TemplateError, match="cannot be strict"):
        plain.reply(strict=True)
    assert plain.pending, "the message waits"
    c = Conversation(engine, template=Qwen38())
    c.user("Go.")
    with pytest.raises(ConstraintError, match="does not compile"):
        c.reply(output_schema={"type": "no such type"})
    assert c.reply(max_tokens=5, strict=True).finish in ("length", "end"), (
        "without tools there is nothing to be strict on"
    )
    c.close()


# -- agents


class Order(BaseModel):
    item: str = Field(max_length=8)
    count: int = Field(ge=1, le=99)
    size: Literal["small", "large"]
    gift: bool | None


@pytest.mark.parametrize(
    "kind", [Order, bool, int, list[bool], Order | list[bool], Literal["yes", "no"]], ids=lambda k: str(k)[-20:]
)
def test_a_typed_answer_of_a_model_without_sense(engine: Engine, kind: Any) -> None:
    agent: Agent[None, Any] = Agent(
        engine,
        output_type=kind,
        template=Qwen38(),
        thinking=Thinking(budget=4),
        sampling=Sampling(temperature=1.0, seed=1),
        max_tokens=600,
        retries=0,
    )
    result = agent.run_sync("What?")
    if result.finish_reason == "end":
        assert agent._output is not None
        Draft202012Validator(agent._output.schema).validate(
            agent._output._adapter.dump_python(result.output, mode="json")
        )
    result.conversation.close()


def test_an_agent_of_strict_tools_runs_them(engine: Engine) -> None:
    ran: list[tuple[str, object]] = []

    @tool(strict=True)
    def turn(direction: Literal["left", "right"], steps: Annotated[int, Field(ge=0, le=9)]) -> str:
        """Turn."""
        ran.append((direction, steps))
        return "Done."

    @tool(strict=True)
    def halt() -> str:
        """Halt."""
        ran.append(("halt", None))
        return "Halted."

    for strict in (False, True):
        for seed in range(4):
            agent: Agent[None, Any] = Agent(
                engine,
                tools=[turn, halt],
                output_type=bool,
                strict=strict,
                template=Qwen38(),
                thinking=False,
                sampling=Sampling(temperature=3.0, seed=seed),
                limits=UsageLimits(request_limit=3),
                retries=0,
            )
            events: list[Any] = []
            try:
                agent.run_sync("Go.", on_event=events.append).conversation.close()
            except UsageLimitExceeded as error:
                if error.conversation is not None:
                    error.conversation.close()
            started = [event for event in events if isinstance(event, ToolStarted)]
            assert all(event.name in ("turn", "halt") for event in started)
    assert ran


def test_strict_tools_of_another_template_are_only_validated() -> None:
    strict = Tool(lambda: "fine", name="look", description="Look.", strict=True)
    agent: Agent[None, str] = Agent(ScriptedEngine([say("Hello.").direct]), tools=[strict], template=PLAIN)
    assert agent.run_sync("Hi").output == "Hello."
    agent = Agent(ScriptedEngine([say("Hello.").direct]), tools=[strict], template=PLAIN, strict=True)
    with pytest.raises(TemplateError, match="cannot be strict"):
        agent.run_sync("Hi")


def test_a_schema_that_no_grammar_holds_is_only_validated(caplog: pytest.LogCaptureFixture) -> None:
    looking = Annotated[str, WithJsonSchema({"type": "string", "pattern": "^(?=look)"})]
    agent: Agent[None, Any] = Agent(ScriptedEngine([think("Hm.") + say('"look"')]), output_type=looking)
    with caplog.at_level(logging.WARNING):
        assert agent.run_sync("Go.").output == "look"
    assert "not held to their schema" in caplog.text


def test_one_schema_that_no_grammar_holds_leaves_the_others_strict(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = schema("odd", {"x": {"type": "object", "$ref": "https://example.com/no.json"}})
    c = Conversation(engine, tools=[*TOOLS, elsewhere], template=Qwen38())
    c.user("Go.")
    with caplog.at_level(logging.WARNING):
        held = constraints_for(c, True, None)
        assert constraints_for(c, {"mode"}, None) is not None
    assert "schemas of odd;" in caplog.text
    assert held is not None
    for text, good in (
        ("mode>\n<parameter=mode>\nslow", True),
        ("odd>\n<parameter=x>\nany", True),
        ("stop>\n<p", False),
    ):
        state = held._calls.constraint()  # type: ignore[union-attr]
        assert all(map(state.accept, engine.vocab.encode(f"\n<function={text}"))) is good
    c.close()


def test_a_script_is_written_as_it_is_unless_it_is_constrained() -> None:
    text = think("Hm.") + say("Well, true.")
    free = Conversation(ScriptedEngine([text]), tools=TOOLS)
    free.user("Go.")
    assert free.reply(output_schema=ANSWER).content == "Well, true."
    engine = ScriptedEngine([text])
    engine.constrains = True
    held = Conversation(engine, tools=TOOLS)
    held.user("Go.")
    assert held.reply(output_schema=ANSWER).content == "true"


def test_a_constraint_that_is_overruled_lets_go() -> None:
    vocab = ByteVocab()
    text = Qwen38().call_grammar(TOOLS)
    held = ReplyConstraints(vocab, Grammar(text, vocab), None, "<tool_call>", in_content=True)
    assert held.allowed() is None
    opener = vocab.token_id("<tool_call>")
    assert opener is not None
    held.accept(opener, "call")
    mask = held.allowed()
    assert mask is not None
    assert mask.sum() == 1
    assert held.hold_calls
    held.accept(ord("x"), "call")
    assert held.allowed() is None
    assert not held.hold_calls


# -- the embedded model


@pytest.fixture(scope="module")
def embedded() -> Iterator[Engine]:
    with Engine.load(n_ctx=8192, threads=1) as loaded:
        yield loaded


def test_the_embedded_model_calls_as_before(embedded: Engine) -> None:
    texts = []
    for strict in (False, True):
        agent: Agent[None, str] = Agent(embedded, tools=[calculator, get_weather], strict=strict)
        result = agent.run_sync("What is 17 plus 25?")
        assert result.usage.tool_calls == 1
        assert "42" in result.output
        texts.append(result.conversation.text)
        result.conversation.close()
    assert texts[0] == texts[1], "a good call is what the grammar allows"


def test_the_embedded_model_answers_in_a_type(embedded: Engine) -> None:
    agent: Agent[None, Any] = Agent(embedded, tools=[calculator], output_type=int, strict=True, max_tokens=400)
    result = agent.run_sync("What is 17 plus 25?")
    assert result.finish_reason == "end"
    assert isinstance(result.output, int)
    result.conversation.close()
