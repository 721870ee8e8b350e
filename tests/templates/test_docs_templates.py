"""The page about templates says what is so: its blocks run, in order, in one namespace."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from agentloop.templates.lfm2_calls import call_text, read_calls

PAGE = Path(__file__).resolve().parents[2] / "docs" / "templates.md"


def test_the_blocks_of_the_page_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 7
    namespace: dict[str, Any] = {"__name__": "page"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{PAGE.name} block {number}", "exec"), namespace)


def test_what_the_call_list_of_lfm2_cannot_tell() -> None:
    one_string, two = {"a": "x', b='y"}, {"a": "x", "b": "y"}
    assert call_text("f", one_string) == call_text("f", two)
    assert read_calls(f"[{call_text('f', one_string)}]")[0].arguments == two
