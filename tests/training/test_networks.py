"""The network that is trained and the file that is written are the same function."""

from __future__ import annotations

import dataclasses
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[training]'")
pytest.importorskip("tokenizers", reason="tokenizers is not installed: pip install '.[training]'")

from agentloop import Engine  # noqa: E402
from agentloop.engine.policy import Choice, Policy  # noqa: E402
from agentloop.templates import Qwen38  # noqa: E402
from training.delta import gated_delta_rule  # noqa: E402
from training.drafter import BlockDraft, DraftShape, draft_loss, features  # noqa: E402
from training.episodes import episode, segments  # noqa: E402
from training.export import export  # noqa: E402
from training.export_lfm2 import export_lfm2  # noqa: E402
from training.losses import losses  # noqa: E402
from training.make_drafter import export_drafter, train_drafter  # noqa: E402
from training.model import Shape, TinyHybrid  # noqa: E402
from training.model_lfm2 import Lfm2Shape, TinyLfm2  # noqa: E402
from training.samples import copy_rows, encoded, packed_rows  # noqa: E402
from training.schedule import Plan, Stage  # noqa: E402
from training.start import BadStart, narrowed, read_gguf  # noqa: E402
from training.tokenizer import encode, train_tokenizer  # noqa: E402
from training.train import Trainer  # noqa: E402
from training.workers import Workers  # noqa: E402

SHAPE = Shape(vocabulary=640, layers=3, interval=3, width=64, heads=2, kv_heads=1, inner=96, state_heads=2)
STAGE = Stage(1.0, copying=0.3, system=0.3, mtp=0.3, ahead=2, long=0.2, rows=2, length=256)
PLAN = Plan(tokens=4 * 512, warmup=2, stages=(STAGE,))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Two threads of a busy machine wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return train_tokenizer(tmp_path_factory.mktemp("tokenizer") / "t.json", vocabulary=640, episodes=60)


class Always(Policy):
    """Drafts at every step, whatever the clock says."""

    def choose(self, candidates: Iterable[tuple[str, int, int]]) -> Choice:
        return Choice(0, min(3, max((most for _, _, most in candidates), default=0)))


def random_network(seed: int = 1) -> Any:
    torch.manual_seed(seed)
    model = TinyHybrid(SHAPE)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model


def test_logits_and_tokens_are_those_of_llama_cpp(tokenizer: Any, tmp_path: Path) -> None:
    model = random_network()
    path = export(model.state_dict(), SHAPE, tokenizer, tmp_path / "m.gguf", "F32", template=Qwen38.jinja())
    pieces = segments(episode(3))
    ids = encode(tokenizer, pieces)[:300]
    with torch.no_grad():
        wanted = model.head(model.trunk(torch.tensor([ids])))[0].numpy()
    with Engine.load(path, n_ctx=1024, sequences=1) as engine:
        assert engine.vocab.encode_parts(pieces) == encode(tokenizer, pieces)
        sequence = engine.sequence()
        for cut in (1, 64, 65, 200, 300):
            sequence.extend(ids[len(sequence.tokens) : cut])
            got = sequence.logits()
            assert np.abs(got - wanted[cut - 1]).max() < 1e-3 * np.ptp(wanted[cut - 1])


def test_logits_of_lfm2_are_those_of_llama_cpp(tokenizer: Any, tmp_path: Path) -> None:
    torch.manual_seed(1)
    shape = Lfm2Shape(vocabulary=640, layers=3, width=64, heads=2, kv_heads=1, inner=96)
    model = TinyLfm2(shape)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    path = export_lfm2(model.state_dict(), shape, tokenizer, tmp_path / "m.gguf", "F32", Qwen38.jinja())
    ids = encode(tokenizer, segments(episode(3)))[:200]
    with torch.no_grad():
        wanted = model.head(model.trunk(torch.tensor([ids])))[0, -1].numpy()
    with Engine.load(path, n_ctx=1024, sequences=1) as engine:
        sequence = engine.sequence()
        sequence.extend(ids)
        assert np.abs(sequence.logits() - wanted).max() < 1e-3 * np.ptp(wanted)


def test_a_file_reads_back_as_the_weights_it_was_written_from(tokenizer: Any, tmp_path: Path) -> None:
    model = random_network()
    path = export(model.state_dict(), SHAPE, tokenizer, tmp_path / "m.gguf", "F32")
    weights, shape, again = read_gguf(path)
    assert shape == SHAPE
    assert set(weights) == set(model.state_dict())
    for name, value in model.state_dict().items():
        assert torch.allclose(weights[name], value, atol=1e-5), name
    pieces = segments(episode(1))
    assert encode(again, pieces) == encode(tokenizer, pieces)
    narrow, smaller = narrowed(weights, shape, 48)
    TinyHybrid(smaller).load_state_dict(narrow)
    with pytest.raises(BadStart, match="96 units"):
        narrowed(weights, shape, 100)


