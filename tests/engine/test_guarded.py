"""Steering that answers what the engine cannot use: a typed error, and a sequence that goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from agentloop.conversation import Conversation
from agentloop.engine import Engine
from agentloop.engine.guarded import guarded
from agentloop.engine.scripted import ScriptedEngine
from agentloop.engine.seam import EngineLike, Force, Sampling, Stop
from agentloop.exceptions import EngineError, SteeringError
from agentloop.testing import say


class Junk:
    """Says what it is told to say."""

    def __init__(self, **answers: Any) -> None:
        self._answers = answers
        self.watched = answers.get("watched")

    def accept(self, _: object) -> Any:
        return self._answers.get("accept")

    def allowed(self) -> Any:
        return self._answers.get("allowed")

    def room(self) -> Any:
        return self._answers.get("room")


BAD: dict[str, tuple[Callable[[int], dict[str, Any]], str]] = {
    "text": (lambda n: {"accept": "stop"}, "must return None, a Stop or a Force, not an object of type str"),
    "a flag": (lambda n: {"accept": True}, "must return None, a Stop or a Force"),
    "ids beyond": (lambda n: {"accept": Force((1, n), "why")}, r"Force.ids must be token ids below \d+, not \(1, "),
    "ids below": (lambda n: {"accept": Force((-1,), "why")}, "Force.ids must be token ids"),
    "ids as text": (lambda n: {"accept": Force("abc", "why")}, "Force.ids must be token ids"),  # type: ignore[arg-type]
    "a short mask": (lambda n: {"allowed": np.ones(n - 1, np.bool_)}, r"an array bool \[\d+\], not bool \[\d+\]"),
    "a long mask": (lambda n: {"allowed": np.ones(n + 1, np.bool_)}, "must return None or an array bool"),
    "a flat mask": (lambda n: {"allowed": np.ones((1, n), np.bool_)}, r"not bool \[1, \d+\]"),
    "numbers as a mask": (lambda n: {"allowed": np.ones(n, np.int64)}, "not int64"),
    "a list as a mask": (lambda n: {"allowed": [True] * n}, "not an object of type list"),
    "an empty mask": (lambda n: {"allowed": np.zeros(n, np.bool_)}, "allows no token"),
    "watching nothing there is": (lambda n: {"watched": n}, "steering.watched must be None or a token id"),
}


@pytest.fixture(scope="module")
def real() -> Iterator[Engine]:
    with Engine.load(n_ctx=512, drafters=("suffix",)) as engine:
        yield engine


def engines(real: Engine) -> list[EngineLike]:
    return [real, ScriptedEngine(["abcdefgh"] * 3)]


@pytest.mark.parametrize("name", BAD)
def test_it_is_named_and_the_sequence_goes_on(real: Engine, name: str) -> None:
    make, says = BAD[name]
    for engine in engines(real):
        if name.startswith("watching") and isinstance(engine, ScriptedEngine):
            continue  # a script has no logits to watch
        sequence = engine.sequence()
        sequence.extend(engine.vocab.encode("The tests"))
        before = sequence.tokens
        steering: Any = Junk(**make(engine.vocab.n_tokens))
        with pytest.raises(SteeringError, match=says) as caught:
            list(sequence.generate(4, Sampling(), steering))
        assert isinstance(caught.value, EngineError)
        assert sequence.tokens[: len(before)] == before
        assert len(sequence.tokens) <= len(before) + 1
        assert len(list(sequence.generate(3))) == 3
        sequence.close()


def test_rooms_below_nothing_are_refused_where_drafts_are_made(real: Engine) -> None:
    sequence = real.sequence()
    sequence.extend(real.vocab.encode("a b c a b c a b c"))
    steering: Any = Junk(room=-1)
    with pytest.raises(SteeringError, match="must return None or a number >= 0, not -1"):
        list(sequence.generate(8, Sampling(), steering))
    assert list(sequence.generate(2))
    sequence.close()


@pytest.mark.parametrize("missing", ["accept", "allowed", "room"])
def test_what_has_not_all_methods_is_refused_at_once(real: Engine, missing: str) -> None:
    class Partial:
        pass

    for name in {"accept", "allowed", "room"} - {missing}:
        setattr(Partial, name, lambda *_: None)
    partial: Any = Partial()
    for engine in engines(real):
        with pytest.raises(SteeringError, match=f"type Partial has no {missing}"):
            engine.sequence().generate(4, Sampling(), partial)


def test_good_answers_pass() -> None:
    mask = np.zeros(10, np.bool_)
    mask[3] = True
    for answer in (None, Stop("done"), Force((1, 2), "why"), Force([np.int64(3)], "why")):  # type: ignore[arg-type]
        good = guarded(Junk(accept=answer, allowed=mask, room=np.int64(4), watched=9), 10)
        assert good is not None
        assert good.accept(None) is answer  # type: ignore[arg-type]
        assert good.allowed() is mask
        assert (good.room(), good.watched) == (4, 9)
        assert guarded(good, 10) is good
    assert guarded(None, 10) is None


def test_a_conversation_of_its_sequence_can_go_on() -> None:
    conversation = Conversation(ScriptedEngine([say("One."), say("Two.")]))
    conversation.user("Go.")
    conversation.reply()
    steering: Any = Junk(accept=5)
    with pytest.raises(SteeringError):
        list(conversation.sequence.fork().generate(3, Sampling(), steering))
    assert conversation.first_difference() is None
