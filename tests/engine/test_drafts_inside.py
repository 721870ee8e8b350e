"""What happens inside an accepted draft: end tokens, penalties, room and limits count token by token, and the model's
own head keeps the state that a cold one would have."""

from __future__ import annotations

import time
from collections.abc import Sequence as SequenceOf
from typing import Any

import numpy as np
import pytest

from agentloop.engine import Engine, Sampling, Token
from agentloop.engine.drafters import Draft
from agentloop.engine.drafters.mtp import MtpDrafter
from agentloop.engine.sampling import Sampler
from agentloop.engine.speculation import Speculator
from tests.engine.exactness import TOLERANCE, Cold, check_counts
from tests.engine.test_speculation import PROMPT, Oracle, eager, plain

START = 50


def prompt(seed: int) -> list[int]:
    ids: list[int] = np.random.default_rng(seed).integers(0, 256, START).tolist()
    return ids


class Noting(Oracle):
    """An oracle that notes how much it was asked for."""

    def __init__(self, future: SequenceOf[int], depth: int) -> None:
        super().__init__(future, START, depth)
        self.asked: list[int] = []

    def propose(self, tokens: SequenceOf[int], k: int) -> Draft:
        self.asked.append(k)
        return super().propose(tokens, k)


class Steered:
    """Allows what `only` says at a position of the generation, and has room for `most` drafted tokens."""

    def __init__(self, n_vocab: int, only: dict[int, int] | None = None, most: int | None = None) -> None:
        self.n_vocab, self.only, self.most, self.at = n_vocab, only or {}, most, 0

    def allowed(self) -> np.ndarray[Any, Any] | None:
        if self.at not in self.only:
            return None
        mask = np.zeros(self.n_vocab, bool)
        mask[self.only[self.at]] = True
        return mask

    def room(self) -> int | None:
        return self.most

    def accept(self, token: Token) -> None:
        self.at += 1


@pytest.mark.parametrize("at", [0, 3, 6, 7])
def test_an_end_token_inside_a_draft_ends_it(hybrid: Engine, at: int) -> None:
    cold, end = Cold(hybrid), min(hybrid.vocab.eog)
    sequence = hybrid.sequence()
    sequence._drafters = []
    sequence.extend(prompt(21))
    text = [t.id for t in plain(sequence).generate(20)]
    eager(hybrid, 8)
    twin = plain(sequence)
    twin._drafters = [Oracle([*text[:at], end, *text[at + 1 :]], START, 8)]
    generation = twin.generate(20, steering=Steered(hybrid.vocab.n_tokens, {at: end}))
    assert [t.id for t in generation] == [*text[:at], end]
    assert generation.finish_reason == "end"
    assert list(twin.tokens[START:]) == [*text[:at], end]
    check_counts(twin)
    assert cold.distance(twin) <= TOLERANCE["qwen35"]
    for s in (sequence, twin):
        s.close()
    cold.close()


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_penalties_count_the_accepted_tokens_of_a_draft(hybrid: Engine, temperature: float) -> None:
    sampling = Sampling(
        temperature=temperature, seed=4, repetition_penalty=1.7, presence_penalty=0.9, frequency_penalty=0.4
    )
    sequence = hybrid.sequence()
    sequence._drafters = []
    sequence.extend(prompt(22))
    expected = [t.id for t in plain(sequence).generate(40, sampling)]
    unlike = [t.id for t in plain(sequence).generate(40, Sampling(temperature=temperature, seed=4))]
    assert expected != unlike
    eager(hybrid, 8)
    twin = plain(sequence)
    twin._drafters = [Oracle(expected, START, 8)]
    assert [t.id for t in twin.generate(40, sampling)] == expected
    assert twin.stats.accepted["oracle"] > 30
    for s in (sequence, twin):
        s.close()


@pytest.mark.parametrize("most", [0, 1, 3])
def test_no_draft_is_longer_than_steering_has_room_for(hybrid: Engine, most: int) -> None:
    sequence = hybrid.sequence()
    sequence._drafters = []
    sequence.extend(prompt(23))
    expected = [t.id for t in plain(sequence).generate(20)]
    eager(hybrid, 8)
    twin = plain(sequence)
    drafter = Noting(expected, 8)
    twin._drafters = [drafter]
    assert [t.id for t in twin.generate(20, steering=Steered(hybrid.vocab.n_tokens, most=most))] == expected
    assert max(drafter.asked, default=0) == most
    for s in (sequence, twin):
        s.close()


