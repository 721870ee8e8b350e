"""Shared by the tests of drafters that read a second file."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from agentloop.engine import Engine, Sampling, Sequence, Snapshot, Token
from agentloop.engine.policy import Choice
from tests.engine.exactness import TOLERANCE, Cold, check_counts
from tests.engine.test_speculation import Eager, Oracle, plain


def random_ids(seed: int, size: int) -> list[int]:
    ids: list[int] = np.random.default_rng(seed).integers(0, 256, size).tolist()
    return ids


class InTurn(Eager):
    """Drafts with one drafter after the other, as much as it may, however poor they are."""

    turn = 0

    def choose(self, candidates: Iterable[tuple[str, int, int]]) -> Choice:
        options = list(candidates)
        self.turn += 1
        index = self.turn % max(1, len(options))
        return Choice(index, options[index][2] if options else 0)


class Endless:
    """Steering that lets no end-of-generation token through: random models end their texts anywhere."""

    def __init__(self, engine: Engine) -> None:
        self._mask = np.ones(engine.vocab.n_tokens, bool)
        self._mask[list(engine.vocab.eog)] = False

    def allowed(self) -> np.ndarray[Any, Any]:
        return self._mask

    def room(self) -> None:
        return None

    def accept(self, token: Token) -> None:
        return None


@contextmanager
def load(path: Path, draft: Path, depth: int = 8, **settings: Any) -> Iterator[Engine]:
    options: dict[str, Any] = {"n_ctx": 1024, "sequences": 3, "n_batch": 32, "threads": 1, "draft_max": 12} | settings
    with Engine.load(path, draft_path=draft, **options) as engine:
        engine._calibrated = True
        engine.policy = InTurn(depth)
        yield engine


def drafter_of(sequence: Sequence, name: str) -> Any:
    """The sequence's drafter of that name; fails when it was lost."""
    return next(d for d in sequence._drafters if d.name == name)


def same_text_and_state(engine: Engine, name: str, prompt: list[int], size: int = 60) -> Sequence:
    """Greedy and sampled text equal plain decoding, and the state equals a cold one. Returns the greedy sequence."""
    cold = Cold(engine)
    kept = None
    for sampling in (Sampling(temperature=0.8, top_k=5, seed=3), Sampling()):
        sequence = engine.sequence()
        sequence.extend(prompt)
        base = plain(sequence)
        expected = [t.id for t in base.generate(size, sampling, Endless(engine))]
        assert [t.id for t in sequence.generate(size, sampling, Endless(engine))] == expected
        assert len(expected) == size
        assert sequence.stats.drafted[name] > 0
        assert sequence.stats.recomputed == 0
        drafter_of(sequence, name)
        check_counts(sequence)
        assert cold.distance(sequence) <= TOLERANCE[engine.shape.architecture]
        base.close()
        if kept is not None:
            kept.close()
        kept = sequence
    cold.close()
    assert kept is not None
    return kept


