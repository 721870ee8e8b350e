"""Block drafters (DFlash, DFlash2, DSpark) with random weights: what they draft means nothing, but it must be a
function of exactly the target's accepted rows, change no text, and never take the process down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentloop.bench.random_dflash import BlockKind, RandomDflash, write_random_dflash
from agentloop.bench.random_model import Architecture, RandomModel, write_random_model
from agentloop.engine import Engine, _native_block
from agentloop.engine.drafters.block import walk_lattice
from agentloop.exceptions import ModelLoadError
from tests.engine.conftest import ARCHITECTURES
from tests.engine.drafting import check_cuts, check_life, drafter_of, load, random_ids, same_text_and_state
from tests.engine.exactness import Cold, check_counts
from tests.engine.test_state_machine import run_programs

KINDS: tuple[BlockKind, ...] = ("dflash", "dflash2", "dspark", "dspark_d2t")
BAR = 3e-3  # share of the range; the drafters are attention-only, their inputs differ by the target's batch widths


def target_of(architecture: Architecture) -> RandomModel:
    """As the fixture `model_paths` writes it."""
    return RandomModel(architecture, mtp=1 if architecture == "qwen35" else 0)


@contextmanager
def loaded(
    model_paths: dict[str, Path], folder: Path, architecture: Architecture, draft: RandomDflash, **settings: Any
) -> Iterator[Engine]:
    path = write_random_dflash(folder / "draft.gguf", target_of(architecture), draft)
    with load(model_paths[architecture], path, **({"drafters": ["block"]} | settings)) as engine:
        assert "block" in [factory.name for factory in engine.drafters]
        yield engine


def rows(drafter: Any, tokens: list[int]) -> np.ndarray[Any, Any]:
    """Logits of the drafted rows of the block behind the tokens."""
    depth = drafter.depth
    ids = drafter.propose(tokens, depth).ids
    context, plan = drafter._factory.context, drafter._factory.plan
    assert 1 <= len(ids) <= depth
    assert context.ctx.position(drafter._slot) == drafter._n == len(tokens) - 1
    if plan.kind == "dflash2":
        lattice = context.hidden(depth + 1)[1:]
        assert ids == walk_lattice(lattice, plan.top_k)
        block = [tokens[-1], *[drafter._factory.mask] * depth]
        assert context.noise(block, drafter._n, drafter._slot, outputs=True) == 0
        logits = np.stack([context.ctx.row(i).copy() for i in range(1, depth + 1)])
        context.ctx.remove(drafter._slot, drafter._n)
        for row, candidates in zip(logits, lattice[:, : plan.top_k].astype(int), strict=True):
            assert sorted(row[candidates]) == sorted(row)[-plan.top_k :]
        return logits
    logits = np.stack([context.ctx.row(i).copy() for i in range(plan.first, plan.first + depth)])
    assert ids == logits.argmax(1).tolist()[: len(ids)]
    return logits


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_text_is_the_same(
    model_paths: dict[str, Path], tmp_path: Path, architecture: Architecture, kind: BlockKind
) -> None:
    with loaded(model_paths, tmp_path, architecture, RandomDflash(kind)) as engine:
        sequence = same_text_and_state(engine, "block", random_ids(1, 50))
        assert engine.drafters[0].depth == (6 if kind.startswith("dspark") else 5)
        assert sequence.stats.drafted["block"] > 10


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_it_sees_exactly_the_accepted_rows(
    model_paths: dict[str, Path], tmp_path: Path, architecture: Architecture, kind: BlockKind
) -> None:
    """Injection step by step, with rejected drafts, cuts, forks, parking and snapshots between, equals one injection of
    the same tokens."""
    with loaded(model_paths, tmp_path, architecture, RandomDflash(kind, confidence=False)) as engine:
        check_life(engine, "block", rows, BAR if architecture != "llama" else 1e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_the_check_of_the_rows_can_fail(model_paths: dict[str, Path], tmp_path: Path, kind: BlockKind) -> None:
    """One row of another token, a row too few, and positions off by one are seen."""
    with loaded(model_paths, tmp_path, "lfm2", RandomDflash(kind, confidence=False)) as engine:

        def view(ids: list[int], wrong: str = "") -> np.ndarray[Any, Any]:
            sequence = engine.sequence()
            sequence.extend(ids)
            drafter = drafter_of(sequence, "block")
            with engine.lock:
                if wrong == "swapped":
                    drafter._due[[2, 3]] = drafter._due[[3, 2]]
                if wrong == "shifted":
                    drafter._due = np.roll(drafter._due, 1, axis=0)
                seen = rows(drafter, [*ids, 5])
            sequence.close()
            return seen

        ids = random_ids(3, 20)
        truth = view(ids)
        assert (view(ids) == truth).all()
        for wrong in (view([*ids[:10], (ids[10] + 1) % 256, *ids[11:]]), view(ids, "swapped"), view(ids, "shifted")):
            finite = np.isfinite(truth)
            assert np.abs(wrong[finite] - truth[finite]).max() / np.ptp(truth[finite]) > 3 * BAR


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_cut_tokens_leave_nothing_behind(
    model_paths: dict[str, Path], tmp_path: Path, architecture: Architecture
) -> None:
    with loaded(model_paths, tmp_path, architecture, RandomDflash("dflash")) as engine:
        check_cuts(engine, "block", rows, BAR if architecture != "llama" else 1e-2)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_rows_are_the_layers_inputs_in_the_files_order(
    model_paths: dict[str, Path], tmp_path: Path, architecture: Architecture
) -> None:
    """The input of layer 0 is known without decoding anything: the tokens' embeddings."""
    import gguf

    tensors = {t.name: t for t in gguf.GGUFReader(model_paths[architecture]).tensors}
    embedding = np.asarray(tensors["token_embd.weight"].data)
    for taps in ((0, 2), (2, 0)):
        with loaded(model_paths, tmp_path, architecture, RandomDflash(taps=taps)) as engine:
            sequence = engine.sequence()
            ids = random_ids(4, 20)
            sequence.extend(ids)
            due = drafter_of(sequence, "block")._due.reshape(20, 2, 64)
            at = taps.index(0)
            np.testing.assert_allclose(due[:, at], embedding[ids], atol=1e-6)
            assert np.abs(due[:, 1 - at] - embedding[ids]).max() > 0.1


