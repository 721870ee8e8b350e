"""A draft model changes speed and nothing else, and its own state stays exact through everything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentloop.bench.random_model import RandomModel, write_random_model
from agentloop.engine import Engine
from agentloop.exceptions import ModelLoadError
from tests.engine.conftest import ARCHITECTURES
from tests.engine.drafting import check_cuts, check_life, drafter_of, load, random_ids, same_text_and_state
from tests.engine.exactness import TOLERANCE
from tests.engine.test_state_machine import run_programs


def rows(drafter: Any, tokens: list[int]) -> np.ndarray[Any, Any]:
    """Logits behind the tokens, as the draft model sees them."""
    seen: list[np.ndarray[Any, Any]] = []
    best = drafter._best

    def look() -> int:
        seen.append(drafter._factory.context.row(-1).copy())
        return int(best())

    drafter._best = look
    try:
        ids = drafter.propose(tokens, 4).ids
    finally:
        del drafter._best
    assert len(ids) == 4
    return np.stack(seen[-4:])


@pytest.mark.parametrize("draft", ARCHITECTURES)
@pytest.mark.parametrize("target", ARCHITECTURES)
def test_text_is_the_same(model_paths: dict[str, Path], target: str, draft: str) -> None:
    with load(model_paths[target], model_paths[draft], drafters=["draft_model"]) as engine:
        sequence = same_text_and_state(engine, "draft_model", random_ids(1, 50))
        stats = sequence.stats
        if target == draft:  # the same model: all but near ties is accepted
            assert stats.accepted["draft_model"] >= 0.8 * stats.drafted["draft_model"]
            assert stats.accepted["draft_model"] > 40
        else:
            assert stats.accepted["draft_model"] < 0.5 * stats.drafted["draft_model"]


@pytest.mark.parametrize("draft", ARCHITECTURES)
def test_its_state_stays_exact(model_paths: dict[str, Path], draft: str) -> None:
    with load(model_paths["lfm2"], model_paths[draft], drafters=["draft_model"]) as engine:
        check_life(engine, "draft_model", rows, TOLERANCE[draft])
        check_cuts(engine, "draft_model", rows, TOLERANCE[draft])


@pytest.mark.parametrize("draft", ARCHITECTURES)
def test_the_check_of_the_state_can_fail(model_paths: dict[str, Path], draft: str) -> None:
    """A cut that is one token off, and a recurrent part that belongs to other tokens, are seen."""
    with load(model_paths["lfm2"], model_paths[draft], drafters=["draft_model"]) as engine:
        sequence, other = engine.sequence(), engine.sequence()
        sequence.extend(random_ids(1, 70))
        other.extend([*random_ids(1, 40), 7, *random_ids(1, 70)[41:]])
        drafter, second = drafter_of(sequence, "draft_model"), drafter_of(other, "draft_model")
        native, twin = drafter._factory.context, sequence.fork()
        with engine.lock:
            truth = rows(drafter, [*sequence.tokens, 5])
            rows(second, [*other.tokens, 5])
            if drafter._factory.cuttable:
                drafter._state.roll_back(native, 69)
                drafter._n, drafter._ahead, drafter._ids[69:] = 69, [], [5]
                wrong = rows(drafter, [*sequence.tokens[:69], 5])
            else:
                assert drafter._state.restore_recurrent(native, 71, second._marks[-1].data)
                truth = rows(drafter_of(twin, "draft_model"), [*sequence.tokens, 5, 5])
                wrong = rows(drafter, [*sequence.tokens, 5, 5])
        assert np.abs(wrong - truth).max() / np.ptp(truth) > 3 * TOLERANCE[draft]


@pytest.mark.parametrize("draft", ARCHITECTURES)
def test_no_token_is_decoded_twice_where_it_need_not_be(model_paths: dict[str, Path], draft: str) -> None:
    """An attention-only drafter keeps accepted guesses; a hybrid goes back to its last save, not to the start."""
    with load(model_paths[draft], model_paths[draft], drafters=["draft_model"]) as engine:
        sequence = engine.sequence()
        sequence.extend(random_ids(2, 100))
        list(sequence.generate(24))
        drafter = drafter_of(sequence, "draft_model")
        if drafter._factory.cuttable:
            assert drafter._n + len(drafter._ahead) == drafter._state.n
        before = drafter._n
        sequence.truncate(len(sequence) - 1)
        assert drafter._n >= before - 12
        sequence.truncate(101)
        assert drafter._n >= 90


@pytest.mark.parametrize("draft", ARCHITECTURES)
def test_going_back_to_an_input_keeps_it_where_replies_had_no_drafts(model_paths: dict[str, Path], draft: str) -> None:
    with load(model_paths["lfm2"], model_paths[draft], drafters=["draft_model"]) as engine:
        sequence = engine.sequence()
        sequence.extend(random_ids(3, 120))
        sequence.checkpoint(label="turn", pinned=True)
        for token in random_ids(4, 90):  # as plain decoding appends them, one by one
            sequence.extend([token])
        drafter = drafter_of(sequence, "draft_model")
        decodes = drafter._factory.context.serial
        sequence.truncate(120)
        assert drafter._n >= 90
        assert drafter._factory.context.serial == decodes


@pytest.mark.parametrize("draft", ARCHITECTURES)
def test_random_programs(model_paths: dict[str, Path], draft: str) -> None:
    with load(model_paths["qwen35"], model_paths[draft], drafters=["draft_model"]) as engine:
        run_programs(engine, 400)


def test_auto_takes_the_file(model_paths: dict[str, Path]) -> None:
    with Engine.load(model_paths["lfm2"], n_ctx=512, threads=1, draft_path=model_paths["llama"]) as engine:
        assert [factory.name for factory in engine.drafters] == ["suffix", "draft_model"]
        sequence = engine.sequence()
        sequence.extend(random_ids(1, 40))
        list(sequence.generate(20))
        assert drafter_of(sequence, "draft_model") is not None
    with Engine.load(model_paths["lfm2"], n_ctx=512, threads=1, draft_path=model_paths["llama"], draft_max=0) as engine:
        assert engine.drafters == []


def test_snapshots_of_other_draft_files_are_not_taken(model_paths: dict[str, Path], tmp_path: Path) -> None:
    """The drafter's part of a snapshot is left aside when another file drafts; nothing else changes."""
    other = write_random_model(tmp_path / "other.gguf", RandomModel("lfm2", seed=9))
    with load(model_paths["lfm2"], model_paths["lfm2"], drafters=["draft_model"]) as engine:
        sequence = engine.sequence()
        sequence.extend(random_ids(1, 40))
        expected = [t.id for t in sequence.fork().generate(20)]
        snapshot = sequence.snapshot()
        back = engine.restore(snapshot)
        assert drafter_of(back, "draft_model")._n > 0
    with load(model_paths["lfm2"], other, drafters=["draft_model"]) as engine:
        back = engine.restore(snapshot)
        assert drafter_of(back, "draft_model")._n == 0
        assert [t.id for t in back.generate(20)] == expected
        altered = replace(snapshot, drafters={"draft_model": b"\0" * 30})
        assert [t.id for t in engine.restore(altered).generate(20)] == expected


