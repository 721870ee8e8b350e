"""Every public module says what it offers: `__all__` is there, sorted, importable and documented."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent / "agentloop"


def public_modules() -> list[str]:
    names = []
    for path in ROOT.rglob("*.py"):
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        if "sample" in parts:
            continue
        if parts[-1] == "__init__":
            parts.pop()
        if not any(part.startswith("_") for part in parts):
            names.append(".".join(["agentloop", *parts]))
    return sorted(names)


def order(name: str) -> tuple[int, list[tuple[int, str]]]:
    """Constants, then classes, then the rest, numbers by value: the order that ruff enforces."""
    group = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    pieces = re.findall(r"\d+|\D+", name)
    return group, [(int(piece), "") if piece.isdigit() else (-1, piece) for piece in pieces]


@pytest.fixture(params=public_modules())
def module(request: pytest.FixtureRequest) -> ModuleType:
    if str(request.param).startswith("agentloop.integrations.pydantic_ai"):
        pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")
    return importlib.import_module(request.param)


def test_all_is_there_and_sorted(module: ModuleType) -> None:
    names = getattr(module, "__all__", None)
    assert names is not None, f"{module.__name__} has no __all__"
    assert list(names) == sorted(set(names), key=order)


def test_all_is_importable_and_documented(module: ModuleType) -> None:
    assert (module.__doc__ or "").strip(), f"{module.__name__} has no docstring"
    for name in module.__all__:
        value = getattr(module, name)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        text = (vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__) or ""
        assert text.strip(), f"{module.__name__}.{name} has no docstring"
        assert not text.startswith(f"{name}("), f"{module.__name__}.{name} has only a generated docstring"


@pytest.mark.parametrize("package", ["", ".agent", ".conversation", ".engine", ".templates", ".tools"])
def test_public_methods_are_documented(package: str) -> None:
    """Of every class that a package offers; a protocol's method may be documented by its signature alone."""
    offered = importlib.import_module(f"agentloop{package}")
    missing = []
    for name in offered.__all__:
        value = getattr(offered, name)
        if not inspect.isclass(value) or getattr(value, "_is_protocol", False):
            continue
        for member, thing in vars(value).items():
            function = getattr(thing, "__func__", thing)
            if member.startswith("_") or not inspect.isfunction(function):
                continue
            if not (inspect.getdoc(getattr(value, member)) or "").strip():
                missing.append(f"{name}.{member}")
    assert not missing, f"no docstring on {', '.join(missing)}"


def test_import_has_no_effects() -> None:
    """Importing the package prints nothing and does not load llama.cpp."""
    code = "import sys, agentloop, agentloop.cli; sys.exit('llama_cpp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
