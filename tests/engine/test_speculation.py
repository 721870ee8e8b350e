"""Drafting changes speed and nothing else: the same text, the same distribution, exact states, no failed turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence as SequenceOf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentloop.engine import Engine, Force, Sampling, Sequence, Stop, Token
from agentloop.engine.drafters import Draft
from agentloop.engine.policy import Policy
from agentloop.engine.sampling import Sampler
from agentloop.engine.speculation import Speculator
from tests.engine.exactness import TOLERANCE, Cold, check_counts

PROMPT = (
    "<|im_start|>user\nFix the failing test in calc.py.<|im_end|>\n<|im_start|>assistant\n<think>\nI read it.\n</think>"
    "\n\n<tool_call>\n<function=read_file>\n<parameter=path>\ncalc.py\n</parameter>\n</function>\n</tool_call><|im_end|>\n"
    "<|im_start|>user\n<tool_response>\ndef add(a, b):\n    return a - b\n\n\ndef square(x):\n    return x * x\n"
    "</tool_response><|im_end|>\n<|im_start|>assistant\n<think>\n"
)


class Oracle:
    """A drafter told what will come, wrong at every `wrong`th position; it drafts `depth` tokens at a time."""

    name = "oracle"

    def __init__(self, future: SequenceOf[int], start: int, depth: int, wrong: int = 0) -> None:
        self.future, self.start, self.depth, self.wrong = list(future), start, depth, wrong

    def peek(self, tokens: SequenceOf[int]) -> int | None:
        return 0

    def propose(self, tokens: SequenceOf[int], k: int) -> Draft:
        at = len(tokens) - self.start
        ids = self.future[at : at + k]
        return Draft([(t + 1) % 256 if self.wrong and (at + i) % self.wrong == 0 else t for i, t in enumerate(ids)])

    def observe(self, ctx: Any, ids: SequenceOf[int], start: int, rows: int) -> None: ...
    def rewind(self, n: int) -> None: ...
    def move(self, slot: int | None) -> None: ...
    def fork(self, slot: int | None) -> Oracle:
        return self

    def save(self) -> bytes:
        return b""

    def load(self, data: bytes, tokens: SequenceOf[int]) -> None: ...


class Eager(Policy):
    """Always drafts as much as it may: any draft is free, whatever the clock says."""

    def __init__(self, depth: int) -> None:
        super().__init__([1.0] * (depth + 1))

    def timed(self, *_: Any, **__: Any) -> None:
        """Real timings would make the width of steps, and so these tests, depend on the machine."""


def eager(engine: Engine, depth: int) -> None:
    engine._calibrated = True
    engine.policy = Eager(depth)


def plain(sequence: Sequence) -> Sequence:
    twin = sequence.fork()
    twin._drafters = []
    return twin


@pytest.mark.parametrize("drafters", ["suffix", "mtp", ("suffix", "mtp")])
def test_greedy_text_is_the_same(drafters: str | tuple[str, ...]) -> None:
    with Engine.load(n_ctx=4096, drafters=drafters, threads=1) as engine:
        eager(engine, 8)
        sequence = engine.sequence()
        sequence.extend(engine.vocab.encode(PROMPT, special=True))
        base = plain(sequence)
        expected = [t.id for t in base.generate(160)]
        got = list(sequence.generate(160))
        assert [t.id for t in got] == expected
        stats = sequence.stats
        assert sum(stats.accepted.values()) > 20
        assert stats.recomputed == 0
        assert sum(t.drafted_by is not None for t in got) == sum(stats.accepted.values())
        check_counts(sequence)


@pytest.mark.parametrize("wrong", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_right_and_wrong_drafts_leave_the_same_text_and_state(engine: Engine, wrong: int, temperature: float) -> None:
    cold, sampling = Cold(engine), Sampling(temperature=temperature, seed=11)
    sequence = engine.sequence()
    sequence._drafters = []
    sequence.extend(np.random.default_rng(1).integers(0, 256, 50).tolist())
    base = plain(sequence)
    expected = [t.id for t in base.generate(60, sampling)]
    for depth in (1, 4, 12):
        eager(engine, depth)
        twin = plain(sequence)
        twin._drafters = [Oracle(expected, 50, depth, wrong)]
        assert [t.id for t in twin.generate(60, sampling)] == expected
        assert twin.stats.accepted["oracle"] > 0 or wrong == 1
        assert cold.distance(twin) <= TOLERANCE[engine.shape.architecture]
        check_counts(twin)
        twin.close()
    for s in (sequence, base):
        s.close()
    cold.close()


def test_steering_inside_a_draft(hybrid: Engine) -> None:
    """A stop, a forced text and an error in the middle of an accepted draft leave tokens and state equal."""
    cold = Cold(hybrid)
    sequence = hybrid.sequence()
    sequence._drafters = []
    sequence.extend(np.random.default_rng(2).integers(0, 256, 50).tolist())
    base = plain(sequence)
    expected = [t.id for t in base.generate(40)]

    class At:
        def __init__(self, at: int, answer: Stop | Force | Exception) -> None:
            self.at, self.answer, self.seen = at, answer, list[int]()

        def allowed(self) -> None:
            return None

        def room(self) -> None:
            return None

        def accept(self, token: Token) -> Stop | Force | None:
            self.seen.append(token.id)
            if len(self.seen) != self.at:
                return None
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

    eager(hybrid, 8)
    for at in range(1, 12):
        for answer in (Stop("there"), Force((1, 2, 3), "so"), ZeroDivisionError()):
            twin = plain(sequence)
            twin._drafters = [Oracle(expected, 50, 8)]
            steering = At(at, answer)
            if isinstance(answer, Exception):
                with pytest.raises(ZeroDivisionError):
                    list(twin.generate(20, steering=steering))
                assert list(twin.tokens[50:]) == expected[:at]
            else:
                got = [t.id for t in twin.generate(20, steering=steering)]
                assert got == steering.seen == list(twin.tokens[50:])
                assert got[:at] == expected[:at]
                if isinstance(answer, Stop):
                    assert len(got) == at
                else:
                    assert got[at : at + 3] == [1, 2, 3]
            check_counts(twin)
            assert cold.distance(twin) <= TOLERANCE["qwen35"]
            twin.close()
    for s in (sequence, base):
        s.close()
    cold.close()


def test_leaving_in_the_middle_of_a_draft_takes_the_rest_back(hybrid: Engine) -> None:
    cold = Cold(hybrid)
    sequence = hybrid.sequence()
    sequence._drafters = []
    sequence.extend(np.random.default_rng(3).integers(0, 256, 50).tolist())
    sequence.checkpoint(label="turn")
    base = plain(sequence)
    expected = [t.id for t in base.generate(30)]
    eager(hybrid, 8)
    for take in range(1, 14):
        twin = plain(sequence)
        twin._drafters = [Oracle(expected, 50, 8)]
        generation = twin.generate(30)
        got = [next(generation).id for _ in range(take)]
        generation.close()
        assert list(twin.tokens[50:]) == got == expected[:take]
        check_counts(twin)
        assert cold.distance(twin) <= TOLERANCE["qwen35"]
        twin.close()
    for s in (sequence, base):
        s.close()
    cold.close()


def test_steering_is_told_how_likely_the_watched_token_was(hybrid: Engine) -> None:
    class Watching:
        watched = 42

        def __init__(self) -> None:
            self.gaps: list[float | None] = []

        def allowed(self) -> None:
            return None

        def room(self) -> None:
            return None

        def accept(self, token: Token) -> None:
            self.gaps.append(token.watched_gap)

    sequence = hybrid.sequence()
    sequence._drafters = []
    sequence.extend(np.random.default_rng(8).integers(0, 256, 50).tolist())
    base, by_hand = plain(sequence), []
    for _ in range(12):
        row = base.logits()
        by_hand.append(float(row.max() - row[42]))
        next(base.generate(1))
    expected = list(base.tokens[50:])
    for drafters in ([], [Oracle(expected, 50, 5)]):
        twin = plain(sequence)
        twin._drafters = list(drafters)
        eager(hybrid, 5)
        watching = Watching()
        list(twin.generate(12, steering=watching))
        np.testing.assert_allclose(np.array(watching.gaps, float), by_hand, atol=2e-2)
        twin.close()
    for s in (sequence, base):
        s.close()


def test_a_mask_holds_inside_a_draft(hybrid: Engine) -> None:
    class Even:
        def allowed(self) -> Any:
            return np.arange(hybrid.vocab.n_tokens) % 2 == 0

        def room(self) -> None:
            return None

        def accept(self, token: Token) -> None:
            return None

    sequence = hybrid.sequence()
    sequence._drafters = []
    sequence.extend(np.random.default_rng(4).integers(0, 256, 50).tolist())
    base = plain(sequence)
    expected = [t.id for t in base.generate(40, steering=Even())]
    eager(hybrid, 6)
    sequence._drafters = [Oracle(expected, 50, 6, wrong=5)]
    assert [t.id for t in sequence.generate(40, steering=Even())] == expected
    assert all(t % 2 == 0 for t in expected)
    sequence.close()
    base.close()


class Broken(Oracle):
    """A drafter that fails in one of its methods, or drafts tokens that do not exist."""

    def __init__(self, where: str) -> None:
        super().__init__([7] * 400, 0, 4)
        self.where = where

    def peek(self, tokens: SequenceOf[int]) -> int | None:
        if self.where == "peek":
            raise RuntimeError("peek")
        return 0

    def propose(self, tokens: SequenceOf[int], k: int) -> Draft:
        if self.where == "propose":
            raise RuntimeError("propose")
        return Draft([10**9, -1] if self.where == "foreign" else [] if self.where == "empty" else [7] * k)

    def observe(self, ctx: Any, ids: SequenceOf[int], start: int, rows: int) -> None:
        if self.where == "observe":
            raise RuntimeError("observe")

    def rewind(self, n: int) -> None:
        if self.where == "rewind":
            raise RuntimeError("rewind")

    def move(self, slot: int | None) -> None:
        if self.where == "move":
            raise RuntimeError("move")


@pytest.mark.parametrize("where", ["peek", "propose", "observe", "rewind", "move", "foreign", "empty", "wrong"])
def test_a_broken_drafter_costs_speed_only(hybrid: Engine, where: str) -> None:
    sequence = hybrid.sequence()
    sequence._drafters = []
    sequence.extend(np.random.default_rng(5).integers(0, 256, 50).tolist())
    base = plain(sequence)
    expected = [t.id for t in base.generate(20)]
    eager(hybrid, 4)
    sequence._drafters = [Broken(where)]  # type: ignore[list-item]
    others = [hybrid.sequence() for _ in range(3)]
    got: list[int] = []
    for token in sequence.generate(20):
        got.append(token.id)
        if len(got) == 10:
            for other in others:
                other.extend([1, 2, 3])  # parks the sequence
    assert got == expected
    sequence.truncate(55)
    check_counts(sequence)
    for s in (sequence, base, *others):
        s.close()


def pairs(engine: Engine, sequence: Sequence, rule: Any, seeds: range) -> Counter[tuple[int, int]]:
    """Two-token continuations, one for each seed."""
    counts: Counter[tuple[int, int]] = Counter()
    n = len(sequence)
    for seed in seeds:
        rule(seed)
        counts[tuple(sequence.tokens[n : n + 2])] += 1  # type: ignore[index]
        sequence.truncate(n)
    return counts


def distance(a: Counter[tuple[int, int]], b: Counter[tuple[int, int]]) -> float:
    """Total variation."""
    keys = a.keys() | b.keys()
    return 0.5 * sum(abs(a[k] / a.total() - b[k] / b.total()) for k in keys)


def test_sampled_distribution_is_the_same(hybrid: Engine) -> None:
    """4,000 seeds of two-token continuations: speculative against plain lies within the noise between two plain halves;
    a rule that accepts every draft, and one that resamples without taking the draft out, lie far outside."""
    sampling = {"temperature": 0.7, "top_k": 8}
    sequence = hybrid.sequence()
    sequence._drafters = []
    prompt = np.random.default_rng(6).integers(0, 256, 40).tolist()
    sequence.extend(prompt[:39])
    sequence.checkpoint(label="turn")  # going back to 40 leaves the last token waiting, so that a draft can begin there
    sequence.extend(prompt[39:])

    def plain_rule(seed: int) -> None:
        list(sequence.generate(2, Sampling(seed=seed, **sampling)))  # type: ignore[arg-type]

    first = pairs(hybrid, sequence, plain_rule, range(4000))
    second = pairs(hybrid, sequence, plain_rule, range(4000, 8000))
    draft = list(first.most_common(2)[1][0])  # a draft that is right now and then

    rng = np.random.default_rng(0)
    pool = np.array([*first.elements(), *second.elements()])
    noise = []
    for _ in range(200):
        chosen = pool[rng.permutation(len(pool))]
        halves = [Counter(map(tuple, half.tolist())) for half in (chosen[:4000], chosen[4000:])]
        noise.append(distance(*halves))  # type: ignore[arg-type]
    bar = float(np.quantile(noise, 0.999))
    assert distance(first, second) <= bar

    eager(hybrid, 2)
    sequence._drafters = [Oracle([*draft, 0], 40, 2)]

    def speculative(seed: int) -> None:
        list(sequence.generate(2, Sampling(seed=seed, **sampling)))  # type: ignore[arg-type]

    drafted = pairs(hybrid, sequence, speculative, range(8000, 12000))
    assert sequence.stats.accepted["oracle"] > 200
    assert distance(first, drafted) <= bar

    def accept_always(seed: int) -> None:
        sequence.extend([draft[0]])
        list(sequence.generate(1, Sampling(seed=seed, **sampling)))  # type: ignore[arg-type]

    def without_residual(seed: int) -> None:
        """Accept with probability p(draft); else draw from p once more, draft included."""
        sampler = Sampler(Sampling(seed=seed, **sampling))  # type: ignore[arg-type]
        row = sequence.logits()
        token = sampler.choose(row, [0] * 40)
        if token != draft[0]:
            token = sampler.choose(row, [0] * 999)
        sequence.extend([token])
        list(sequence.generate(1, Sampling(seed=seed, **sampling)))  # type: ignore[arg-type]

    sequence._drafters = []
    for wrong_rule in (accept_always, without_residual):
        wrong = pairs(hybrid, sequence, wrong_rule, range(12000, 16000))
        assert distance(first, wrong) > bar, wrong_rule.__name__
    sequence.close()


def test_speculator_steps_are_bounded(hybrid: Engine) -> None:
    sequence = hybrid.sequence()
    sequence._drafters = [Oracle([7] * 2000, 0, 12)]
    sequence.extend([1, 2, 3])
    eager(hybrid, 12)
    speculator = Speculator(sequence, Sampler(Sampling()), None)
    for left in (1, 2, 5):
        tokens, _ = speculator.step(left)
        assert 1 <= len(tokens) <= left
    sequence.truncate(0)
    sequence.extend([5] * 1018)
    assert len(list(sequence.generate(100))) <= 6
    assert len(sequence) <= hybrid.n_ctx
    sequence.close()


def test_drafter_state_survives_fork_park_and_snapshot(tmp_path: Path) -> None:
    """MTP goes on accepting after each of them, as before."""
    with Engine.load(n_ctx=4096, sequences=2, drafters="mtp", threads=1) as engine:
        eager(engine, 3)
        sequence = engine.sequence()
        sequence.extend(engine.vocab.encode(PROMPT, special=True))
        snapshot = sequence.snapshot()
        assert len(snapshot.drafters["mtp"]) > 1000
        copies = {"original": sequence, "fork": sequence.fork(), "restored": engine.restore(snapshot)}
        rates = {}
        for name, copy in copies.items():  # three sequences over two slots: each was parked at least once
            list(copy.generate(60))
            rates[name] = copy.stats.accepted["mtp"] / copy.stats.drafted["mtp"]
        assert rates["original"] > 0.55
        assert rates["fork"] == rates["restored"] == rates["original"]
