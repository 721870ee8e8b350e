"""The second hybrid family on text that means something: a tiny lfm2, trained as the embedded model is.

`python -m training --family lfm2 --short --tokens 4e6` made tests/data/tiny-lfm2.gguf; tests/data/README.md says more.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentloop import Agent, Conversation, Engine, Thinking
from agentloop.engine import Snapshot
from agentloop.templates import Qwen38
from agentloop.tools.samples import calculator, get_weather
from tests.engine.exactness import TOLERANCE, Cold, check_counts
from tests.engine.test_speculation import Eager, plain

MODEL = Path(__file__).parent / "data" / "tiny-lfm2.gguf"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load(MODEL, n_ctx=8192, drafters=["suffix"], threads=1) as loaded:
        yield loaded


@pytest.fixture
def agent(engine: Engine) -> Agent[None]:
    return Agent(
        engine, tools=[calculator, get_weather], instructions="You are a helpful agent.", thinking=Thinking("low")
    )


def test_the_card_names_this_file() -> None:
    card = (MODEL.parent / "README.md").read_text(encoding="utf-8")
    assert hashlib.sha256(MODEL.read_bytes()).hexdigest() in re.findall(r"[0-9a-f]{64}", card)


def test_it_is_the_second_family(engine: Engine) -> None:
    assert engine.shape.architecture == "lfm2"
    assert engine.shape.recurrent_bytes > 0
    assert engine.chat_template == Qwen38.jinja()


def check(engine: Engine, conversation: Conversation) -> None:
    """A cold sequence fed the tokens agrees with the live one, and nothing was decoded twice."""
    cold = Cold(engine)
    live = conversation.sequence
    check_counts(live)  # type: ignore[arg-type]
    assert cold.distance(live) <= TOLERANCE["lfm2"]  # type: ignore[arg-type]
    cold.close()
    assert sum(turn.recomputed for turn in conversation.usage.turns) == 0
    assert conversation.first_difference() is None


def test_calls_and_answers_are_right(engine: Engine, agent: Agent[None]) -> None:
    first = agent.run_sync("What is 17 plus 25?")
    assert first.output == "17 + 25 = 42."
    check(engine, first.conversation)
    second = agent.run_sync("What is the weather in Oslo and Madrid?", conversation=first.conversation)
    assert second.output == "Oslo: snowy, -2 degrees. Madrid: clear, 26 degrees."
    check(engine, second.conversation)


def test_a_talk_is_saved_and_gone_on_with(engine: Engine, agent: Agent[None], tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    whole = agent.run_sync("What is 17 plus 25?", save_to=path).conversation
    wanted = agent.run_sync("What is 12 * 7?", conversation=whole).output
    loaded = Conversation.load(path, engine)
    decoded = loaded.sequence.stats.evaluated
    assert decoded == 0
    again = agent.run_sync("What is 12 * 7?", conversation=loaded)
    assert again.output == wanted
    assert again.usage.turns[0].recomputed == 0
    check(engine, loaded)


def test_drafts_of_real_text_change_nothing(engine: Engine, agent: Agent[None]) -> None:
    """The suffix drafter finds arguments in the request; what is rejected is rolled back through the ring."""
    conversation = agent.run_sync("What is 17 plus 25?").conversation
    start = conversation.turns[0].prompt_end
    engine._calibrated, kept = True, engine.policy
    engine.policy = Eager(8)
    try:
        sequence = engine.sequence()
        sequence.extend(conversation.tokens[:start])
        base = plain(sequence)
        expected = [t.id for t in base.generate(80)]
        assert [t.id for t in sequence.generate(80)] == expected
        assert 0 < sequence.stats.accepted["suffix"] <= sequence.stats.drafted["suffix"]
        restored = engine.restore(Snapshot.from_bytes(sequence.snapshot().to_bytes()))
        base.extend([97])
        restored.extend([97])
        assert [t.id for t in restored.generate(20)] == [t.id for t in base.generate(20)]
        for one in (sequence, base, restored):
            one.close()
    finally:
        engine.policy = kept
