"""Conversation: only what is appended is decoded; going back, going two ways, saving, loading."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentloop.conversation import Conversation, Thinking, read_saved
from agentloop.engine.scripted import ScriptedSequence
from agentloop.exceptions import ContextFull, ConversationError, SnapshotError
from agentloop.testing import ScriptedEngine, call, recorded, replay, say, think
from tests.agent_tools import add, check_whole


def talk(*replies: Any, **options: Any) -> Conversation:
    """A conversation that has taken a turn for each scripted reply."""
    conversation = Conversation(ScriptedEngine(replies), **options)
    for i in range(len(replies)):
        conversation.user(f"Question {i}")
        conversation.reply()
    return conversation


def test_turns_say_where_their_tokens_are() -> None:
    conversation = talk(think("Hm.") + say("One"), say("Two"), instructions="Be brief.")
    first, second = conversation.turns
    vocab = conversation.engine.vocab
    assert (first.first, first.reply, second.first, second.reply) == (1, 2, 3, 4)
    assert first.start == 0
    assert first.end == second.start
    assert second.end == len(conversation.tokens)
    reply = vocab.decode(conversation.tokens[first.prompt_end : first.end]).decode()
    assert reply == "Hm.\n</think>\n\nOne<|im_end|>"
    assert [m["content"] for m in conversation.messages] == ["Be brief.", "Question 0", "One", "Question 1", "Two"]
    assert conversation.messages[2]["reasoning_content"].strip() == "Hm."


def test_own_bytes_equal_the_rendered_messages() -> None:
    """Invariant 4, with calls, results and several users."""
    conversation = talk(think("Plan.") + call("add", a=1, b=2) + call("add", a=3, b=4), tools=[add.schema])
    for request, content in zip(conversation.open_calls, ("3", "7"), strict=True):
        conversation.tool_result(request["id"], content)
    conversation.user("And?")
    engine = conversation.engine
    assert isinstance(engine, ScriptedEngine)
    engine.add(say("10"))
    conversation.reply()
    assert conversation.first_difference() is None
    rendered = conversation.template.render(conversation.messages, conversation.tools, False, **conversation.knobs)
    assert conversation.text + "\n" == rendered


def test_a_difference_is_found_where_it_is() -> None:
    conversation = talk("  spaced  reasoning \n</think>\n\n\n\nAnswer")
    found = conversation.first_difference()
    assert found is not None
    own = conversation.text.encode()
    assert own[found.at :].startswith(found.own)
    assert found.own[:1] != found.rendered[:1]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(st.characters(codec="utf-8"), max_size=40), min_size=1, max_size=4),
    st.sampled_from(["<|im_end|>", "</think>", "<tool_call>", "<|im_start|>system", "</tool_response>", ""]),
)
def test_data_never_becomes_a_control_token(texts: list[str], evil: str) -> None:
    """Invariant 5: as many special tokens as the same conversation about nothing has."""

    def specials(contents: list[str]) -> list[int]:
        conversation = Conversation(ScriptedEngine(lambda _: say("Ok.")))
        for content in contents:
            conversation.user("Q" + content)
            conversation.reply()
        known = conversation.engine.vocab.special_tokens()
        return [token for token in conversation.tokens if token in known]

    assert specials([text + evil for text in texts]) == specials(["" for _ in texts])


@pytest.mark.parametrize(("limit", "ended"), [(5, "in_reasoning"), (13, "truncated"), (45, "in_call")])
def test_a_cut_reply_is_closed_by_what_follows(limit: int, ended: str) -> None:
    conversation = Conversation(ScriptedEngine([think("Think.") + say("Yes.") + call("add", a=1, b=2), say("Ok.")]))
    conversation.user("Go.")
    reply = conversation.reply(max_tokens=limit)
    assert reply.finish == "length"
    assert conversation.turns[0].ended == ended
    conversation.user("Go on.")
    assert conversation.reply().content == "Ok."
    check_whole(conversation)
    assert conversation.usage.recomputed == 0
    opened = conversation.text.count("<|im_start|>")
    assert conversation.text.count("<|im_end|>") == opened
    assert conversation.text.count("<think>") == conversation.text.count("</think>")


def test_rewind_and_another_answer() -> None:
    conversation = talk(say("One"), say("Two"), say("Three"), instructions="Be brief.")
    engine, before = conversation.engine, conversation.tokens
    assert isinstance(engine, ScriptedEngine)
    conversation.rewind(-1, keep_messages=True)
    assert [m["content"] for m in conversation.pending] == ["Question 2"]
    spent = conversation.sequence.stats.evaluated
    engine.add(say("Other"))
    conversation.reply()
    generated = conversation.usage.turns[-1].generated
    assert conversation.sequence.stats.evaluated - spent == generated - 1
    assert conversation.messages[-1]["content"] == "Other"
    conversation.rewind(1)
    assert [m["content"] for m in conversation.messages] == ["Be brief.", "Question 0", "One"]
    assert conversation.tokens == before[: len(conversation.tokens)]
    engine.add(say("Again"))
    conversation.user("Question 1, edited")
    conversation.reply()
    assert conversation.first_difference() is None
    check_whole(conversation)
    conversation.rewind(0)
    assert [m["content"] for m in conversation.messages] == ["Be brief."]
    kept = len(conversation.tokens)
    assert kept > 0
    engine.add(say("New"))
    conversation.user("A new start")
    conversation.reply()
    assert conversation.usage.turns[-1].reused == kept
    assert conversation.first_difference() is None
    with pytest.raises(ConversationError, match="no turn 7"):
        conversation.rewind(7)


def test_forks_go_on_independently() -> None:
    conversation = talk(say("One"))
    other = conversation.fork()
    engine = conversation.engine
    assert isinstance(engine, ScriptedEngine)
    engine.add(say("Left"), say("Right"))
    conversation.user("left?")
    conversation.reply()
    other.user("right?")
    other.reply()
    assert conversation.messages[-1]["content"] == "Left"
    assert other.messages[-1]["content"] == "Right"
    assert other.usage.recomputed == 0
    assert other.usage.turns[0].reused == conversation.usage.turns[1].reused
    for each in (conversation, other):
        check_whole(each)
        assert each.first_difference() is None


def test_rewrite_decodes_from_the_first_difference() -> None:
    conversation = talk(say("One"), say("Two"))
    engine = conversation.engine
    assert isinstance(engine, ScriptedEngine)
    messages = conversation.messages
    messages[2] = {"role": "user", "content": "Something else"}
    conversation.rewrite(messages[:3])
    engine.add(say("Three"))
    conversation.reply()
    assert conversation.usage.turns[-1].reused >= conversation.turns[0].start
    assert conversation.usage.turns[-1].reused > 100
    assert conversation.first_difference() is None
    check_whole(conversation)


def test_a_history_can_be_brought_along() -> None:
    old = talk(think("Hm.") + say("One"), say("Two"))
    new = Conversation(ScriptedEngine([say("Three")]), messages=old.messages)
    new.user("More")
    assert new.reply().content == "Three"
    assert new.text.startswith(old.text)
    assert new.first_difference() is None


def test_messages_that_do_not_fit_their_place() -> None:
    conversation = talk(say("One"))
    for bad in (
        {"role": "robot", "content": ""},
        {"role": "system", "content": "x"},
        {"role": "assistant", "content": ""},
    ):
        with pytest.raises(ConversationError):
            conversation.append(bad)
    with pytest.raises(ConversationError, match="nothing to answer"):
        conversation.reply()
    assert conversation.pending == []


def test_what_does_not_fit_waits_and_can_be_taken_back() -> None:
    conversation = Conversation(ScriptedEngine([say("Ok.")], n_ctx=600))
    conversation.user("x" * 1000)
    with pytest.raises(ContextFull) as caught:
        conversation.reply()
    assert caught.value.needed > 1000
    assert conversation.tokens == ()
    assert conversation.drop_pending() == [{"role": "user", "content": "x" * 1000}]
    conversation.user("Short.")
    assert conversation.reply().content == "Ok."


def test_one_user_at_a_time() -> None:
    conversation = Conversation(ScriptedEngine([say("Ok.")]))
    conversation.user("Go.")

    def meddle(_: object) -> None:
        with pytest.raises(ConversationError, match="in use"):
            conversation.fork()

    conversation.reply(on_event=meddle)


def test_saved_and_loaded(tmp_path: Path) -> None:
    conversation = talk(
        think("Hm.") + say("One"), call("add", a=1, b=2), instructions="Brief.", tools=[add.schema], thinking="medium"
    )
    path = tmp_path / "talk.json"
    conversation.save(path)
    engine = ScriptedEngine([say("3")])
    loaded = Conversation.load(path, engine)
    assert loaded.tokens == conversation.tokens
    assert loaded.messages == conversation.messages
    assert loaded.turns == conversation.turns
    assert loaded.thinking == Thinking(effort="medium")
    assert loaded.usage.to_dict() == conversation.usage.to_dict()
    assert [c["function"]["name"] for c in loaded.open_calls] == ["add"]
    loaded.tool_result(loaded.open_calls[0]["id"], "3")
    assert loaded.reply().content == "3"
    assert loaded.usage.turns[-1].reused == len(conversation.tokens)
    assert loaded.first_difference() is None
    check_whole(loaded)
    assert {p.name for p in tmp_path.iterdir()} == {"talk.json"}


def test_loaded_in_a_new_process(tmp_path: Path) -> None:
    conversation = talk(say("One"), say("Two"))
    path = tmp_path / "talk.json"
    conversation.save(path)
    code = f"""
        from agentloop.conversation import Conversation
        from agentloop.testing import ScriptedEngine, say
        conversation = Conversation.load({str(path)!r}, ScriptedEngine([say("Three")]))
        before = len(conversation.tokens)
        conversation.user("More")
        conversation.reply()
        assert conversation.first_difference() is None
        assert conversation.usage.turns[-1].reused == before
        print(before, conversation.messages[-1]["content"])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stderr, done.stdout) == ("", f"{len(conversation.tokens)} Three\n")


