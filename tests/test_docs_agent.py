"""Every Python block of docs/agent.md runs, one behind the other, as a reader would type them."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parent.parent / "docs" / "agent.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(BLOCKS) >= 7
    names: dict[str, Any] = {"__name__": "docs"}
    for i, block in enumerate(BLOCKS):
        code = compile(block, f"docs/agent.md, block {i}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(_awaited(code, names))
        else:
            exec(code, names)
    names["engine"].close()


async def _awaited(code: Any, names: dict[str, Any]) -> None:
    await eval(code, names)
