"""The lists of scripts/sabotage.py follow the code: every place is there once, every test is there."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


LISTS = loaded("guard_lists")


def test_every_guard_has_its_place_and_its_test() -> None:
    guards = LISTS.guards()
    assert len(guards) > 250
    wrong = {guard.what: found for guard in guards if (found := LISTS.faults(guard))}
    assert not wrong
    assert all(guard.old != guard.new for guard in guards)
    names = [guard.what for guard in guards]
    assert len(names) == len(set(names))


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    guard = LISTS.Guard("x", "a.py", "old", "new", "tests/t.py::test_x")
    assert LISTS.faults(guard, tmp_path) == ["a.py holds the place 0 times", "there is no test tests/t.py::test_x"]
    (tmp_path / "list.txt").write_text("= x\n@ a.py\n- old\n+ new\n")
    with pytest.raises(ValueError, match="not whole"):
        LISTS.guards(tmp_path)
    (tmp_path / "list.txt").write_text("= x\n@ a.py\n- old\n-   more\n+ \n? t.py::test_x\n\n= y\n- o\n+ n\n? test_y\n")
    first, second = LISTS.guards(tmp_path)
    assert (first.old, first.new, first.test) == ("old\n  more", "", "t.py::test_x")
    assert (second.file, second.test) == ("a.py", "t.py::test_y")