def life(engine: Engine, name: str) -> Iterator[tuple[str, Sequence]]:
    """A sequence through all that can happen to it. Each time it is handed out, one token waits."""

    def mixed(sequence: Sequence, size: int) -> None:
        """Generate with drafts of which some rows are rejected: the truth with every fifth token wrong."""
        base = plain(sequence)
        n = len(sequence)
        future = [t.id for t in base.generate(size, steering=Endless(engine))]
        base.close()
        sequence._drafters.append(Oracle(future, n, 6, wrong=5))
        list(sequence.generate(size, steering=Endless(engine)))
        sequence._drafters = [d for d in sequence._drafters if d.name != "oracle"]

    sequence = engine.sequence()
    sequence.extend(random_ids(1, 70))
    mixed(sequence, 30)
    yield "generated", sequence
    sequence.extend(random_ids(2, 5))
    mixed(sequence, 3)
    yield "extended a little", sequence
    sequence.extend(random_ids(3, 90))
    mixed(sequence, 12)
    yield "extended by several batches", sequence
    for back in (3, 40):
        sequence.truncate(len(sequence) - back)
        mixed(sequence, 9)
        yield f"cut by {back}", sequence
    generation = sequence.generate(20, steering=Endless(engine))
    for _ in range(5):
        next(generation)
    generation.close()
    mixed(sequence, 2)
    yield "left in the middle of a draft", sequence
    child = sequence.fork()
    mixed(child, 7)
    yield "forked", child
    mixed(sequence, 7)
    yield "after its fork went on", sequence
    others = [engine.sequence() for _ in range(3)]
    for other in others:
        other.extend(random_ids(4, 9))
    mixed(child, 4)
    yield "parked and brought back", child
    data = sequence.snapshot().to_bytes()
    restored = engine.restore(Snapshot.from_bytes(data))
    mixed(restored, 4)
    yield "restored", restored
    for other in others:
        other.extend(random_ids(5, 3))
    sequence.truncate(len(sequence) - 1)
    mixed(sequence, 2)
    yield "cut while parked", sequence
    for s in (sequence, child, restored, *others):
        s.close()


def check_cuts(engine: Engine, name: str, rows: Callable[[Any, list[int]], np.ndarray[Any, Any]], bar: float) -> None:
    """Tokens cut away, live and parked, before and after they went into the drafter's state."""
    for asked, parked, back in itertools.product((False, True), (False, True), (1, 2, 5, 12, 35)):
        sequence = engine.sequence()
        for piece in (random_ids(6, 40), random_ids(7, 8), random_ids(8, 4)):
            sequence.extend(piece)
            if asked:
                with engine.lock:
                    rows(drafter_of(sequence, name), [*sequence.tokens, 5])
        tokens = list(sequence.tokens[: len(sequence) - back])
        drafter, slot = drafter_of(sequence, name), sequence._state.slot
        with engine.lock:
            if parked:
                drafter.move(None)
            drafter.rewind(len(tokens))
            if parked:
                drafter.move(slot)
            mine = rows(drafter, [*tokens, 9])
        check_view(engine, name, rows, [*tokens, 9], mine, bar, f"{asked=} {parked=} {back=}")
        sequence.close()


def check_life(engine: Engine, name: str, rows: Callable[[Any, list[int]], np.ndarray[Any, Any]], bar: float) -> None:
    """After each event, the drafter's view equals that of a fresh one that was given the same tokens at once."""
    for event, sequence in life(engine, name):
        check_counts(sequence)
        tokens = list(sequence.tokens)
        assert sequence.n_decoded == len(tokens) - 1
        with engine.lock:
            engine.activate(sequence)
            mine = rows(drafter_of(sequence, name), tokens)
        check_view(engine, name, rows, tokens, mine, bar, event)


def check_view(
    engine: Engine,
    name: str,
    rows: Callable[[Any, list[int]], np.ndarray[Any, Any]],
    tokens: list[int],
    mine: np.ndarray[Any, Any],
    bar: float,
    event: str,
) -> None:
    """`mine` equals what a fresh drafter gives that was told the same tokens at once; the last one waits."""
    fresh = engine.sequence()
    fresh.extend(tokens[:-1])
    with engine.lock:
        engine.activate(fresh)
        truth = rows(drafter_of(fresh, name), tokens)
    fresh.close()
    # A row may be conditioned on the best token of the row before it, which a near tie can change.
    chosen = (mine.argmax(1) == truth.argmax(1)).tolist()
    compared = chosen.index(False) + 1 if False in chosen else len(chosen)
    mine, truth = mine[:compared], truth[:compared]
    finite = np.isfinite(truth)
    assert (finite == np.isfinite(mine)).all()
    difference = np.abs(mine[finite] - truth[finite]).max() / np.ptp(truth[finite])
    assert difference <= bar, f"{event}: off by {difference:.2g} of the range"
