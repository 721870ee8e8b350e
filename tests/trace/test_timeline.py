"""What a conversation records of its turns, steps and tools, through save, load, rewind, fork and compaction."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentloop.agent import Agent
from agentloop.conversation import Conversation
from agentloop.conversation.timeline import JOINED, Timeline
from agentloop.engine import Engine
from agentloop.engine.seam import CancelToken
from agentloop.exceptions import ClosedError, RunCancelled, SnapshotError, ToolFailed
from agentloop.testing import ScriptedEngine, call, say, think
from agentloop.tools import Tool, tool
from tests.agent_tools import add, failing, wait
from tests.engine.test_speculation import Eager


@pytest.fixture(scope="module")
def embedded() -> Iterator[Engine]:
    with Engine.load(n_ctx=2048, threads=1) as engine:
        engine._calibrated = True
        engine.policy = Eager(8)  # always drafts, whatever this machine measures
        yield engine


def of_kind(conversation: Conversation, kind: str) -> list[dict[str, Any]]:
    return [entry for entry in conversation.timeline.entries if entry["kind"] == kind]


def reply_text(entry: dict[str, Any]) -> str:
    return "".join(step[4] for step in entry["steps"])


def check_turns(conversation: Conversation) -> None:
    """The texts of the entries are the tokens, and the counts are those of the turns."""
    vocab = conversation.engine.vocab
    entries = [entry for entry in of_kind(conversation, "turn") if entry["turn"] is not None]
    assert [entry["turn"] for entry in entries] == list(range(len(conversation.turns)))
    for entry, turn in zip(entries, conversation.turns, strict=True):
        usage = turn.usage
        made = vocab.decode(conversation.tokens[turn.prompt_end : turn.end]).decode("utf-8", "replace")
        assert reply_text(entry) == made
        assert sum(step[2] for step in entry["steps"]) == turn.end - turn.prompt_end == usage.generated
        new = conversation.tokens[turn.prompt_end - usage.new : turn.prompt_end]
        assert entry["prompt"] == vocab.decode(new).decode("utf-8", "replace")
        drafts = [step for step in entry["steps"] if len(step) > 5]
        assert sum(step[6] for step in drafts) == sum(usage.drafted.values())
        assert sum(step[7] for step in drafts) == sum(usage.accepted.values())
        assert all(step[9] <= len(step[4]) for step in drafts)
        assert sum(step[8] for step in drafts) == pytest.approx(usage.draft_s, abs=1e-4)
        ends = [entry["prefill_s"], *(round(step[0] + step[1], 6) for step in entry["steps"])]
        assert ends == sorted(ends)


def test_the_embedded_model(embedded: Engine, tmp_path: Path) -> None:
    from agentloop.tools.samples import calculator

    agent = Agent(embedded, tools=[calculator])
    result = agent.run_sync("What is 12 * 7?")
    conversation = result.conversation
    check_turns(conversation)
    assert any(len(step) > 5 and step[7] for entry in of_kind(conversation, "turn") for step in entry["steps"])
    (ran,) = of_kind(conversation, "tool")
    assert (ran["name"], ran["id"], ran["outcome"]) == ("calculator", "call_0", "ok")
    first, second = of_kind(conversation, "turn")
    assert first["at"] < ran["at"] < second["at"]

    path = tmp_path / "c.json"
    conversation.save(path)
    loaded = Conversation.load(path, embedded)
    assert loaded.timeline.entries[:-1] == conversation.timeline.entries
    assert loaded.timeline.entries[-1]["what"] == "loaded"
    loaded.user("And 3 + 4?")
    loaded.reply(max_tokens=8)
    check_turns(loaded)
    loaded.close()
    conversation.close()


def test_characters_of_many_tokens() -> None:
    text = "naïve → 漢字 🙂 end"  # a token of the scripted engine is one byte
    conversation = Conversation(ScriptedEngine([text * 3]), thinking=False)
    conversation.user("?")
    conversation.reply()
    (entry,) = of_kind(conversation, "turn")
    assert reply_text(entry).startswith(text * 3)
    assert "\ufffd" not in reply_text(entry)
    assert len(entry["steps"]) > len(text.encode()) * 3 // JOINED
    assert max(step[2] for step in entry["steps"]) == JOINED


def test_phases() -> None:
    engine = ScriptedEngine([think("Hm.") + say("Well.") + call("add", a=1, b=2), say("3")])
    conversation = Agent(engine, tools=[add]).run_sync("?").conversation
    entry = of_kind(conversation, "turn")[0]
    texts = {
        phase: "".join(s[4] for s in entry["steps"] if s[3] == phase) for phase in ("reasoning", "content", "call")
    }
    assert texts["reasoning"].endswith("</think>")
    assert "Well." in texts["content"]
    assert texts["call"].lstrip().startswith("<tool_call>")
    assert texts["call"].rstrip().endswith("</tool_call>")


def test_tools_that_fail_wait_and_are_cancelled() -> None:
    cancel = CancelToken()

    @tool
    def stop() -> str:
        """Cancel the run."""
        cancel.cancel()
        return "stopped"

    slow = Tool(wait.function, name="slow", timeout=0.05)
    calls = call("fail") + call("slow", seconds=9, name="x") + call("none")
    engine = ScriptedEngine([calls, call("stop") + call("wait", seconds=9, name="x")])
    agent = Agent(engine, tools=[failing(ToolFailed("no")), slow, wait, stop])
    with pytest.raises(RunCancelled) as caught:
        agent.run_sync("?", cancel=cancel)
    ran = {entry["name"]: entry for entry in of_kind(caught.value.conversation, "tool")}
    ran.pop("stop")  # its own cancel may reach it before its result does
    assert {name: entry["outcome"] for name, entry in ran.items()} == {
        "fail": "failed",
        "slow": "timeout",
        "none": "retry",
        "wait": "cancelled",
    }
    assert ran["slow"]["seconds"] >= 0.05
    assert ran["none"]["seconds"] == 0


def test_what_is_taken_back_is_forgotten(tmp_path: Path) -> None:
    conversation = Conversation(ScriptedEngine([say("one"), say("s3cret"), say("three")]))
    for question in ("first", "tell s3cret", "third"):
        conversation.user(question)
        conversation.reply()
        if question != "first":
            conversation.rewind(-1)
    first, second, third = of_kind(conversation, "turn")
    assert "gone" not in first
    assert (second["gone"], second["turn"], second["prompt"]) == ("rewound", None, None)
    assert second["generated"] > 0
    assert {step[4] for step in second["steps"]} == {None}
    assert third["gone"] == "rewound"
    assert [mark["what"] for mark in of_kind(conversation, "mark")] == ["rewound", "rewound"]
    conversation.save(tmp_path / "c.json", state=False)
    assert "s3cret" not in (tmp_path / "c.json").read_text()
    check_turns(conversation)
    conversation.rewrite([{"role": "user", "content": "new"}])
    assert of_kind(conversation, "turn")[0]["gone"] == "rewritten"


def test_forks_go_on_separately() -> None:
    conversation = Conversation(ScriptedEngine([say("one"), say("two"), say("three")]))
    conversation.user("a")
    conversation.reply()
    fork = conversation.fork()
    fork.user("b")
    fork.reply()
    fork.rewind(0)
    assert [entry["kind"] for entry in conversation.timeline.entries] == ["turn"]
    assert "gone" not in conversation.timeline.entries[0]
    assert [e.get("what", e["kind"]) for e in fork.timeline.entries] == ["turn", "forked", "turn", "rewound"]


def test_a_compaction_keeps_the_texts() -> None:
    conversation = Conversation(ScriptedEngine([say("one " * 50), say("two"), say("three")]))
    for question in ("a " * 200, "b"):
        conversation.user(question)
        conversation.reply()
    conversation.compact(summary="They talked.")
    first, second = of_kind(conversation, "turn")
    assert (first["gone"], second["gone"]) == ("compacted", "compacted")
    assert "one one" in reply_text(first)
    (mark,) = of_kind(conversation, "mark")
    assert mark["before"] > mark["after"] > 0
    conversation.user("c")
    conversation.reply()
    assert of_kind(conversation, "turn")[-1]["turn"] == 0


def test_a_cut_prefill_and_a_failing_reply() -> None:
    cancel = CancelToken()
    cancel.cancel()
    engine = ScriptedEngine([say("x"), RuntimeError("down")])
    conversation = Conversation(engine)
    conversation.user("word " * 500)
    with pytest.raises(Exception, match="cancelled"):
        conversation.reply(cancel=cancel)
    conversation.prefill()
    conversation.reply()
    conversation.user("again")
    with pytest.raises(RuntimeError):
        conversation.reply()
    told = [(entry["finish"], entry["turn"], bool(entry["steps"])) for entry in of_kind(conversation, "turn")]
    assert told[0] == ("cancelled", None, False)
    assert told[1] == ("prefilled", None, False)
    assert told[2] == ("end", 0, True)
    assert told[3][0] == "failed"


def test_a_closed_engine_spells_nothing() -> None:
    """What a turn raises is what ended it, not what the timeline could not write."""
    engine = Engine.load(n_ctx=1024, threads=1)
    conversation = Conversation(engine)
    conversation.user("Hello")
    with pytest.raises(ClosedError, match="before"):
        conversation.reply(on_event=lambda event: engine.close() if event.kind == "prefill_progress" else None)
    (entry,) = of_kind(conversation, "turn")
    assert (entry["finish"], entry["prompt"], entry["steps"]) == ("failed", None, [])


def test_files_without_a_timeline_load(tmp_path: Path) -> None:
    from tests.trace.files import change

    conversation = Conversation(ScriptedEngine([say("one"), say("two")]))
    conversation.user("a")
    conversation.reply()
    path = tmp_path / "c.json"
    conversation.save(path, state=False)
    change(path, lambda body: body.pop("timeline"))
    loaded = Conversation.load(path, ScriptedEngine([say("two")]))
    assert [entry["kind"] for entry in loaded.timeline.entries] == ["mark"]
    loaded.user("b")
    loaded.reply()
    assert of_kind(loaded, "turn")[0]["turn"] == 1
    change(path, lambda body: body.update(timeline={"no": "list"}))
    with pytest.raises(SnapshotError) as caught:
        Conversation.load(path, ScriptedEngine())
    assert caught.value.reason == "altered"


def test_clearing() -> None:
    timeline = Timeline([{"kind": "mark"}])
    other = timeline.copy()
    timeline.clear()
    assert (timeline.entries, len(other.entries)) == ([], 1)
    json.dumps(other.entries)
