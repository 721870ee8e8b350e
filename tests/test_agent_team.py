"""Agents as tools, forks of a live conversation, the best of many answers; histories in and out."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from agentloop.agent import Agent
from agentloop.conversation import Conversation, from_openai, to_openai
from agentloop.exceptions import InvalidMessage, UnexpectedModelBehavior
from agentloop.limits import Usage
from agentloop.testing import ScriptedEngine, call, say, think
from tests.agent_tools import add, check_whole, results


def test_an_agent_as_a_tool() -> None:
    engine = ScriptedEngine([call("research", task="Who is Ada?"), say("A mathematician."), say("Ada: mathematician.")])
    researcher = Agent(engine, instructions="You look things up.")
    boss = Agent(engine, tools=[researcher.as_tool("research", "Looks things up.")])
    usage = Usage()
    result = boss.run_sync("Tell me of Ada.", usage=usage)
    assert result.output == "Ada: mathematician."
    assert results(result.conversation) == ["A mathematician."]
    assert "You look things up." in engine.prompts[1]
    assert "Who is Ada?<|im_end|>" in engine.prompts[1]
    assert usage.requests == 3


def test_a_sub_agent_on_a_fork_decodes_only_its_task() -> None:
    engine = ScriptedEngine([call("helper", task="Look closer."), say("I saw it."), say("It is there.")])
    helper = Agent(engine)
    boss = Agent(engine, tools=[helper.as_tool("helper", "Helps.", fork=True)], instructions="A long head. " * 50)
    usage = Usage()
    result = boss.run_sync("Where is it?", usage=usage)
    assert result.output == "It is there."
    assert results(result.conversation) == ["I saw it."]
    assert engine.prompts[1].startswith(engine.prompts[0])
    first, sub, last = usage.turns
    said = first.reused + first.new + first.generated
    # Before the tool forked, the scaffold of its result may have been decoded ahead or not: the fork has it or not.
    assert said <= sub.reused <= said + 20
    assert sub.new < 400
    assert last.reused == said
    assert usage.recomputed == 0
    assert "I saw it.<|im_end|>" not in result.conversation.text
    check_whole(result.conversation)


def test_a_failing_sub_agent_is_a_failed_call() -> None:
    def reply(prompt: str) -> Any:
        if "Do it." in prompt.rsplit("<|im_start|>user", 1)[-1]:
            return say("")
        return say("It failed.") if "<tool_response>" in prompt else call("helper", task="Do it.")

    engine = ScriptedEngine(lambda prompt: say("") if "Your reply was empty" in prompt else reply(prompt))
    boss = Agent(engine, tools=[Agent(engine, retries=1).as_tool("helper", "Helps.")])
    result = boss.run_sync("Go.")
    assert result.output == "It failed."
    assert results(result.conversation)[0].startswith("Error: the model gave 2 replies")


def test_best_of_decodes_the_prompt_once() -> None:
    answers = iter(["4", "5", "4"])
    engine = ScriptedEngine(lambda _: say(next(answers)))
    agent = Agent(engine, instructions="Long instructions. " * 30)
    best = anyio.run(agent.best_of, "2 + 2?", 3)
    assert best.output == "4"
    assert sorted(best.scores) == [1.0, 2.0, 2.0]
    paid, *turns = best.usage.turns
    assert [t.new for t in turns] == [0, 0, 0]
    assert paid.generated == 0
    assert best.saved == 2 * paid.new
    assert best.usage.recomputed == 0
    assert len({result.conversation for result in best.results}) == 3


def test_best_of_with_a_score_tools_and_a_conversation() -> None:
    answers = iter(["short", "a longer one", "x"])
    engine = ScriptedEngine([say("Hi.")])
    agent = Agent(engine, tools=[add])
    first = agent.run_sync("Hello")
    engine.add(*(say(text) for text in answers))

    async def length(result: Any) -> float:
        return len(result.output)

    async def main() -> Any:
        return await agent.best_of("Write.", 3, score=length, conversation=first.conversation)

    best = anyio.run(main)
    assert best.output == "a longer one"
    assert len(first.conversation.turns) == 1
    assert first.conversation.pending == []
    with pytest.raises(ValueError, match="n must be"):
        anyio.run(agent.best_of, "x", 0)


def test_best_of_leaves_failures_out() -> None:
    engine = ScriptedEngine([RuntimeError("broken"), say("fine")])
    best = anyio.run(Agent(engine).best_of, "Go.", 2)
    assert best.output == "fine"
    assert len(best.results) == 1
    failing = Agent(ScriptedEngine([say("")] * 4), retries=0)
    with pytest.raises(UnexpectedModelBehavior):
        anyio.run(failing.best_of, "Go.", 2)


def test_a_history_goes_out_and_comes_in() -> None:
    engine = ScriptedEngine([think("I add.") + call("add", a=1, b=2) + call("add", a=3, b=4), say("3 and 7")])
    result = Agent(engine, tools=[add], instructions="Be brief.").run_sync("Go.")
    out = to_openai(result.messages)
    assert json.loads(json.dumps(out)) == out
    assert out[2]["content"] is None
    assert json.loads(out[2]["tool_calls"][0]["function"]["arguments"]) == {"a": 1, "b": 2}
    assert out[2]["reasoning_content"].strip() == "I add."
    back = Conversation(ScriptedEngine([say("Yes.")]), messages=from_openai(out), tools=[add.schema])
    back.user("Sure?")
    assert back.reply().content == "Yes."
    assert back.text.startswith(result.conversation.text)
    assert back.first_difference() is None


def test_a_history_in_other_shapes() -> None:
    read = from_openai(
        [
            {"role": "developer", "content": "One."},
            {"role": "system", "content": [{"type": "text", "text": "Two."}]},
            {"role": "user", "content": [{"type": "text", "text": "Hi "}, {"type": "text", "text": "there"}]},
            {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "add", "arguments": "{}"}}]},
            {"role": "tool", "content": "ok"},
        ]
    )
    assert read[0] == {"role": "system", "content": "One.\n\nTwo."}
    assert read[1] == {"role": "user", "content": "Hi there"}
    assert read[2]["tool_calls"][0]["function"] == {"name": "add", "arguments": {}}
    assert read[2]["tool_calls"][0]["id"]
    with pytest.raises(InvalidMessage, match="no message before it"):
        from_openai([{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "7", "content": "y"}])
    with pytest.raises(InvalidMessage) as caught:
        from_openai(
            [
                {"role": "user", "content": "x"},
                {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[1"}}]},
            ]
        )
    assert caught.value.index == 1
