"""Random programs of everything that can be done to sequences; after each step the state is held against the truth.

AGENTLOOP_STATE_STEPS sets the number of steps a model (default: about 10,000 over the three together).
"""

from __future__ import annotations

import contextlib
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from agentloop.engine import CancelToken, Engine, Force, Sampling, Sequence, Snapshot, Stop, Token
from agentloop.exceptions import ContextFull, DecodeCancelled
from tests.engine.exactness import TOLERANCE, AbortAt, Cold, check_counts

STEPS_PER_PROGRAM = 50
STEPS = int(os.environ.get("AGENTLOOP_STATE_STEPS", "3400"))
LIMIT = 260  # tokens; keeps the cold decodes short


def some_ids(least: int, most: int) -> st.SearchStrategy[list[int]]:
    """Token lists of every length alike; hypothesis' own lists are mostly short, which never fills a batch."""
    return st.builds(
        lambda size, seed: np.random.default_rng(seed).integers(0, 256, size).tolist(),
        st.integers(least, most),
        st.integers(0, 1 << 30),
    )


class Nudge:
    """Steering that stops, forces or raises at a given accepted token."""

    def __init__(self, what: str, at: int, ids: tuple[int, ...]) -> None:
        self.what, self.at, self.ids, self.seen = what, at, ids, 0

    def allowed(self) -> None:
        return None

    def room(self) -> int | None:
        return max(0, self.at - self.seen)

    def accept(self, token: Token) -> Stop | Force | None:
        self.seen += 1
        if self.seen != self.at:
            return None
        if self.what == "raise":
            raise ZeroDivisionError("steering failed")
        return Stop("enough") if self.what == "stop" else Force(self.ids, "told so")


