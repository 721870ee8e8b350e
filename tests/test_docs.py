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
    [
        ("agent.md", 7),
        ("agents.md", 3),
        ("approvals.md", 3),
        ("constraints.md", 2),
        ("integrations.md", 3),
        ("live-state.md", 2),
        ("observability.md", 4),
        ("output.md", 3),
        ("speculation.md", 1),
        ("testing.md", 3),
    ],
)
def test_blocks_run(page: str, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page == "integrations.md":
        pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) >= least
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "docs"}
    for i, block in enumerate(blocks):
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(block, f"{page}, block {i}", "exec", flags=flags, dont_inherit=True)
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(_awaited(code, names))
        else:
            exec(code, names)
    names["engine"].close()


async def _awaited(code: Any, names: dict[str, Any]) -> None:
    await eval(code, names)
