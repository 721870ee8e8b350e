"""The reasoning budget and the stop of endless replies, as a conversation applies them (invariant 10)."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentloop.agent import Agent
from agentloop.conversation import Conversation, Thinking
from agentloop.conversation.steering import ReplySteering, budget_for
from agentloop.engine.bytevocab import ByteVocab
from agentloop.engine.seam import Token
from agentloop.events import BudgetForced, Event
from agentloop.exceptions import UnexpectedModelBehavior
from agentloop.limits import UsageLimits
from agentloop.templates import Qwen38
from agentloop.testing import ScriptedEngine, ScriptedReply, call, say, think
from tests.agent_tools import add, check_whole, results
from tests.padded_vocab import PAD, PaddedVocab


def closings(conversation: Conversation) -> list[int]:
    """How many `</think>` tokens each reply holds."""
    end = conversation.engine.vocab.token_id("</think>")
    return [conversation.tokens[t.prompt_end : t.end].count(end) for t in conversation.turns]


@settings(max_examples=80, deadline=None)
@given(
    budget=st.integers(0, 40),
    reasoning=st.text(st.characters(codec="utf-8", exclude_characters="<>"), max_size=60),
    answer=st.sampled_from(["Yes.", "an answer\nof two lines"]),
)
def test_a_turn_has_at_most_the_budget_one_end_and_an_answer(budget: int, reasoning: str, answer: str) -> None:
    engine = ScriptedEngine([think(reasoning) + say(answer)])
    conversation = Conversation(engine, thinking=Thinking(budget=budget))
    conversation.user("Go.")
    reply = conversation.reply()
    assert reply.usage.reasoning <= budget
    assert closings(conversation) == [1]
    assert reply.content == answer
    check_whole(conversation)


@pytest.mark.parametrize("budget", [0, 1, 5, 12])
def test_a_call_behind_the_budget_is_whole(budget: int) -> None:
    engine = ScriptedEngine([think("Long thoughts about it.") + call("add", a=1, b=2), say("3")])
    result = Agent(engine, tools=[add], thinking=Thinking(budget=budget)).run_sync("Go.")
    assert results(result.conversation) == ["3"]
    assert result.output == "3"
    assert closings(result.conversation) == [1, 1]
    assert result.usage.turns[0].reasoning <= budget


def test_the_closing_sentence_is_part_of_the_budget() -> None:
    engine = ScriptedEngine([think("x" * 100) + say("Yes.")])
    events: list[Event] = []
    agent = Agent(engine, thinking=Thinking(budget=30, close="Time to answer."))
    result = agent.run_sync("Go.", on_event=events.append)
    assert result.output == "Yes."
    assert result.reasoning.endswith("Time to answer.")
    assert result.usage.reasoning <= 30
    assert [e.reason for e in events if isinstance(e, BudgetForced)] == ["budget"]
    with pytest.raises(ValueError, match="closing text"):
        Conversation(engine, thinking=Thinking(budget=3, close="Time to answer."))


def test_the_limit_on_reasoning_of_a_run_closes_it() -> None:
    engine = ScriptedEngine([think("x" * 50) + call("add", a=1, b=2), think("y" * 50) + say("3")])
    agent = Agent(engine, tools=[add])
    result = agent.run_sync("Go.", limits=UsageLimits(reasoning_tokens_limit=60))
    assert result.output == "3"
    assert [t.reasoning for t in result.usage.turns] == [51, 9]


def test_reasoning_that_repeats_itself_is_closed() -> None:
    engine = ScriptedEngine([think("Wait, let me check again. " * 100) + say("Yes.")])
    events: list[Event] = []
    result = Agent(engine).run_sync("Go.", on_event=events.append)
    assert result.output == "Yes."
    assert result.usage.reasoning < 400
    assert [e.reason[:5] for e in events if isinstance(e, BudgetForced)] == ["loop:"]
    assert closings(result.conversation) == [1]


def test_a_loop_of_tokens_without_bytes_inside_a_character_is_closed_too() -> None:
    engine = ScriptedEngine([])
    engine.vocab = PaddedVocab()
    end = engine.vocab.encode("</think>Yes.", special=True)
    engine.add(ScriptedReply([*b"Hm", 0xE2, *[PAD] * 3000, *end]))
    conversation = Conversation(engine)
    conversation.user("Go.")
    reply = conversation.reply(max_tokens=3500)
    assert reply.usage.reasoning < 200
    assert reply.content == "Yes."
    assert closings(conversation) == [1]


@pytest.mark.parametrize(
    ("settings", "begins"),
    [
        ({"budget": 0}, "</think>"),
        ({"budget": 1}, "\n</think>\n\n"),  # as the template writes reasoning that is empty
        ({"budget": 2}, "x\n</think>\n\n"),
        ({"budget": 9, "close": "Enough."}, "\nEnough.\n</think>\n\n"),
        ({"budget": 10, "close": "Enough."}, "x\nEnough.\n</think>\n\n"),
    ],
)
def test_a_budget_of_the_closing_text_alone_is_all_of_it(settings: dict[str, Any], begins: str) -> None:
    conversation = Conversation(ScriptedEngine([think("x" * 50) + say("Yes.")]), thinking=Thinking(**settings))
    conversation.user("Go.")
    reply = conversation.reply()
    turn = conversation.turns[0]
    text = conversation.engine.vocab.decode(conversation.tokens[turn.prompt_end : turn.end]).decode()
    assert text.startswith(begins)
    assert reply.content == "Yes."
    assert reply.usage.reasoning == settings["budget"]
    assert closings(conversation) == [1]


def test_each_turn_has_a_budget_of_its_own() -> None:
    engine = ScriptedEngine([think(letter * 50) + say("Yes.") for letter in "xyz"])
    conversation = Conversation(engine, thinking=Thinking(budget=10))
    for _ in range(3):
        conversation.user("Go.")
        assert conversation.reply().content == "Yes."
    assert [turn.usage.reasoning for turn in conversation.turns] == [10] * 3
    assert closings(conversation) == [1] * 3


def test_a_second_end_of_reasoning_cannot_follow_a_forced_one() -> None:
    engine = ScriptedEngine([think("x" * 50) + "</think>" + "Yes.</think>"])
    conversation = Conversation(engine, thinking=Thinking(budget=10))
    conversation.user("Go.")
    assert conversation.reply().content == "Yes."
    assert closings(conversation) == [1]


def test_a_second_end_of_reasoning_is_kept_in_the_tokens_and_no_text() -> None:
    engine = ScriptedEngine([think("Hm.") + say("Yes,</think> indeed.")])
    conversation = Conversation(engine)
    conversation.user("Go.")
    reply = conversation.reply()
    assert reply.content == "Yes, indeed."
    assert reply.reply.repairs == ("second_think_close",)
    assert closings(conversation) == [2]


@pytest.mark.parametrize("gap", [math.log(9), math.log(11), None])
def test_an_end_that_the_model_holds_for_likely_closes_in_the_zone(gap: float | None) -> None:
    vocab, thinking = ByteVocab(), Thinking(budget=64)
    steering = ReplySteering(
        vocab, Qwen38(), [], thinking, emit=lambda _: None, budget=budget_for(thinking, vocab), room=1000
    )
    answers = [steering.accept(Token(ord("q"), watched_gap=gap)) for _ in range(60)]
    assert any(answers) == (gap == math.log(9))
    if any(answers):
        assert steering.watched is None  # it was asked for, and the reasoning is closed


@pytest.mark.parametrize("after", [[say("Short.")], [say("again " * 500)] * 9])
def test_an_answer_that_repeats_itself_is_stopped_and_asked_for_again(after: list[Any]) -> None:
    engine = ScriptedEngine([say("Nobody knows it yet. " * 200), *after])
    agent = Agent(engine)
    if len(after) == 1:
        result = agent.run_sync("Go.")
        assert result.output == "Short."
        assert result.conversation.turns[0].finish == "stopped"
        return
    with pytest.raises(UnexpectedModelBehavior, match="repeated") as caught:
        agent.run_sync("Go.")
    assert caught.value.reason == "loop"
    check_whole(caught.value.conversation)


def test_a_budget_leaves_room_for_the_answer() -> None:
    engine = ScriptedEngine([think("x" * 500) + say("A whole answer.")])
    result = Agent(engine, thinking=Thinking(budget=400), max_tokens=100).run_sync("Go.")
    assert result.output == "A whole answer."
    assert result.finish_reason == "end"


@pytest.mark.parametrize("budget", range(1, 32))
def test_a_call_in_open_reasoning_is_not_cut(budget: int) -> None:
    spelled = (
        "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\n2\n</parameter>\n</function>\n"
    )
    engine = ScriptedEngine([f"So.\n{spelled}</tool_call>", say("3")])
    result = Agent(engine, tools=[add], thinking=Thinking(budget=budget)).run_sync("Go.")
    assert results(result.conversation) == ["3"]
    assert result.usage.turns[0].reasoning <= min(budget, 4)
    assert closings(result.conversation)[0] == (1 if budget < 6 else 0)