def make_machine(engine: Engine, cold: Cold) -> type[RuleBasedStateMachine]:
    tolerance = TOLERANCE[engine.shape.architecture]

    class Machine(RuleBasedStateMachine):
        alive = Bundle("alive")
        saved = Bundle("saved")

        def __init__(self) -> None:
            super().__init__()
            self.all: list[Sequence] = []
            self.touched: Sequence | None = None

        def add(self, sequence: Sequence) -> Sequence:
            self.all.append(sequence)
            return sequence

        @initialize(target=alive, ids=some_ids(1, 60))
        def begin(self, ids: list[int]) -> Sequence:
            sequence = self.add(engine.sequence())
            sequence.extend(ids)
            self.touched = sequence
            return sequence

        @rule(target=alive, ids=some_ids(0, 40))
        def new(self, ids: list[int]) -> object:
            if len(self.all) >= 5:
                return multiple()
            sequence = self.add(engine.sequence())
            sequence.extend(ids)
            self.touched = sequence
            return sequence

        @rule(sequence=alive, ids=some_ids(0, 50))
        def extend(self, sequence: Sequence, ids: list[int]) -> None:
            if len(sequence) + len(ids) > LIMIT:
                return
            before = sequence.tokens
            sequence.extend(ids)
            assert sequence.tokens == before + tuple(ids)
            assert sequence.n_decoded == len(sequence)
            self.touched = sequence

        @rule(
            sequence=alive,
            n=st.integers(1, 12),
            temperature=st.sampled_from([0.0, 1.0]),
            take=st.integers(0, 12),
            seed=st.integers(0, 5),
        )
        def generate(self, sequence: Sequence, n: int, temperature: float, take: int, seed: int) -> None:
            if not len(sequence) or len(sequence) > LIMIT:
                return
            before = sequence.tokens
            generation = sequence.generate(n, Sampling(temperature=temperature, seed=seed))
            got: list[int] = []
            for token in generation:
                got.append(token.id)
                if len(got) >= take:
                    generation.close()
                    break
            assert sequence.tokens == before + tuple(got)
            self.touched = sequence

        @rule(
            sequence=alive,
            what=st.sampled_from(["stop", "force", "raise"]),
            at=st.integers(1, 6),
            ids=some_ids(1, 40),
        )
        def steer(self, sequence: Sequence, what: str, at: int, ids: list[int]) -> None:
            if not len(sequence) or len(sequence) > LIMIT - 60:
                return
            before = sequence.tokens
            try:
                got = [t.id for t in sequence.generate(8, steering=Nudge(what, at, tuple(ids)))]
                assert sequence.tokens == before + tuple(got)
            except ZeroDivisionError:
                assert what == "raise"
                assert sequence.tokens[: len(before)] == before
            self.touched = sequence

        @rule(sequence=alive, share=st.floats(0, 1), near=st.integers(0, 12))
        def truncate(self, sequence: Sequence, share: float, near: int) -> None:
            size = len(sequence)
            n = max(0, size - near) if near < 12 else int(size * share)
            before = sequence.tokens
            sequence.truncate(n)
            assert sequence.tokens == before[:n]
            self.touched = sequence

        @rule(
            sequence=alive,
            ids=st.one_of(some_ids(1, 9), some_ids(10, 50)),
            made=st.sampled_from([0, 0, 1, 3]),
            back=st.one_of(st.integers(1, 9), st.none()),
            fork=st.booleans(),
        )
        def go_on_and_back(self, sequence: Sequence, ids: list[int], made: int, back: int | None, fork: bool) -> None:
            if len(sequence) > LIMIT:
                return
            sequence.extend(ids)
            for _ in sequence.generate(made):
                pass
            before = sequence.tokens
            # None: just so far that the whole last batch would have to go
            n = max(0, len(before) - (back or len(ids) + made - 1))
            sequence.truncate(n)
            assert sequence.tokens == before[:n]
            if fork and n:
                child = sequence.fork()
                assert cold.distance(child) <= tolerance
                child.close()
            self.touched = sequence

        @rule(sequence=alive, label=st.sampled_from(["", "turn", "tool"]), pinned=st.booleans())
        def checkpoint(self, sequence: Sequence, label: str, pinned: bool) -> None:
            sequence.checkpoint(label=label, pinned=pinned)
            assert sequence.n_decoded == len(sequence)
            self.touched = sequence

        @rule(sequence=alive, share=st.floats(0, 1), near=st.integers(0, 12), ids=some_ids(0, 50))
        def replace_tail(self, sequence: Sequence, share: float, near: int, ids: list[int]) -> None:
            size = len(sequence)
            n = max(0, size - near) if near < 12 else int(size * share)
            if n + len(ids) > LIMIT:
                return
            before = sequence.tokens
            sequence.replace_tail(n, ids)
            assert sequence.tokens == before[:n] + tuple(ids)
            self.touched = sequence

        @rule(sequence=alive, which=st.integers(0, 100))
        def back_to_a_checkpoint(self, sequence: Sequence, which: int) -> None:
            held = sequence.checkpoints
            if held:
                before, n = sequence.tokens, held[which % len(held)].position
                sequence.truncate(n)
                assert sequence.tokens == before[:n]
                self.touched = sequence

        @rule(target=alive, sequence=alive)
        def fork(self, sequence: Sequence) -> object:
            child = sequence.fork()
            assert child.tokens == sequence.tokens
            if len(child):
                assert cold.distance(child) <= tolerance
            if len(self.all) >= 5:
                child.close()
                self.touched = sequence
                return multiple()
            self.touched = self.add(child)
            return child

        @rule(target=saved, sequence=alive, compress=st.booleans())
        def snapshot(self, sequence: Sequence, compress: bool) -> bytes:
            self.touched = sequence
            return sequence.snapshot({"note": b"kept"}).to_bytes(compress=compress)

        @rule(target=alive, data=saved)
        def restore(self, data: bytes) -> object:
            if len(self.all) >= 5:
                return multiple()
            snapshot = Snapshot.from_bytes(data)
            assert snapshot.extra == {"note": b"kept"}
            sequence = self.add(engine.restore(snapshot))
            assert sequence.tokens == snapshot.tokens
            assert sequence.stats.evaluated == 0
            self.touched = sequence
            return sequence

        @rule(sequence=alive, ids=some_ids(33, 100), after=st.integers(0, 3))
        def cancel_between_batches(self, sequence: Sequence, ids: list[int], after: int) -> None:
            if len(sequence) + len(ids) > LIMIT:
                return
            before, cancel = sequence.tokens, CancelToken()
            calls = 0

            def progress(done: int, total: int) -> None:
                nonlocal calls
                calls += 1
                if calls >= after:
                    cancel.cancel()

            if after == 0:
                cancel.cancel()
            try:
                sequence.extend(ids, cancel=cancel, progress=progress)
                assert calls < after or sequence.tokens == before + tuple(ids)
            except DecodeCancelled:
                assert sequence.tokens == (before + tuple(ids))[: len(sequence)]
            assert sequence.tokens[: len(before)] == before
            self.touched = sequence

        @rule(sequence=alive, ids=some_ids(9, 80), node=st.integers(1, 250))
        def abort_inside_a_batch(self, sequence: Sequence, ids: list[int], node: int) -> None:
            if len(sequence) + len(ids) > LIMIT:
                return
            before = sequence.tokens
            with AbortAt(engine, node) as cancel, contextlib.suppress(DecodeCancelled):
                sequence.extend(ids, cancel=cancel)
            assert sequence.tokens[: len(before)] == before
            assert sequence.tokens == (before + tuple(ids))[: len(sequence)]
            self.touched = sequence

        @rule(sequence=alive)
        def refuse_too_much(self, sequence: Sequence) -> None:
            before = sequence.tokens
            with pytest.raises(ContextFull) as caught:
                sequence.extend([7] * (engine.n_ctx - len(before) + 1))
            assert caught.value.available == engine.n_ctx - len(before)
            assert sequence.tokens == before
            self.touched = sequence

        @rule(sequence=consumes(alive))
        def close(self, sequence: Sequence) -> None:
            if sequence in self.all:
                sequence.close()
                self.all.remove(sequence)
            self.touched = self.all[0] if self.all else None

        @invariant()
        def exact(self) -> None:
            for sequence in self.all:
                check_counts(sequence)
            if self.touched is not None and len(self.touched) and self.touched in self.all:
                distance = cold.distance(self.touched)
                assert distance <= tolerance, f"off by {distance:.2g} of the range"

        def teardown(self) -> None:
            for sequence in self.all:
                if len(sequence):
                    assert cold.distance(sequence) <= tolerance
                sequence.close()

    return Machine


def run_programs(engine: Engine, steps: int) -> None:
    """Run about `steps` steps; raises what the first wrong one raises."""
    cold = Cold(engine)
    try:
        run_state_machine_as_test(
            make_machine(engine, cold),
            settings=settings(
                max_examples=max(1, steps // STEPS_PER_PROGRAM),
                stateful_step_count=STEPS_PER_PROGRAM,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                phases=(Phase.generate,),
                report_multiple_bugs=False,
                database=None,
                derandomize="AGENTLOOP_STATE_STEPS" not in os.environ,
            ),
        )
    finally:
        cold.close()


def test_random_programs(engine: Engine) -> None:
    run_programs(engine, STEPS)


@pytest.mark.parametrize("drafters", ["none", ("suffix", "mtp")])
def test_random_programs_on_the_embedded_model(drafters: str | tuple[str, ...]) -> None:
    """A shorter run on trained weights, with and without drafts."""
    with Engine.load(n_ctx=1024, sequences=3, n_batch=32, drafters=drafters) as engine:
        run_programs(engine, min(STEPS, 300))
