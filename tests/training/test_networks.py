"""The network that is trained and the file that is written are the same function."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install agentloop[training]")
pytest.importorskip("tokenizers", reason="tokenizers is not installed: pip install agentloop[training]")

from agentloop import Engine  # noqa: E402
from agentloop.templates import Qwen38  # noqa: E402
from training.delta import gated_delta_rule  # noqa: E402
from training.episodes import episode, segments  # noqa: E402
from training.export import export  # noqa: E402
from training.model import Shape, TinyHybrid  # noqa: E402
from training.samples import copy_rows, encoded, packed_rows  # noqa: E402
from training.schedule import Plan  # noqa: E402
from training.tokenizer import encode, train_tokenizer  # noqa: E402
from training.train import Trainer  # noqa: E402

SHAPE = Shape(vocabulary=640, layers=3, interval=3, width=64, heads=2, kv_heads=1, inner=96, state_heads=2)
PLAN = Plan(tokens=4 * 512, rows=2, length=256, warmup=2)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return train_tokenizer(tmp_path_factory.mktemp("tokenizer") / "t.json", vocabulary=640, episodes=60)


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


def test_mtp_drafts_are_those_of_the_network(tokenizer: Any, tmp_path: Path) -> None:
    """The MTP layer in llama.cpp predicts what ours predicts: with random weights a wrong form would agree on none."""
    model = random_network(2)
    path = export(model.state_dict(), SHAPE, tokenizer, tmp_path / "m.gguf", "F32", template=Qwen38.jinja())
    with Engine.load(path, n_ctx=1024, sequences=1, drafters=["mtp"]) as engine:
        sequence = engine.sequence()
        sequence.extend(encode(tokenizer, segments(episode(4), with_system=False))[:120])
        out = [token.id for token in sequence.generate(24)]
        ids = list(sequence.tokens)
        drafted = sequence.stats.drafted
    assert len(out) == 24
    assert sum(drafted.values()) > 0
    with torch.no_grad():
        tokens = torch.tensor([ids])
        assert model.head(model.trunk(tokens))[0, -25:-1].argmax(-1).tolist() == out


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
    whole = Trainer(tokenizer, SHAPE, PLAN, tmp_path / "whole").run()
    first = Trainer(tokenizer, SHAPE, PLAN, tmp_path / "parts")
    first.plan = dataclasses.replace(PLAN, tokens=1024)
    first._one_step()
    first._one_step()
    first.save()
    second = Trainer(tokenizer, SHAPE, PLAN, tmp_path / "parts")
    assert (second.step, second.seen) == (2, 1024)
    resumed = second.run()
    for (name, a), b in zip(whole.state_dict().items(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_a_few_steps_learn_something(tokenizer: Any, tmp_path: Path) -> None:
    plan = dataclasses.replace(PLAN, tokens=60 * 512, warmup=10, stages=(dataclasses.replace(PLAN.stages[-1]),))
    seen: list[dict[str, Any]] = []
    Trainer(tokenizer, SHAPE, plan, tmp_path).run(log=seen.append)
    assert seen[-1]["episode_loss"] < 0.6 * seen[0]["episode_loss"]


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
    import random

    first = packed_rows(tokenizer, random.Random(1), rows=2, length=300, system_share=0.5)
    again = packed_rows(tokenizer, random.Random(1), rows=2, length=300, system_share=0.5)
    assert first[0].shape == (2, 300)
    assert (first[0] == again[0]).all()
    assert first[1].any()