def test_a_reduced_vocabulary_drafts_its_own_tokens(model_paths: dict[str, Path], tmp_path: Path) -> None:
    """The graph gives logits by target ids; mapping them again would be wrong."""
    with loaded(model_paths, tmp_path, "lfm2", RandomDflash("dspark_d2t", confidence=False)) as engine:
        sequence = engine.sequence()
        sequence.extend(random_ids(1, 40))
        with engine.lock:
            logits = rows(drafter_of(sequence, "block"), [*sequence.tokens, 5])
        assert (np.isfinite(logits).sum(1) == 200).all()


def test_confidence_ends_a_draft(model_paths: dict[str, Path], tmp_path: Path) -> None:
    with loaded(model_paths, tmp_path, "qwen35", RandomDflash("dspark", block_size=12)) as engine:
        sequence = engine.sequence()
        sequence.extend(random_ids(1, 40))
        drafter = drafter_of(sequence, "block")
        with engine.lock:
            ids = drafter.propose([*sequence.tokens, 5], 12).ids
            confidence = drafter._factory.context.hidden(12)[:, 0]
        assert ((confidence > 0) & (confidence < 1)).all()
        assert 1 <= len(ids) < 12
        chance = np.cumprod(confidence)
        assert chance[len(ids)] < 0.1
        assert len(ids) == 1 or chance[len(ids) - 1] >= 0.1


@pytest.mark.parametrize(
    "draft",
    [
        RandomDflash("dflash", window=16),
        RandomDflash("dflash", causal=True),
        RandomDflash("dflash", block_size=None),
        RandomDflash("dflash", taps=(0, 1, 2, 3), layers=1),
        RandomDflash("dspark", from_anchor=False),
        RandomDflash("dspark", confidence=False),
        RandomDflash("dflash2", top_k=7),
    ],
    ids=lambda draft: f"{draft.kind}-{draft.window}-{draft.causal}-{draft.block_size}-{draft.from_anchor}",
)
def test_variants(model_paths: dict[str, Path], tmp_path: Path, draft: RandomDflash) -> None:
    with loaded(model_paths, tmp_path, "qwen35", draft) as engine:
        same_text_and_state(engine, "block", random_ids(2, 70))
        check_life(engine, "block", rows, BAR)


def test_with_the_other_drafters_of_the_model(model_paths: dict[str, Path], tmp_path: Path) -> None:
    """MTP's hidden rows and the taps come from the same decodes."""
    names = ["suffix", "mtp", "block"]
    with loaded(model_paths, tmp_path, "qwen35", RandomDflash("dflash2"), drafters=names) as engine:
        assert [factory.name for factory in engine.drafters] == names
        sequence = same_text_and_state(engine, "block", random_ids(1, 50))
        assert [drafter.name for drafter in sequence._drafters] == names


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_random_programs(model_paths: dict[str, Path], tmp_path: Path, architecture: Architecture) -> None:
    kind: BlockKind = {"qwen35": "dspark", "lfm2": "dflash2", "llama": "dflash"}[architecture]  # type: ignore[assignment]
    with loaded(model_paths, tmp_path, architecture, RandomDflash(kind)) as engine:
        run_programs(engine, 400)


