"""Imports point one way: cli -> agent -> conversation -> {templates, tools, engine} -> leaves."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "agentloop"

LEAVES = frozenset({"arguments", "calls", "context", "events", "exceptions", "limits", "models"})
ALLOWED: dict[str, frozenset[str]] = dict.fromkeys(LEAVES, LEAVES)
"""By top-level module or package of agentloop: which others it may import at run time (itself always)."""
for _part in ("engine", "templates", "tools"):
    ALLOWED[_part] = LEAVES
ALLOWED["conversation"] = LEAVES | {"engine", "templates", "tools"}
ALLOWED["agent"] = ALLOWED["conversation"] | {"conversation"}
ALLOWED["bench"] = ALLOWED["testing"] = ALLOWED["agent"]
ALLOWED["integrations"] = ALLOWED["agent"] | {"agent"}
ALLOWED["demo"] = LEAVES | {"tools"}
ALLOWED["trace"] = LEAVES | {"conversation"}
ALLOWED["cli"] = frozenset(ALLOWED) | {"__init__"}
ALLOWED["__main__"] = frozenset({"cli"})
ALLOWED["__init__"] = frozenset(ALLOWED) - {"__main__", "bench", "cli", "demo", "trace"}

SOURCES = sorted(p for p in ROOT.rglob("*.py") if "sample" not in p.relative_to(ROOT).parts)


def part_of(path: Path) -> str:
    """The top-level module or package of agentloop that a source file belongs to."""
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def run_time_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Every node below `node`, functions included, but not what only a type checker sees."""
    for child in ast.iter_child_nodes(node):
        if for_type_checkers(child):
            assert isinstance(child, ast.If)
            for other in child.orelse:
                yield other
                yield from run_time_nodes(other)
            continue
        yield child
        yield from run_time_nodes(child)


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """(line, absolute module name) of everything that a file imports; `from a import b` yields a.b."""
    package = ["agentloop", *path.relative_to(ROOT).parts[:-1]]
    for node in run_time_nodes(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{stem}.{alias.name}") for alias in node.names)


def targets(path: Path) -> Iterator[tuple[int, str]]:
    """(line, part) of every part of agentloop that a file imports."""
    for line, name in imported(path):
        words = name.split(".")
        if words[0] != "agentloop":
            continue
        found = words[1] if len(words) > 1 else "__init__"
        is_part = (ROOT / found).is_dir() or (ROOT / f"{found}.py").exists()
        yield line, found if is_part else "__init__"


def test_every_part_has_a_place() -> None:
    assert {part_of(p) for p in SOURCES} <= set(ALLOWED), "give the new part its place in ALLOWED"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    part = part_of(path)
    wrong = [
        f"line {line}: {part} imports {other}"
        for line, other in targets(path)
        if other != part and other not in ALLOWED.get(part, frozenset())
    ]
    assert not wrong


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_native_imports_llama_cpp(path: Path) -> None:
    if path.relative_to(ROOT).as_posix() == "engine/_native.py":
        return
    assert not [f"line {line}" for line, name in imported(path) if name.split(".")[0] == "llama_cpp"]


def test_the_rule_sees_relative_and_late_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The walker itself: an import in a function counts, one for type checkers does not."""
    for name in ("tools", "engine"):
        (tmp_path / name).mkdir()
    source = tmp_path / "tools" / "bad.py"
    source.write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from ..engine import Engine\n"
        "def f():\n    from ..engine import Engine\n    import agentloop.engine.seam\n"
    )
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    assert [part for _, part in targets(source)] == ["engine", "engine"]