def test_files_that_do_not_fit(model_paths: dict[str, Path], tmp_path: Path) -> None:
    target = model_paths["lfm2"]
    larger = write_random_model(tmp_path / "larger.gguf", RandomModel("llama", vocab=400))
    renamed = tmp_path / "renamed.gguf"
    renamed.write_bytes(model_paths["llama"].read_bytes().replace(b"<tool_call>", b"<tool_cull>"))
    for path, reason, words in (
        (larger, "draft_mismatch", "400 tokens"),
        (renamed, "draft_mismatch", "tool_cull"),
        (tmp_path / "absent.gguf", "missing", "no such file"),
        (Path(__file__), "not_gguf", "GGUF"),
    ):
        with pytest.raises(ModelLoadError, match=words) as caught:
            Engine.load(target, n_ctx=512, threads=1, draft_path=path)
        assert caught.value.reason == reason
        assert caught.value.path == str(path)
    with pytest.raises(ValueError, match="draft_path"):
        Engine.load(target, n_ctx=512, drafters=["suffix", "draft_model"])
    with pytest.raises(ValueError, match="'draft_model', not for 'block'"):
        Engine.load(target, n_ctx=512, drafters=["block"], draft_path=model_paths["llama"])
    with Engine.load(target, n_ctx=512, threads=1, drafters=["suffix"], draft_path=larger) as engine:
        assert [factory.name for factory in engine.drafters] == ["suffix"]  # not asked for, not looked at