def test_a_full_context(model_paths: dict[str, Path], tmp_path: Path) -> None:
    with loaded(model_paths, tmp_path, "qwen35", RandomDflash("dflash"), n_ctx=512) as engine:
        cold = Cold(engine)
        sequence = engine.sequence()
        sequence.extend(random_ids(1, 500))
        list(sequence.generate(100))
        assert len(sequence) <= 512
        drafter_of(sequence, "block")
        others = [engine.sequence() for _ in range(3)]
        for other in others:
            other.extend(random_ids(2, 400))
            list(other.generate(6))
            drafter_of(other, "block")
            check_counts(other)
        sequence.truncate(300)
        list(sequence.generate(20))
        assert cold.distance(sequence) <= BAR
        drafter_of(sequence, "block")
        cold.close()


def test_prefill_longer_than_a_batch_of_the_drafter(model_paths: dict[str, Path], tmp_path: Path) -> None:
    with loaded(model_paths, tmp_path, "qwen35", RandomDflash("dspark"), n_batch=8, draft_max=3) as engine:
        context = drafter_of(engine.sequence(), "block")._factory.context
        assert context.most == 8
        sequence = engine.sequence()
        sequence.extend(random_ids(1, 100))
        list(sequence.generate(20))
        assert drafter_of(sequence, "block").depth == 3


