"""What a reply may call: nothing, something, or one of some; held while it is written, on the embedded model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentloop import Conversation, Engine, Thinking
from agentloop.conversation.constraining import ToolChoice
from agentloop.tools.samples import calculator, get_weather

SUM = "What is 12 * 7?"
TOOLS = [calculator.schema, get_weather.schema]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load(n_ctx=4096) as engine:
        yield engine


@pytest.fixture(params=[True, False], ids=["thinking", "direct"])
def conversation(engine: Engine, request: pytest.FixtureRequest) -> Iterator[Conversation]:
    talk = Conversation(engine, tools=TOOLS, thinking=Thinking.of(request.param))
    yield talk
    talk.close()


def test_none_calls_nothing(conversation: Conversation) -> None:
    conversation.user(SUM)
    assert conversation.fork().reply().calls, "left alone, it calls"
    reply = conversation.reply(tool_choice="none", max_tokens=60)
    assert reply.calls == ()
    opener = conversation.engine.vocab.token_id("<tool_call>")
    turn = conversation.turns[-1]
    assert opener not in conversation.tokens[turn.prompt_end : turn.end]


@pytest.mark.parametrize("said", ["Hello!", SUM])
def test_required_calls(conversation: Conversation, said: str) -> None:
    conversation.user(said)
    reply = conversation.reply(tool_choice="required", max_tokens=200)
    assert reply.calls
    assert all(call.name in ("calculator", "get_weather") for call in reply.calls)
    assert all(call.status in ("ok", "incomplete") for call in reply.calls), "the form is held"
    assert reply.content == ""


def test_names_are_the_only_ones(conversation: Conversation) -> None:
    conversation.user(SUM)
    reply = conversation.reply(tool_choice=["get_weather"], strict=True, max_tokens=120)
    assert {call.name for call in reply.calls} == {"get_weather"}
    assert reply.calls[0].status in ("ok", "incomplete")


def test_some_may_be_called_and_none_must(engine: Engine) -> None:
    conversation = Conversation(engine, tools=TOOLS)
    conversation.user(SUM)
    reply = conversation.reply(tool_choice=ToolChoice(names=frozenset({"get_weather"})), max_tokens=120)
    assert all(call.name == "get_weather" for call in reply.calls)
    conversation.close()


def test_a_choice_that_cannot_be(engine: Engine) -> None:
    conversation = Conversation(engine, tools=[calculator.schema])
    conversation.user("Hello!")
    with pytest.raises(ValueError, match="names 'fly'; the model knows: calculator"):
        conversation.reply(tool_choice=["fly"])
    with pytest.raises(ValueError, match="must be 'auto', 'none', 'required' or names"):
        conversation.reply(tool_choice="always")
    bare = Conversation(engine)
    bare.user("Hello!")
    with pytest.raises(ValueError, match="a call is required"):
        bare.reply(tool_choice="required")
    assert len(conversation.pending) == len(bare.pending) == 1, "nothing was decoded"
    assert ToolChoice.of("auto") == ToolChoice.of(ToolChoice()) == ToolChoice()
    conversation.close()
    bare.close()