def test_the_mtp_layer_drafts_in_llama_cpp(tokenizer: Any, tmp_path: Path) -> None:
    """Layers that add next to nothing repeat the last token, and an MTP layer that passes its token on foresees it."""
    model = random_network(2)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("o.weight", "down.weight")):
                parameter.mul_(0.01)
        model.embedding.weight.normal_()
        model.mtp_join.weight.copy_(torch.cat([torch.eye(64), torch.zeros(64, 64)], 1))
    path = export(model.state_dict(), SHAPE, tokenizer, tmp_path / "m.gguf", "F32", template=Qwen38.jinja())
    with Engine.load(path, n_ctx=1024, sequences=1, drafters=["mtp"]) as engine:
        engine.calibrate()
        engine.policy = Always([1.0] * 4)
        sequence = engine.sequence()
        sequence.extend([*range(40, 90), 77])
        assert [token.id for token in sequence.generate(24)] == [77] * 24
        drafted, accepted = sequence.stats.drafted, sequence.stats.accepted
    assert sum(drafted.values()) > 5
    assert drafted == accepted


@pytest.mark.parametrize("rank", [0, 16], ids=["dflash", "dspark"])
def test_a_block_drafter_drafts_in_llama_cpp_what_it_drafts_here(tokenizer: Any, tmp_path: Path, rank: int) -> None:
    target = random_network(5)
    torch.manual_seed(6)
    shape = DraftShape(taps=(1, 2), layers=2, block=5, inner=96, mask=SHAPE.vocabulary - 1, rank=rank)
    drafter = BlockDraft(SHAPE, shape)
    with torch.no_grad():
        for parameter in drafter.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model = export(target.state_dict(), SHAPE, tokenizer, tmp_path / "m.gguf", "F32", template=Qwen38.jinja())
    draft = export_drafter(drafter, tokenizer, tmp_path / "d.gguf", "F32")
    ids = encode(tokenizer, segments(episode(6)))[:90]
    tapped = features(target, torch.tensor(ids[:-1]), drafter.shape.taps)
    with torch.no_grad():
        tokens, anchor = torch.tensor(ids), torch.tensor([len(ids) - 1])
        hidden = drafter(tapped, tokens, anchor, target.embedding.weight)[0, 1:]
        wanted, gaps, chance = [ids[-1]], [1.0], 1.0
        for row in hidden:
            logits = row @ target.embedding.weight.t()
            if drafter.markov is not None:
                bias, odds = drafter.markov(row, torch.tensor(wanted[-1]))
                logits, chance = logits + bias, chance * odds.sigmoid().item()
            if chance >= 0.1 or len(wanted) == 1:  # drafts end where they are not sure of themselves
                wanted.append(int(logits.argmax()))
                first, second = logits.topk(2).values.tolist()
                gaps.append((first - second) / (logits.max() - logits.min()).item())
        wanted, gaps = wanted[1:], gaps[1:]
    clear = next((i for i, gap in enumerate(gaps) if gap < 1e-3), len(gaps))  # behind a tie, either may follow
    assert clear > 1
    with Engine.load(model, n_ctx=1024, sequences=1, drafters=["block"], draft_path=draft) as engine:
        sequence = engine.sequence()
        sequence.extend(ids[:-1])
        block = next(one for one in sequence._drafters if one.name == "block")
        with engine.lock:
            found = block.propose(ids, 4).ids
            assert found[:clear] == wanted[:clear]
            assert len(found) == len(wanted) or clear < len(wanted)


def test_a_drafter_learns_to_foresee(tokenizer: Any) -> None:
    shape = DraftShape(taps=(1, 2), layers=1, block=4, inner=64, mask=SHAPE.vocabulary - 1, rank=16)
    target = random_network(7)
    untrained = train_drafter(target, tokenizer, shape, steps=0, length=256)
    trained = train_drafter(target, tokenizer, shape, steps=60, length=256)
    rows, mask = packed_rows(tokenizer, random.Random(9), rows=1, length=256, system_share=0.0)
    tokens, learnt = torch.from_numpy(rows[0]), torch.from_numpy(mask[0])
    anchors = torch.arange(20, 240, 10)
    with torch.no_grad():
        before, after = (draft_loss(d, target, tokens, learnt, anchors)[0].item() for d in (untrained, trained))
    assert after < 0.985 * before


@pytest.mark.parametrize("word", ["karovin", "quoz", "sensor", "Xelobra"])
def test_a_word_is_cut_alike_wherever_it_stands(tokenizer: Any, word: str) -> None:
    inside = [tokenizer.decode([i]) for i in tokenizer.encode(word).ids]
    for before in ("Copy ", "lib/", "a-", '"', "(", "x =\n"):
        pieces = [tokenizer.decode([i]) for i in tokenizer.encode(before + word).ids][-len(inside) :]
        assert pieces[1:] == inside[1:]
        assert pieces[0].endswith(inside[0])


def test_chunks_of_the_delta_rule_are_its_recurrence() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.nn.functional.normalize(torch.randn(1, 150, 2, 16), dim=-1) for _ in range(3))
    g, b = -torch.rand(1, 150, 2) * 0.2, torch.rand(1, 150, 2)
    got = gated_delta_rule(q, k, v, g, b, chunk=64)
    for head in range(2):
        state = torch.zeros(16, 16)
        for t in range(150):
            key = k[0, t, head]
            state = state * g[0, t, head].exp()
            state = state + b[0, t, head] * torch.outer(v[0, t, head] - state @ key, key)
            assert torch.allclose(got[0, t, head], state @ q[0, t, head] / 4, atol=1e-5)


