"""What sequences promise one by one: ways of truncation, checkpoints, parking, steering, threads, closing."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np
import pytest

from agentloop.engine import CancelToken, Engine, Force, Sampling, Stop, Token
from agentloop.exceptions import ClosedError, ContextFull, DecodeCancelled, EngineError
from tests.engine.exactness import TOLERANCE, Cold, check_counts


def ids(n: int, seed: int = 0) -> list[int]:
    out: list[int] = np.random.default_rng(seed).integers(0, 256, n).tolist()
    return out


def test_truncate_says_how(hybrid: Engine) -> None:
    sequence = hybrid.sequence()
    sequence.extend(ids(100))
    assert sequence.truncate(100) == "none"
    assert sequence.truncate(98) == "ring"
    assert len(sequence) - sequence.n_decoded == 1
    assert sequence.truncate(96) == "start"  # one rollback a decode
    sequence.checkpoint()
    sequence.extend(ids(20, 1))
    sequence.extend(ids(20, 2))
    assert sequence.truncate(96) == "checkpoint"
    assert sequence.n_decoded == 96
    next(sequence.generate(1))
    assert sequence.truncate(96) == "none"
    assert sequence.truncate(0) == "start"
    assert sequence.tokens == ()
    with pytest.raises(ValueError, match="no logits"):
        sequence.logits()
    with pytest.raises(ValueError, match="cannot keep"):
        sequence.truncate(1)
    sequence.close()


def test_generating_again_from_the_same_point_decodes_nothing(hybrid: Engine) -> None:
    sequence = hybrid.sequence()
    sequence._drafters = []  # counted below are rows, and a drafter may try one at any time
    sequence.extend(ids(60))
    sequence.checkpoint(label="turn")
    first = [t.id for t in sequence.generate(12)]
    before = sequence.stats
    sequence.truncate(60)
    assert [t.id for t in sequence.generate(12)] == first
    # the last of the twelve was never decoded before, the other eleven were cut and are decoded as new
    assert (sequence.stats - before).recomputed == 0
    assert (sequence.stats - before).evaluated == 11
    sequence.close()


def test_a_long_prefill_leaves_checkpoints(model_paths: dict[str, object]) -> None:
    with Engine.load(str(model_paths["qwen35"]), n_ctx=4096, n_batch=256, threads=1) as engine:
        sequence = engine.sequence()
        sequence.extend(ids(2000))
        assert [c.position for c in sequence.checkpoints] == [1488, 1936]
        sequence.extend(ids(30, 1))
        before = sequence.stats
        assert sequence.truncate(1990) == "checkpoint"  # another question about the same document
        sequence.extend(ids(30, 2))
        assert (sequence.stats - before).evaluated == 1990 - 1936 + 30
        cold = Cold(engine)
        assert cold.distance(sequence) <= TOLERANCE["qwen35"]
        cold.close()


def test_checkpoints_stay_inside_their_budget(model_paths: dict[str, object]) -> None:
    with Engine.load(str(model_paths["qwen35"]), n_ctx=2048, threads=1, checkpoint_bytes=100_000) as engine:
        sequence, other = engine.sequence(), engine.sequence()
        for i, label in enumerate(["system", "", "tool", "turn", "prefill", "turn", "tool", "turn"]):
            sequence.extend(ids(20, i))
            sequence.checkpoint(label=label, pinned=i == 1)
            other.extend(ids(10, i))
            other.checkpoint()
        held = engine.stats()
        assert held["checkpoint_bytes"] <= 100_000
        kept = {(c.position, c.label) for c in sequence.checkpoints}
        assert (40, "") in kept  # pinned
        assert (20, "system") in kept
        assert not any(label in ("prefill", "tool") for _, label in kept)
        assert sequence.stats.checkpoints == len(sequence.checkpoints)


def test_more_sequences_than_slots(engine: Engine) -> None:
    cold = Cold(engine)
    many = [engine.sequence() for _ in range(7)]
    for round_ in range(3):
        for i, sequence in enumerate(many):
            sequence.extend(ids(20, 10 * round_ + i))
            for _ in sequence.generate(3):
                pass
    assert engine.stats()["live"] <= 3
    for sequence in many:
        check_counts(sequence)
        assert sequence.stats.recomputed == 0
        assert cold.distance(sequence) <= TOLERANCE[engine.shape.architecture]
        sequence.close()
    cold.close()


def test_one_slot_can_still_fork(model_paths: dict[str, object]) -> None:
    with Engine.load(str(model_paths["qwen35"]), n_ctx=512, sequences=1, threads=1) as engine:
        parent = engine.sequence()
        parent.extend(ids(50))
        child = parent.fork()
        parent.extend(ids(5, 1))
        child.extend(ids(5, 2))
        assert parent.stats.recomputed == child.stats.recomputed == 0
        cold = Cold(engine)
        assert cold.distance(parent) <= TOLERANCE["qwen35"]
        assert cold.distance(child) <= TOLERANCE["qwen35"]
        cold.close()


def test_cells_are_freed_by_parking(model_paths: dict[str, object]) -> None:
    """Together the sequences need more cells than the context has; each alone fits."""
    with Engine.load(str(model_paths["qwen35"]), n_ctx=512, sequences=4, threads=1) as engine:
        many = [engine.sequence() for _ in range(3)]
        for i, sequence in enumerate(many):
            sequence.extend(ids(400, i))
        for i, sequence in enumerate(many):
            sequence.extend(ids(60, i + 5))
            assert len(sequence) == 460
        with pytest.raises(ContextFull) as caught:
            many[0].extend(ids(53))
        assert (caught.value.needed, caught.value.available) == (53, 52)
        cold = Cold(engine)
        assert all(cold.distance(s) <= TOLERANCE["qwen35"] for s in many)
        cold.close()


def test_generation_ends_where_the_context_ends(hybrid: Engine) -> None:
    sequence = hybrid.sequence()
    sequence.extend(ids(1020))
    generation = sequence.generate(100)
    assert len(list(generation)) == 4
    assert generation.finish_reason == "context"
    assert list(sequence.generate(5)) == []
    sequence.close()


def test_end_token_ends_and_stays(embedded: Engine) -> None:
    sequence = embedded.sequence()
    sequence.extend(
        embedded.vocab.encode("<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n<think>\n", special=True)
    )
    generation = sequence.generate(200)
    tokens = list(generation)
    assert generation.finish_reason == "end"
    assert tokens[-1].id in embedded.vocab.eog
    assert sequence.tokens[-1] == tokens[-1].id
    sequence.close()


def collect(generation: Iterable[Token], into: list[int]) -> None:
    for token in generation:
        into.append(token.id)


class Script:
    """Steering from a list of answers, one a token."""

    def __init__(self, *answers: Stop | Force | None) -> None:
        self.answers, self.seen = list(answers), list[Token]()

    def allowed(self) -> None:
        return None

    def room(self) -> int | None:
        return None

    def accept(self, token: Token) -> Stop | Force | None:
        self.seen.append(token)
        return self.answers.pop(0) if self.answers else None


def test_steering_forces_and_stops(hybrid: Engine) -> None:
    sequence = hybrid.sequence()
    sequence.extend(ids(30))
    script = Script(None, Force((1, 2, 3), "budget"), None, None, Force((4, 5), "again"), None, Stop("enough"))
    generation = sequence.generate(50, steering=script)
    got = [t.id for t in generation]
    assert got[2:5] == [1, 2, 3]
    assert got[5:] == [4, 5]
    assert (generation.finish_reason, generation.stop_reason) == ("stopped", "enough")
    assert [t.id for t in script.seen] == got
    assert [t.drafted_by for t in script.seen][2:5] == ["forced"] * 3
    assert sequence.tokens[30:] == tuple(got)
    check_counts(sequence)
    sequence.close()


def test_a_mask_holds(hybrid: Engine) -> None:
    class Only(Script):
        def allowed(self) -> object:
            mask = np.zeros(hybrid.vocab.n_tokens, np.bool_)
            mask[[11, 12]] = True
            return mask

    sequence = hybrid.sequence()
    sequence.extend(ids(30))
    assert {t.id for t in sequence.generate(20, Sampling(temperature=1.0, seed=3), Only())} <= {11, 12}  # type: ignore[arg-type]
    sequence.close()


def test_a_generation_notices_other_changes(hybrid: Engine) -> None:
    sequence = hybrid.sequence()
    sequence.extend(ids(30))
    generation = sequence.generate(10)
    next(generation)
    sequence.extend(ids(3))
    with pytest.raises(EngineError, match="extended or truncated"):
        next(generation)
    sequence.close()


def test_a_sequence_is_not_shared_by_threads(hybrid: Engine) -> None:
    sequence = hybrid.sequence()
    sequence.extend(ids(10))

    class Nosy(Script):
        def accept(self, token: Token) -> None:
            sequence.extend([1])

    with pytest.raises(EngineError, match="in use"):
        list(sequence.generate(3, steering=Nosy()))
    check_counts(sequence)
    sequence.close()


def test_sequences_of_one_engine_take_turns(hybrid: Engine) -> None:
    """Five threads over three slots; each text equals the one made alone."""

    def work(seed: int, into: list[int]) -> None:
        sequence = hybrid.sequence()
        sequence.extend(ids(40, seed))
        into += [t.id for t in sequence.generate(40)]
        sequence.close()

    alone: list[list[int]] = [[] for _ in range(5)]
    for seed, into in enumerate(alone):
        work(seed, into)
    together: list[list[int]] = [[] for _ in range(5)]
    threads = [threading.Thread(target=work, args=(s, t)) for s, t in enumerate(together)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert together == alone


def test_a_cancel_from_another_thread_stops_a_generation(hybrid: Engine) -> None:
    class NoEnd(Script):
        def allowed(self) -> object:
            mask = np.ones(hybrid.vocab.n_tokens, np.bool_)
            mask[list(hybrid.vocab.eog)] = False
            return mask

    sequence, cancel = hybrid.sequence(), CancelToken()
    sequence.extend(ids(10))
    made: list[int] = []

    def stop_soon() -> None:
        while len(made) < 5:
            pass
        cancel.cancel()

    thread = threading.Thread(target=stop_soon)
    thread.start()
    generation = sequence.generate(1000, steering=NoEnd(), cancel=cancel)  # type: ignore[arg-type]
    with pytest.raises(DecodeCancelled):
        collect(generation, made)
    thread.join()
    assert generation.finish_reason is None
    assert sequence.tokens[10:] == tuple(made)
    check_counts(sequence)
    sequence.extend(ids(3))
    sequence.close()


def test_closed_things_say_so(model_paths: dict[str, object]) -> None:
    engine = Engine.load(str(model_paths["llama"]), n_ctx=512, threads=1)
    first, second = engine.sequence(), engine.sequence()
    first.extend([1, 2])
    first.close()
    first.close()
    with pytest.raises(ClosedError):
        first.extend([3])
    engine.close()
    engine.close()
    with pytest.raises(ClosedError):
        second.extend([3])
    with pytest.raises(ClosedError):
        engine.sequence()
    second.close()


def test_a_dropped_sequence_gives_its_slot_back(hybrid: Engine) -> None:
    before = hybrid.stats()
    for i in range(20):
        hybrid.sequence().extend(ids(100, i))
    assert hybrid.stats()["parked_bytes"] == before["parked_bytes"]
    assert hybrid.stats()["sequences"] == before["sequences"]
