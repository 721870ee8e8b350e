"""target_probs against an independent computation, and draws against target_probs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentloop.engine import Engine, Sampling, target_probs
from agentloop.engine.sampling import Sampler, uniform
from agentloop.exceptions import DecodeError


def row_of(seed: int, n: int = 40) -> Any:
    return np.random.default_rng(seed).normal(0, 3, n).astype(np.float32)


def dense(row: Any, sampling: Sampling, history: Any = (), allowed: Any = None) -> Any:
    ids, probs = target_probs(row, sampling, history, allowed)
    out = np.zeros(len(row))
    out[ids] = probs
    return out


def by_hand(row: Any, s: Sampling, history: Any, allowed: Any) -> Any:
    """The same distribution, one filter after the other over the whole row."""
    x = [float(v) for v in row]
    if allowed is not None:
        x = [v if ok else -np.inf for v, ok in zip(x, allowed, strict=True)]
    recent = list(history)[-s.penalty_last_n :] if s.penalty_last_n else []
    for i, n in Counter(recent).items():
        v = x[i] / s.repetition_penalty if x[i] > 0 else x[i] * s.repetition_penalty
        x[i] = v - n * s.frequency_penalty - s.presence_penalty
    order = sorted(range(len(x)), key=lambda i: (-x[i], i))
    order = [i for i in order if x[i] > -np.inf]
    if s.top_k:
        order = order[: s.top_k]
    weights = np.exp(np.array([x[i] for i in order]) - x[order[0]])
    weights /= weights.sum()
    keep, total = 0, 0.0
    while keep < len(order):
        total += weights[keep]
        keep += 1
        if total >= s.top_p:
            break
    order = order[:keep]
    order = [i for i in order if x[i] >= x[order[0]] + np.log(s.min_p)] if s.min_p else order
    out = np.zeros(len(x))
    for i in order:
        out[i] = np.exp((x[i] - x[order[0]]) / s.temperature)
    return out / out.sum()


samplings = st.builds(
    Sampling,
    temperature=st.floats(0.2, 3.0),
    top_k=st.integers(0, 45),
    top_p=st.floats(0.05, 1.0),
    min_p=st.sampled_from([0.0, 0.02, 0.3]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    presence_penalty=st.sampled_from([0.0, 0.7]),
    frequency_penalty=st.sampled_from([0.0, 0.4]),
    penalty_last_n=st.sampled_from([0, 3, 64]),
)


@given(
    seed=st.integers(0, 10**6),
    sampling=samplings,
    history=st.lists(st.integers(0, 39), max_size=9),
    masked=st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_target_probs_is_the_chain_of_filters(seed: int, sampling: Sampling, history: list[int], masked: bool) -> None:
    row = row_of(seed)
    allowed = np.random.default_rng(seed + 1).random(40) < 0.5 if masked else None
    if allowed is not None:
        allowed[3] = True
    np.testing.assert_allclose(
        dense(row, sampling, history, allowed), by_hand(row, sampling, history, allowed), atol=1e-9
    )


def test_draws_follow_the_distribution() -> None:
    """Chi-square over 20,000 draws at positions of one seed, and over 20,000 seeds at one position."""
    row, sampling = row_of(5, 12), Sampling(temperature=1.4, top_k=9, seed=1)
    expected = dense(row, sampling)
    live = expected > 0
    sampler = Sampler(sampling)
    over_positions = Counter(sampler.choose(row, range(n)) for n in range(20_000))
    over_seeds = Counter(
        Sampler(Sampling(temperature=1.4, top_k=9, seed=s)).choose(row, [0] * 7) for s in range(20_000)
    )
    for counts in (over_positions, over_seeds):
        seen = np.array([counts[i] for i in range(12)])
        assert seen[~live].sum() == 0
        chi = (((seen - 20_000 * expected) ** 2)[live] / (20_000 * expected[live])).sum()
        assert chi < 27.9, f"chi-square {chi:.1f} over 8 degrees of freedom"  # p = 0.0005


def test_the_chi_square_would_find_a_wrong_sampler() -> None:
    row, sampling = row_of(5, 12), Sampling(temperature=1.4, top_k=9, seed=1)
    expected = dense(row, Sampling(temperature=1.5, top_k=9))
    counts = Counter(Sampler(sampling).choose(row, range(n)) for n in range(20_000))
    live = expected > 0
    seen = np.array([counts[i] for i in range(12)])
    assert (((seen - 20_000 * expected) ** 2)[live] / (20_000 * expected[live])).sum() > 27.9


def test_uniform_numbers_are_spread_and_stable() -> None:
    values = np.array([uniform(s, p) for s in range(60) for p in range(300)])
    assert values.min() >= 0.0
    assert values.max() < 1.0
    counts = np.histogram(values, 20, (0, 1))[0]
    assert ((counts - 900) ** 2 / 900).sum() < 45
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.03
    assert uniform(1, 2) == uniform(1, 2) != uniform(2, 1)


def test_edges() -> None:
    row = row_of(1)
    greedy = target_probs(row, Sampling())
    assert greedy[0].tolist() == [int(row.argmax())]
    assert greedy[1].tolist() == [1.0]
    with pytest.raises(ValueError, match="no token is allowed"):
        target_probs(row, Sampling(temperature=1.0), allowed=np.zeros(40, np.bool_))
    with pytest.raises(DecodeError, match="not numbers"):
        Sampler(Sampling()).choose(np.full(5, np.nan, np.float32), [])
    mask = np.arange(40) % 2 == 0
    assert Sampler(Sampling()).choose(row, [], mask) == int(np.where(mask, row, -np.inf).argmax())
    with pytest.raises(ValueError, match="no token is allowed"):
        Sampler(Sampling()).choose(row, [], np.zeros(40, np.bool_))
    ties = np.zeros(6, np.float32)
    assert target_probs(ties, Sampling(temperature=1.0, top_k=2))[0].tolist() == [0, 1]
    cold = dense(row, Sampling(temperature=1e-6))
    assert cold[int(row.argmax())] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -1.0),
        ("temperature", float("nan")),
        ("top_k", -1),
        ("top_p", 0.0),
        ("min_p", 1.0),
        ("penalty_last_n", -1),
    ],
)
def test_senseless_settings_are_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        Sampling(**{field: value})


def test_a_seed_gives_the_same_text(model_paths: dict[str, Path]) -> None:
    """Without drafts: with them the widths of batches follow the clock, and so do the last bits of logits."""
    with Engine.load(model_paths["qwen35"], n_ctx=512, drafters="none", threads=1) as engine:
        texts = []
        for seed in (1, 1, 2):
            sequence = engine.sequence()
            sequence.extend(range(20))
            texts.append([t.id for t in sequence.generate(30, Sampling(temperature=2.0, seed=seed))])
            sequence.close()
        assert texts[0] == texts[1] != texts[2]


def test_logprobs(embedded: Engine) -> None:
    sequence = embedded.sequence()
    sequence.extend(embedded.vocab.encode("<|im_start|>user\nHello!", special=True))
    row = sequence.logits().astype(np.float64)
    token = next(sequence.generate(1, Sampling(logprobs=True)))
    expected = row[token.id] - row.max() - np.log(np.exp(row - row.max()).sum())
    assert token.logprob == pytest.approx(float(expected), abs=1e-6)
    sequence.close()


def test_a_mask_comes_before_the_distribution_is_cut() -> None:
    row = np.linspace(0.0, 9.0, 10).astype(np.float32)
    allowed = np.zeros(10, bool)
    allowed[[1, 2, 3]] = True
    drawn = {Sampler(Sampling(temperature=1.0, top_k=2, seed=seed)).choose(row, [1], allowed) for seed in range(50)}
    assert drawn == {2, 3}
