"""The grammar of answers that are JSON: from behind the reasoning to the end of the turn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .call_constraint import json_rule

__all__ = ["answer_grammar", "opening_grammar"]

_LAID_OUT = {"whitespace_pattern": r"[ \n]{1,40}", "lenient": True}
"""Answers may be laid out over lines, as models like to write them, but white space never goes on without end."""


def answer_grammar(
    schema: Mapping[str, Any], *, gap: str | None = None, openers: Sequence[str] = (), end: str | None = None
) -> str:
    """The grammar of an answer that fits `schema`, and of special tokens `openers` in its place, behind `gap` (None: up
    to two newlines). `end` is the special token that follows (None: whatever ends a generation).

    Properties come in the schema's order, as `arguments.narrowing` says what else a grammar holds.
    """
    answer = "answer" if end is None else f"answer {end}"
    forms = " | ".join([answer, *openers])
    lead = r"/\n{0,2}/" if gap is None else json.dumps(gap)
    return f"start: GAP ({forms})\nGAP: {lead}\nanswer: {json_rule(schema, options=_LAID_OUT)}\n"


def opening_grammar(opener: str, *, gap: str | None = None) -> str:
    """The grammar of a reply that must call: nothing but the special token that begins a call, behind `gap`."""
    lead = r"/\n{0,2}/" if gap is None else json.dumps(gap)
    return f"start: GAP {opener}\nGAP: {lead}\n"
