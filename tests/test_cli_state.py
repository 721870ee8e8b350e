"""`agentloop calibrate` and `agentloop inspect` of a saved state."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from agentloop import Engine
from agentloop.cli import main


def test_calibrate_measures_draws_and_caches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert main(["calibrate", "--rows", "4", "--json", "--svg", str(tmp_path / "curve.svg")]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert len(facts["verify_s"]) == 4
    assert min(facts["verify_s"]) > 0
    assert json.loads(Path(facts["cached"]).read_text())["threads"] == facts["threads"]
    root = ElementTree.fromstring((tmp_path / "curve.svg").read_text())
    assert len(root.findall(".//{http://www.w3.org/2000/svg}circle")) == 4
    assert main(["calibrate", "--rows", "3"]) == 0
    assert "times one row" in capsys.readouterr().out


def test_inspect_a_saved_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "talk.state"
    with Engine.load(n_ctx=1024) as engine:
        sequence = engine.sequence()
        sequence.extend(engine.vocab.encode("The tests fail."))
        sequence.checkpoint(label="system", pinned=True)
        next(sequence.generate(1))
        path.write_bytes(sequence.snapshot({"note": b"12345"}).to_bytes())
        n = len(sequence)
    assert main(["inspect", str(path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["tokens"], facts["decoded"]) == (n, n - 1)
    assert [(c["position"], c["label"], c["pinned"]) for c in facts["checkpoints"]] == [(n - 1, "system", True)]
    assert facts["extra"] == {"note": 5}
    assert main(["inspect", str(path)]) == 0
    assert "whole and unaltered" in capsys.readouterr().out
    path.write_bytes(path.read_bytes()[:-9])
    assert main(["inspect", str(path)]) == 1
    assert "cut or changed" in capsys.readouterr().err


def test_inspect_says_what_a_checkpoint_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    with Engine.load(n_ctx=1024) as engine:
        sequence = engine.sequence()
        sequence.extend([1, 2, 3])
        sequence.checkpoint()
        real = sequence.stats.checkpoint_bytes
    assert facts["checkpoint_bytes"] == pytest.approx(real, rel=0.01)
