"""What a step costs: measured beside other work, kept in a file, and measured anew where the file is of no use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentloop import Engine
from agentloop.engine.calibration import Curve, cache_path, cached_curve, curve_of, measure_curve, store_curve

TRUE = [0.7, 0.8, 1.0, 1.1]
SWITCH = 0.2
ROUNDS = 5


@given(delays=st.lists(st.floats(0.0, 50.0), min_size=len(TRUE) * ROUNDS, max_size=len(TRUE) * ROUNDS), data=st.data())
def test_other_work_on_the_machine_does_not_get_into_the_curve(delays: list[float], data: st.DataObject) -> None:
    quiet = data.draw(st.integers(0, ROUNDS - 1))
    steady: list[list[float]] = []
    changed: list[list[float]] = []
    for width, seconds in enumerate(TRUE):
        late = [0.0 if turn == quiet else delays[width * ROUNDS + turn] for turn in range(ROUNDS)]
        steady.append([seconds + delay for delay in late])
        changed.append([seconds + SWITCH + delay for delay in late])
    curve = curve_of(steady, changed)
    assert curve.verify_s == TRUE
    assert curve.switch_s == pytest.approx(SWITCH)


def test_a_change_of_width_never_costs_less_than_nothing() -> None:
    assert curve_of([[1.0, 1.2]], [[0.9, 1.1]]).switch_s == 0.0


def test_a_curve_is_kept_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with Engine.load(n_ctx=512, sequences=1, threads=1) as engine:
        assert cached_curve(engine, 3) is None
        measured = measure_curve(engine, 4, depth=16)
        assert len(measured.verify_s) == 4
        assert min(measured.verify_s) > 0 <= measured.switch_s
        assert store_curve(engine, measured)
        assert cached_curve(engine, 4) == measured
        assert cached_curve(engine, 2) == Curve(measured.verify_s[:2], measured.switch_s)
        assert cached_curve(engine, 5) is None  # it does not go that far


def sizes_of(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of every batch from here on that llama.cpp decoded."""
    sizes: list[int] = []
    decode = engine.context.decode

    def seen(ids: list[int], *rest: Any) -> int:
        code = decode(ids, *rest)
        if code == 0:
            sizes.append(len(ids))
        return code

    monkeypatch.setattr(engine.context, "decode", seen)
    return sizes


def test_a_full_context_is_not_taken_for_fast_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    with Engine.load(n_ctx=512, sequences=2, threads=1) as engine:
        sequence = engine.sequence()
        sequence.extend([(i * 37) % 256 for i in range(500)])
        expected = sequence.logits()
        sizes = sizes_of(engine, monkeypatch)
        measure_curve(engine, 17)
        assert all(sizes.count(rows) >= 4 for rows in range(1, 18))
        assert (sequence.logits() == expected).all()  # it was parked meanwhile, and nothing of it is lost
        sequence.truncate(490)
        assert len(list(sequence.generate(4))) == 4


def test_few_tokens_before_them_do_not_make_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    with Engine.load(n_ctx=512, sequences=1, threads=1) as engine:
        sizes = sizes_of(engine, monkeypatch)
        measure_curve(engine, 17, depth=1)
        assert all(sizes.count(rows) >= 4 for rows in range(1, 18))


def test_more_rows_than_the_engine_verifies_are_refused() -> None:
    with Engine.load(n_ctx=512, sequences=1, threads=1, draft_max=3) as engine:
        with pytest.raises(ValueError, match="draft_max"):
            measure_curve(engine, 400)
        assert len(measure_curve(engine, 4).verify_s) == 4


def test_a_shorter_curve_does_not_replace_a_longer_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with Engine.load(n_ctx=512, sequences=1, threads=1) as engine:
        assert store_curve(engine, Curve([1.0, 2.0, 3.0], 0.1))
        assert not store_curve(engine, Curve([5.0, 6.0], 0.1))
        assert cached_curve(engine, 3) == Curve([1.0, 2.0, 3.0], 0.1)
        assert store_curve(engine, Curve([5.0, 6.0, 7.0], 0.1))
        assert cached_curve(engine, 3) == Curve([5.0, 6.0, 7.0], 0.1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"verify_s": [1.0, 0.0], "switch_s": 0}',
        '{"verify_s": [1.0, NaN], "switch_s": 0}',
        '{"verify_s": [1.0, 2.0], "switch_s": Infinity}',
        '{"verify_s": [1.0, 2.0]}',
    ],
)
def test_a_file_of_no_use_is_measured_anew(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with Engine.load(n_ctx=512, sequences=1, threads=1, draft_max=1, drafters="suffix") as engine:
        path = cache_path(engine)
        path.parent.mkdir(parents=True)
        path.write_text(text)
        assert cached_curve(engine, 2) is None
        engine.calibrate()
        assert cached_curve(engine, 2) is not None