def test_no_step_gives_more_tokens_than_are_left(hybrid: Engine) -> None:
    sequence = hybrid.sequence()
    sequence._drafters = []
    sequence.extend(prompt(24))
    expected = [t.id for t in plain(sequence).generate(30)]
    eager(hybrid, 8)
    twin = plain(sequence)
    twin._drafters = [Oracle(expected, START, 8)]
    speculator = Speculator(twin, Sampler(Sampling()), None)
    for left in (1, 2, 5, 1, 9):
        tokens, _ = speculator.step(left)
        assert 1 <= len(tokens) <= left
    for s in (sequence, twin):
        s.close()


def test_drafters_see_the_rows_that_stay_and_no_others(hybrid: Engine) -> None:
    class Seeing(Oracle):
        seen: list[int]

        def observe(self, ctx: Any, ids: SequenceOf[int], start: int, rows: int) -> None:
            assert start == START + len(self.seen)
            self.seen += ids[:rows]

    sequence = hybrid.sequence()
    sequence._drafters = []
    sequence.extend(prompt(26))
    expected = [t.id for t in plain(sequence).generate(40)]
    eager(hybrid, 8)
    twin = plain(sequence)
    drafter = Seeing(expected, START, 8, wrong=5)
    drafter.seen = []
    twin._drafters = [drafter]
    assert [t.id for t in twin.generate(40)] == expected
    assert drafter.seen == expected[:-1]
    for s in (sequence, twin):
        s.close()


def test_the_head_is_fed_each_token_with_the_hidden_row_before_it(hybrid: Engine) -> None:
    sequence = hybrid.sequence()
    drafter = next(d for d in sequence._drafters if d.name == "mtp")
    assert isinstance(drafter, MtpDrafter)
    sequence.extend(prompt(27)[:12])
    with hybrid.lock:
        rows = drafter._factory.rows_of(hybrid.context, 12)
    assert drafter._due_ids == prompt(27)[:12]
    assert not drafter._due_rows[0].any()
    assert np.array_equal(np.stack(drafter._due_rows[1:]), rows[:-1])
    assert np.array_equal(drafter._hidden, rows[-1])
    sequence.close()


def test_the_time_of_a_draft_is_counted_once(hybrid: Engine) -> None:
    class Slow(Oracle):
        def propose(self, tokens: SequenceOf[int], k: int) -> Draft:
            time.sleep(0.01)
            return super().propose(tokens, k)

    sequence = hybrid.sequence()
    sequence._drafters = []
    sequence.extend(prompt(25))
    eager(hybrid, 1)
    sequence._drafters = [Slow([7] * 40, START, 1)]
    before, started = sequence.stats, time.perf_counter()
    list(sequence.generate(12))
    wall, spent = time.perf_counter() - started, sequence.stats - before
    assert spent.draft_s >= 0.1
    assert 0 < spent.decode_s <= wall - spent.draft_s
    sequence.close()


def test_the_heads_state_is_that_of_a_cold_one() -> None:
    """Behind live drafting, right and wrong, the head guesses what it guesses behind one prefill of the same tokens."""
    with Engine.load(n_ctx=2048, sequences=3, drafters="mtp") as engine:
        eager(engine, 3)
        live = engine.sequence()
        live.extend(engine.vocab.encode(PROMPT, special=True))
        same = tried = 0
        for _ in range(12):
            list(live.generate(7))
            cold = engine.sequence()
            cold.extend(live.tokens[:-1])
            cold._tokens.append(live.tokens[-1])
            guesses = []
            for sequence in (live, cold):
                with engine.lock:
                    engine.activate(sequence)
                    guesses.append(sequence._drafters[0].propose(sequence._tokens, 3).ids)
            assert len(guesses[0]) == 3
            tried += 3
            same += sum(a == b for a, b in zip(*guesses, strict=True))
            cold.close()
        assert same >= tried - 2  # a draw between two guesses may fall either way
