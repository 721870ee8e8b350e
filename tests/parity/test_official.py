"""First oracle: the official templates under transformers' Jinja settings, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest

from agentloop.exceptions import TemplateError
from agentloop.templates import Qwen38
from agentloop.templates.base import join
from tests.parity.corpus import CASES, Case
from tests.parity.families import FAMILIES
from tests.parity.oracle import TemplateRefusal, environment, official, official_text

OURS = environment().from_string(Qwen38.jinja())


def need(family: str) -> None:
    if official_text(family) is None:
        pytest.skip(
            f"the official template {family} is not to be had here (no folder with it, no network for the trl wheel): "
            "the golden bytes in test_goldens.py are the only oracle of this run"
        )


def expected(family: str, case: Case) -> str | None:
    """The official bytes; None where the official template refuses."""
    try:
        return official(family, case.messages, case.tools, case.knobs)
    except TemplateRefusal:
        return None


def test_the_corpus_is_large_and_its_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 200


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_render_is_the_official_text(family: str, case: Case) -> None:
    need(family)
    template = FAMILIES[family]
    text = expected(family, case)
    if text is None:
        with pytest.raises(TemplateError):
            template.render(case.messages, case.tools, **case.knobs)
        return
    assert template.render(case.messages, case.tools, **case.knobs) == text
    assert join(template.segments(case.messages, case.tools, **case.knobs)) == text


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_our_own_jinja_writes_what_the_renderer_writes(case: Case) -> None:
    variables: dict[str, Any] = {"add_generation_prompt": True, **case.knobs}
    try:
        text = OURS.render(messages=case.messages, tools=case.tools or None, **variables)
    except TemplateRefusal:
        with pytest.raises(TemplateError):
            Qwen38().render(case.messages, case.tools, **case.knobs)
        return
    assert text == Qwen38().render(case.messages, case.tools, **case.knobs)
