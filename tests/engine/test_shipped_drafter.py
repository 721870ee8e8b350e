"""The block drafter beside the embedded model: it changes no text, and it guesses well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentloop import Engine
from agentloop.bench.decode import TASKS, decode
from agentloop.bench.decode import _prompted as prompted
from agentloop.exceptions import ModelLoadError
from agentloop.models import default_drafter_path
from tests.engine.exactness import TOLERANCE, Cold, check_counts
from tests.engine.test_speculation import Eager, plain


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load(n_ctx=2048, drafters=["block"], draft_path=default_drafter_path(), threads=1) as loaded:
        loaded._calibrated = True
        loaded.policy = Eager(5)
        yield loaded


def test_replies_are_those_of_plain_decoding_and_two_in_five_tokens_are_drafted(engine: Engine) -> None:
    cold = Cold(engine)
    tokens = accepted = 0
    for prompts in TASKS.values():
        for prompt in prompts:
            sequence, _ = prompted(engine, prompt)
            base = plain(sequence)
            expected = [t.id for t in base.generate(120)]
            base.close()
            assert [t.id for t in sequence.generate(120)] == expected
            tokens += len(expected)
            accepted += sequence.stats.accepted["block"]
            check_counts(sequence)
            assert cold.distance(sequence) <= TOLERANCE["qwen35"]
            sequence.close()
    cold.close()
    assert tokens > 200
    assert accepted > 0.4 * tokens


def test_it_is_for_the_embedded_model_alone(model_paths: dict[str, Path]) -> None:
    with pytest.raises(ModelLoadError) as caught:
        Engine.load(model_paths["qwen35"], n_ctx=256, draft_path=default_drafter_path())
    assert caught.value.reason == "draft_mismatch"


def test_the_bench_measures_it() -> None:
    result = decode(drafters=["none", "block"], rounds=1, max_tokens=16)
    rows = [row for row in result["rows"] if row["drafter"] == "block"]
    assert {row["task"] for row in rows} == set(TASKS)
    assert all(row["tok_s"] > 0 for row in rows)
