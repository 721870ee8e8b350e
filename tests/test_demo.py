"""The demo: its sample is broken, its check cannot be fooled, and the agent repairs it."""

from __future__ import annotations

from pathlib import Path

from agentloop.demo import copy_sample, sample_passes


def repair(folder: Path) -> None:
    module = folder / "calc.py"
    module.write_text(module.read_text().replace("return a - b", "return a + b", 1))


def test_the_sample_fails_as_it_ships(tmp_path: Path) -> None:
    assert not sample_passes(copy_sample(tmp_path))


def test_a_repaired_sample_passes(tmp_path: Path) -> None:
    repair(copy_sample(tmp_path))
    assert sample_passes(tmp_path)


def test_altered_tests_do_not_count(tmp_path: Path) -> None:
    copy_sample(tmp_path)
    (tmp_path / "test_calc.py").write_text("def test_nothing():\n    pass\n")
    (tmp_path / "conftest.py").write_text("collect_ignore_glob = ['*']\n")
    assert not sample_passes(tmp_path)


def test_a_deleted_module_does_not_pass(tmp_path: Path) -> None:
    copy_sample(tmp_path)
    (tmp_path / "calc.py").unlink()
    assert not sample_passes(tmp_path)
