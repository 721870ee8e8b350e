"""Every Python block of these pages runs, one behind the other, as a reader would type them."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.mark.parametrize(
    ("page", "least"),
    [("agent.md", 7), ("constraints.md", 2), ("live-state.md", 2), ("observability.md", 4), ("speculation.md", 1)],
)
def test_blocks_run(page: str, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) >= least
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "docs"}
    for i, block in enumerate(blocks):
        code = compile(block, f"{page}, block {i}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(_awaited(code, names))
        else:
            exec(code, names)
    names["engine"].close()


async def _awaited(code: Any, names: dict[str, Any]) -> None:
    await eval(code, names)