def test_a_library_without_the_functions(
    model_paths: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The drafter is left out with a warning; everything else works."""
    path = write_random_dflash(tmp_path / "draft.gguf", target_of("lfm2"))
    names, types = _native_block._FUNCTIONS["get_tap"]
    monkeypatch.setitem(_native_block._FUNCTIONS, "get_tap", (tuple(n + "_gone" for n in names), types))
    monkeypatch.delitem(_native_block._found, "get_tap", raising=False)
    with Engine.load(model_paths["lfm2"], n_ctx=512, threads=1, draft_path=path) as engine:
        assert [factory.name for factory in engine.drafters] == ["suffix"]
        sequence = engine.sequence()
        sequence.extend(random_ids(1, 40))
        assert len(list(sequence.generate(5))) > 0
    assert "no block drafter" in caplog.text
    monkeypatch.delitem(_native_block._found, "get_tap")


BAD = {
    "a tap behind the last layer": (RandomDflash(taps=(1, 9)), "not in 0 to 3"),
    "a tap at the output": (RandomDflash(taps=(1, 4)), "not in 0 to 3"),
    "a negative tap": (RandomDflash(taps=(-1, 2)), "not in 0 to 3"),
    "no taps": (None, "names no target layers"),
    "another width": (RandomDflash(embd=128), "width is 128"),
    "dspark without a block size": (RandomDflash("dspark", block_size=None), "names no block size"),
    "a block of one": (RandomDflash("dflash", block_size=1), "drafts nothing"),
    "no mask token": (RandomDflash(mask=None), "mask token"),
    "a foreign mask token": (RandomDflash(mask=5000), "mask token"),
}

TRY = """
import json, sys
from agentloop.engine import Engine
from agentloop.exceptions import ModelLoadError
found = {}
for name, path in json.load(sys.stdin).items():
    try:
        with Engine.load(sys.argv[1], n_ctx=512, threads=1, drafters=["block"], draft_path=path) as engine:
            sequence = engine.sequence()
            sequence.extend(list(range(40)))
            list(sequence.generate(20))
            found[name] = ["loaded", [factory.name for factory in engine.drafters]]
    except ModelLoadError as error:
        found[name] = [error.reason, str(error)]
print(json.dumps(found))
"""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_files_that_would_kill_the_process(
    model_paths: dict[str, Path], tmp_path: Path, architecture: Architecture
) -> None:
    """In a process of its own: each is refused with a clear error, and none aborts."""
    target = target_of(architecture)
    paths: dict[str, str] = {}
    for i, (name, (draft, _)) in enumerate(BAD.items()):
        path = tmp_path / f"{i}.gguf"
        if draft is None:
            write_random_dflash(path, target)
            data = path.read_bytes()
            path.write_bytes(data.replace(b"dflash.target_layers", b"dflash.target_nayers"))
        else:
            write_random_dflash(path, replace(target, heads=8) if draft.embd else target, draft)
        paths[name] = str(path)
    other = write_random_dflash(tmp_path / "vocabulary.gguf", replace(target, vocab=400))
    mapped = tmp_path / "mapped.gguf"
    write_random_dflash(mapped, target, RandomDflash("dspark_d2t"))
    raw = bytearray(mapped.read_bytes())
    at = raw.index(_map_bytes(mapped))
    raw[at : at + 8] = (10**9).to_bytes(8, "little")
    mapped.write_bytes(raw)
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(Path(other).read_bytes()[:-100])
    renamed = tmp_path / "renamed.gguf"
    write_random_dflash(renamed, target)
    renamed.write_bytes(renamed.read_bytes().replace(b"enc.output_norm.weight", b"enc.output_morn.weight"))
    good = write_random_dflash(tmp_path / "good.gguf", target)
    paths |= {"vocabulary": str(other), "map": str(mapped), "cut": str(cut), "tensor": str(renamed), "good": str(good)}
    done = subprocess.run(
        [sys.executable, "-c", TRY, str(model_paths[architecture])],
        input=json.dumps(paths),
        capture_output=True,
        text=True,
        env={**os.environ, "GGML_NO_BACKTRACE": "1"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    for name, (_, words) in BAD.items():
        assert found[name][0] == "draft_mismatch", (name, found[name])
        assert words in found[name][1], (name, found[name])
    assert found["vocabulary"][0] == "draft_mismatch"
    assert found["map"][0] == "draft_mismatch"
    assert found["cut"][0] == "truncated"
    assert found["tensor"][0] == "refused"
    assert found["good"] == ["loaded", ["block"]]


def _map_bytes(path: Path) -> bytes:
    import gguf

    reader = gguf.GGUFReader(path)
    tensor = next(t for t in reader.tensors if t.name == "d2t")
    return bytes(np.asarray(tensor.data).tobytes())


def test_targets_without_layer_inputs(tmp_path: Path) -> None:
    """llama.cpp aborts when a layer input is asked for that the graph does not export."""
    from agentloop.engine.drafters import BlockPlan
    from agentloop.engine.modelfile import read_model_file
    from agentloop.engine.shape import ModelShape

    model = write_random_model(tmp_path / "model.gguf", RandomModel("llama"))
    draft = write_random_dflash(tmp_path / "draft.gguf", RandomModel("llama"))
    shape = ModelShape.of(read_model_file(model))
    assert BlockPlan.of(read_model_file(draft), shape).taps == (1, 3)
    with pytest.raises(ModelLoadError, match="layer inputs of qwen2"):
        BlockPlan.of(read_model_file(draft), replace(shape, architecture="qwen2"))


def test_the_best_path_through_a_lattice() -> None:
    """Held against the definition, written out."""
    random = np.random.default_rng(0)
    for top_k in (1, 3, 5):
        rows = np.zeros((4, top_k * (top_k + 1) + 2), np.float32)
        rows[:, :top_k] = random.integers(0, 300, (4, top_k))
        rows[:, top_k : top_k * (top_k + 1)] = random.standard_normal((4, top_k * top_k))
        expected, before = [], 0
        for row in rows:
            scores = [row[top_k + before * top_k + j] for j in range(top_k)]
            before = scores.index(max(scores))
            expected.append(int(row[before]))
        assert walk_lattice(rows, top_k) == expected


def test_one_draft_only_needs_the_last_token(model_paths: dict[str, Path], tmp_path: Path) -> None:
    """Nothing is drafted where the drafter lags, and a draft can be asked for twice."""
    with loaded(model_paths, tmp_path, "lfm2", RandomDflash("dflash")) as engine:
        sequence = engine.sequence()
        drafter = drafter_of(sequence, "block")
        assert drafter.peek([]) is None
        assert drafter.peek([1]) is None
        sequence.extend(random_ids(1, 30))
        tokens = [*sequence.tokens, 9]
        with engine.lock:
            assert drafter.peek(tokens) == 0
            assert drafter.peek([*tokens, 1]) is None
            assert drafter.propose([*tokens, 1], 3).ids == []
            once = drafter.propose(tokens, 5).ids
            assert drafter.propose(tokens, 5).ids == once
            assert drafter.propose(tokens, 99).ids == once
            assert len(drafter.propose(tokens, 2).ids) == 2


def test_a_drafter_that_missed_tokens_begins_anew(model_paths: dict[str, Path], tmp_path: Path) -> None:
    """It drafts from what it saw since, at the right positions."""
    with loaded(model_paths, tmp_path, "qwen35", RandomDflash("dflash")) as engine:
        sequence = engine.sequence()
        sequence.extend(random_ids(1, 20))
        drafter = drafter_of(sequence, "block")
        sequence._drafters = []
        sequence.extend(random_ids(2, 7))
        sequence._drafters = [drafter]
        assert drafter.peek([*sequence.tokens, 5]) is None
        sequence.extend(random_ids(3, 11))
        with engine.lock:
            rows(drafter, [*sequence.tokens, 5])
        assert (drafter._start, drafter._n) == (27, 38)
        drafter.rewind(25)
        assert drafter.peek([*sequence.tokens[:25], 5]) is None
        same_text_and_state(engine, "block", random_ids(1, 30))