def test_a_resumed_training_is_an_unbroken_one(tokenizer: Any, tmp_path: Path) -> None:
    whole, parts, resumed = random_network(3), random_network(3), random_network(4)
    Trainer(whole, tokenizer, PLAN, tmp_path / "whole").run()
    Trainer(parts, tokenizer, PLAN, tmp_path / "parts").run(steps=2)
    second = Trainer(resumed, tokenizer, PLAN, tmp_path / "parts")
    assert (second.step, second.seen) == (2, 1024)
    second.run()
    for (name, a), b in zip(whole.state_dict().items(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_two_workers_share_a_batch(tokenizer: Any) -> None:
    """The gradients of a part each add up to those of the whole, but for rounding to bfloat16."""
    sums = []
    for count in (1, 2):
        network = random_network(3)
        with Workers(network, tokenizer, PLAN, seed=0, count=count) as workers:
            sums.append([(workers.gradients(step, 0), [p.grad for p in network.parameters()]) for step in range(2)])
    for (alone, whole), (shared, parts) in zip(*sums, strict=True):
        assert alone[0] == pytest.approx(shared[0], rel=0.01, abs=0.01)
        assert alone[1] == shared[1] == 512
        for a, b in zip(whole, parts, strict=True):
            assert (a is None and b is None) or (a - b).norm() <= 0.02 * a.norm() + 1e-7


def test_no_worker_outlives_a_training_that_is_killed(tokenizer: Any, tmp_path: Path) -> None:
    tokenizer.save(str(tmp_path / "t.json"))
    program = """
import os, sys
from pathlib import Path
import torch
from tests.training.test_networks import PLAN, random_network
from training.tokenizer import load_tokenizer
from training.workers import Workers
if __name__ == "__main__":
    torch.set_num_threads(1)
    workers = Workers(random_network(), load_tokenizer(Path(sys.argv[1])), PLAN, seed=0, count=2)
    workers.gradients(0, 0)
    print(workers.processes[0].pid, flush=True)
    os.kill(os.getpid(), 9)
"""
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "t.json")],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        timeout=120,
        check=False,
    )
    worker = int(done.stdout)
    for _ in range(100):
        if not Path(f"/proc/{worker}").exists() or "Z (" in Path(f"/proc/{worker}/status").read_text():
            break
        time.sleep(0.1)
    else:
        os.kill(worker, 9)
        pytest.fail("the worker lives on")


@pytest.mark.parametrize("network", [TinyHybrid(Shape()), TinyLfm2(Lfm2Shape())], ids=["qwen35", "lfm2"])
def test_a_network_copies_before_it_is_trained(network: Any, tokenizer: Any) -> None:
    tokens, mask = (torch.from_numpy(x) for x in copy_rows(tokenizer, np.random.default_rng(0), rows=4, length=512))
    with torch.no_grad():
        _, facts = losses(network, tokens, mask, learnt=1.0)
    _, right, count, _, _ = facts.tolist()
    assert right > 0.6 * count


def test_a_few_steps_learn_something(tokenizer: Any, tmp_path: Path) -> None:
    plan = dataclasses.replace(
        PLAN, tokens=40 * 512, rate=4e-3, warmup=5, decay=0.3, stages=(dataclasses.replace(STAGE, copying=0.0),)
    )
    seen: list[dict[str, Any]] = []
    Trainer(random_network(), tokenizer, plan, tmp_path).run(log=seen.append)
    assert seen[-1]["episode_loss"] < 0.85 * seen[0]["episode_loss"]


def test_only_replies_are_learnt(tokenizer: Any) -> None:
    for seed in range(30):
        e = episode(seed)
        ids, weights = encoded(tokenizer, e, with_system=seed % 2 == 0)
        learnt = tokenizer.decode([i for i, w in zip(ids, weights, strict=True) if w], skip_special_tokens=False)
        replies = [m for m in e.messages if m["role"] == "assistant" and m["learn"]]
        assert learnt.count("<|im_end|>") == len(replies)
        assert "<|im_start|>" not in learnt
        assert "<tool_response>" not in learnt
        assert all(m["content"] in learnt for m in replies)


def test_exercises_ask_for_what_was_there_before(tokenizer: Any) -> None:
    tokens, mask = copy_rows(tokenizer, np.random.default_rng(0), rows=64, length=128)
    assert 0.2 < mask.mean() < 0.8
    for row, marks in zip(tokens, mask, strict=True):
        for at in np.flatnonzero(marks):
            assert row[at] in row[:at]


def test_rows_are_full_and_a_seed_is_a_batch(tokenizer: Any) -> None:
    first = packed_rows(tokenizer, random.Random(1), rows=2, length=300, system_share=0.5)
    again = packed_rows(tokenizer, random.Random(1), rows=2, length=300, system_share=0.5)
    assert first[0].shape == (2, 300)
    assert (first[0] == again[0]).all()
    assert first[1].any()