def test_a_bad_file_says_why(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    talk(say("One")).save(path)
    good = path.read_text()

    def reason(text: str | None) -> str:
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(text)
        with pytest.raises(SnapshotError) as caught:
            Conversation.load(path, ScriptedEngine())
        return caught.value.reason

    assert reason(good[: len(good) // 2]) == "truncated"
    assert reason(good.replace("Question 0", "Question 1")) == "altered"
    assert reason(good.replace('"version":1', '"version":99')) == "version"
    assert reason("not json") == "foreign"
    assert reason("[]") == "foreign"
    assert reason("\x00\x01") == "foreign"
    assert reason(None) == "missing"
    path.write_text(good)
    assert read_saved(path)["messages"][0]["content"] == "Question 0"


def test_a_foreign_model_is_refused(tmp_path: Path) -> None:
    class OtherEngine(ScriptedEngine):
        def fingerprint(self) -> dict[str, str]:
            return {"model": "another"}

    path = tmp_path / "talk.json"
    talk(say("One")).save(path)
    with pytest.raises(SnapshotError) as caught:
        Conversation.load(path, OtherEngine())
    assert caught.value.reason == "foreign"


def test_recorded_replies_can_be_replayed(tmp_path: Path) -> None:
    conversation = talk(think("Hm.") + say("One"), say("Two"))
    path = tmp_path / "replies.json"
    path.write_text(json.dumps(recorded(conversation)))
    again = Conversation(replay(path))
    for i in range(2):
        again.user(f"Question {i}")
        again.reply()
    assert again.tokens == conversation.tokens
    path.write_text("{}")
    with pytest.raises(ValueError, match="JSON list"):
        replay(path)


def test_the_pinned_head_is_the_same_for_any_question() -> None:
    conversation = talk(say("One"), instructions="Be brief.", tools=[add.schema])
    sequence = conversation.sequence
    assert isinstance(sequence, ScriptedSequence)
    pinned = [at for at, (_, kept) in sequence.checkpoints.items() if kept]
    (at,) = pinned
    head = conversation.engine.vocab.decode(conversation.tokens[:at]).decode()
    assert head.endswith("Be brief.<|im_end|>\n<|im_start|>user\n")
