"""The commands that make models: what they refuse, and that they refuse it before anything is written or trained."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[training]'")
pytest.importorskip("tokenizers", reason="tokenizers is not installed: pip install '.[training]'")

from agentloop.models import default_drafter_path, default_model_path  # noqa: E402
from training import make_drafter  # noqa: E402
from training.__main__ import main, make  # noqa: E402
from training.model import Shape  # noqa: E402
from training.schedule import Plan, Stage  # noqa: E402
from training.start import Start, read_gguf, read_start  # noqa: E402
from training.train import OtherTraining  # noqa: E402

SHAPE = Shape(vocabulary=640, layers=3, interval=3, width=64, heads=2, kv_heads=1, inner=96, state_heads=2)
PLAN = Plan(tokens=512, warmup=2, stages=(Stage(1.0, copying=0.0, system=0.0, rows=2, length=256),))
MODEL = str(default_model_path())


def refused(arguments: list[str], command: Any, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> str:
    monkeypatch.setattr(sys, "argv", ["training", *arguments])
    with pytest.raises(SystemExit) as end:
        command()
    assert end.value.code == 2
    return str(capsys.readouterr().err).splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tokens", "0"], "whole number"),
        (["--tokens", "-5"], "whole number"),
        (["--tokens", "0.5"], "whole number"),
        (["--tokens", "nan"], "whole number"),
        (["--workers", "0"], "whole number"),
        (["--threads", "0"], "whole number"),
        (["--workers", "3"], "2 rows"),
        (["--short", "--workers", "3"], "2 rows"),
        (["--inner", "64"], "--start"),
        (["--start", MODEL, "--short"], "--short"),
        (["--start", "nowhere.gguf"], "nowhere.gguf"),
        (["--start", __file__], "no GGUF"),
        (["--start", str(default_drafter_path())], "dflash"),
        (["--start", MODEL, "--inner", "9999"], "units"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    out = tmp_path / "out"
    assert said in refused([*arguments, "--out", str(out)], main, capsys, monkeypatch)
    assert not out.exists()


@pytest.mark.parametrize(
    ("target", "out", "said"),
    [
        (MODEL, MODEL, "overwritten"),
        ("nowhere.gguf", "drafter.gguf", "nowhere.gguf"),
        (str(default_drafter_path()), "drafter.gguf", "dflash"),
        (MODEL, "/dev/null/drafter.gguf", "drafter"),
    ],
)
def test_a_drafter_that_cannot_be_made_is_refused(
    target: str, out: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    before = default_model_path().stat()
    assert said in refused([target, out], make_drafter.main, capsys, monkeypatch)
    assert default_model_path().stat().st_mtime_ns == before.st_mtime_ns
    assert not (tmp_path / "drafter.gguf").exists()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained")
    make(out, SHAPE, PLAN, episodes=60)
    return out


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"seed": 1}, ["seed"]),
        ({"plan": dataclasses.replace(PLAN, tokens=1024)}, ["plan"]),
        ({"shape": dataclasses.replace(SHAPE, inner=128)}, ["shape"]),
    ],
)
def test_another_training_does_not_go_on_from_a_checkpoint(
    change: dict[str, Any], differs: list[str], trained: Path
) -> None:
    before = {path: path.read_bytes() for path in trained.iterdir()}
    settings: dict[str, Any] = {"shape": SHAPE, "plan": PLAN, "episodes": 60, **change}
    with pytest.raises(OtherTraining, match="--out") as raised:
        make(trained, **settings)
    assert raised.value.differences == differs
    assert {path: path.read_bytes() for path in trained.iterdir()} == before


def test_a_start_does_not_go_into_the_folder_of_another_training(trained: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in trained.iterdir()}
    shipped = read_start(default_model_path())
    with pytest.raises(OtherTraining) as raised:
        make(trained, shipped.shape, PLAN, start=shipped)
    assert raised.value.differences == ["tokenizer"]
    own = read_start(trained / "tiny-hybrid.gguf")
    with pytest.raises(OtherTraining) as raised:
        make(trained, own.shape, PLAN, start=own)
    assert "start" in raised.value.differences
    assert {path: path.read_bytes() for path in trained.iterdir()} == before
    made = make(tmp_path / "refined", own.shape, PLAN, start=own)
    assert made["tokens"] == 512


def test_a_finished_training_is_exported_again(trained: Path) -> None:
    before = (trained / "tiny-hybrid.gguf").read_bytes()
    assert make(trained, SHAPE, PLAN, episodes=60)["steps"] == 1
    assert (trained / "tiny-hybrid.gguf").read_bytes() == before


def test_a_start_says_which_file_it_is_of(trained: Path) -> None:
    start = read_start(trained / "tiny-hybrid.gguf", 48)
    assert isinstance(start, Start)
    assert start.shape.inner == 48
    assert len(start.sha256) == 64
    _, shape, _ = read_gguf(trained / "tiny-hybrid.gguf")
    assert shape.inner == 96
