"""The page about tools says what is so: its blocks run, in order, in one namespace."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tools.md"


def test_the_blocks_of_the_page_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 7
    namespace: dict[str, Any] = {"__name__": "page"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{PAGE.name} block {number}", "exec"), namespace)
