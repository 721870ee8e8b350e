"""Second oracle: bytes that llama-server wrote with llama.cpp's own Jinja engine, kept in `goldens`.

Made by scripts/parity_goldens.py. A golden that names rules in `differs` is one where llama.cpp and Jinja2 write
different bytes for the official template; agentloop follows Jinja2, and the rules must explain the whole difference.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agentloop.exceptions import TemplateError
from agentloop.templates import Qwen38
from tests.parity.corpus import CASES, Case
from tests.parity.families import FAMILIES
from tests.parity.llamacpp import render_by, served
from tests.parity.oracle import messages_for, official_text

GOLDENS = Path(__file__).parent / "goldens"
SERVER_ONLY = {"Failed to parse messages", "JSON schema error"}
"""What the server refuses before a template is asked."""


@cache
def golden(family: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((GOLDENS / f"{family}.json").read_text("utf-8"))
    return data


@pytest.mark.parametrize("family", FAMILIES)
def test_the_goldens_say_where_they_are_from_and_cover_the_corpus(family: str) -> None:
    data = golden(family)
    assert data["source"].startswith("llama-cpp-python ")
    assert data["version"].startswith("version: ")
    assert set(data["cases"]) == {case.name for case in CASES}
    assert sum("text" in entry for entry in data["cases"].values()) >= 330


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_render_is_what_llama_cpp_writes(family: str, case: Case) -> None:
    template = FAMILIES[family]
    entry = golden(family)["cases"][case.name]
    messages = served(family, case.messages)
    if "refused" in entry:
        if entry["refused"].split(":")[0] not in SERVER_ONLY and not entry["refused"].startswith("JSON schema error"):
            with pytest.raises(TemplateError):
                template.render(messages, case.tools, **case.knobs)
        return
    text = template.render(messages, case.tools, **case.knobs)
    if "differs" not in entry:
        assert text == entry["text"]
        return
    assert text != entry["text"], "the engines agree here: make the goldens again"
    oracle = Qwen38.jinja() if family == "qwen3_8" else official_text(family)
    if oracle is not None:
        by_rule = render_by(entry["differs"], oracle, messages_for(family, messages), case.tools, case.knobs)
        assert by_rule == entry["text"]


def test_our_own_jinja_is_the_one_that_llama_cpp_was_given() -> None:
    """The script compares it with the official template on llama.cpp's engine, case by case."""
    digest = hashlib.sha256(Qwen38.jinja().encode()).hexdigest()
    assert golden("qwen3_8")["own_template_sha256"] == digest, "qwen3_8.jinja changed: run scripts/parity_goldens.py"
