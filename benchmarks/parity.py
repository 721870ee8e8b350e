"""Template bytes against two oracles, counted: the official templates under Jinja2 as transformers sets it up, and what
llama.cpp's own engine wrote for them (the golden bytes in tests/parity/goldens)."""

from __future__ import annotations

import json
from typing import Any

from agentloop.bench.plot import bar_chart
from agentloop.exceptions import TemplateError

from .checks import ImpossibleFigure
from .machine import ROOT
from .report import Options, Report

__all__ = ["parity"]

COLUMNS = ("template", "oracle", "cases", "same_bytes", "refused_alike", "explained", "not_asked", "wrong")
_SERVER_ONLY = ("Failed to parse messages", "JSON schema error")


def parity(options: Options) -> Report:
    """Rows: {"template", "oracle", "cases", "same_bytes", "refused_alike", "explained", "not_asked", "wrong"}.
    `explained`: llama.cpp and Jinja2 write other bytes for the official template, by rules that the golden names;
    agentloop follows Jinja2. `not_asked`: the server refused the request before a template was asked. Fails when any
    case is wrong."""
    from tests.parity.families import FAMILIES
    from tests.parity.oracle import official_text, where

    report = Report("parity", options.form, COLUMNS)
    # Without the folders of this machine above it.
    report.extra["official_templates"] = None if (found := where()) is None else "/".join(found.split("/")[-2:])
    for family in FAMILIES:
        if official_text(family) is None:
            report.notes.append(f"{family}: the official template is not to be had here; its golden bytes are.")
        else:
            report.rows.append(_by_jinja(family))
        report.rows.append(_by_llamacpp(family))
    wrong = [row for row in report.rows if row["wrong"]]
    if wrong:
        raise ImpossibleFigure(f"bytes that differ from an oracle's: {wrong}")
    groups: dict[str, dict[str, float]] = {}
    for row in report.rows:
        groups.setdefault(row["template"], {})[row["oracle"]] = row["same_bytes"] + row["refused_alike"]
    report.plot = bar_chart("Cases with the oracle's bytes, or refused like it", "cases", groups)
    return report


def _by_jinja(family: str) -> dict[str, Any]:
    from tests.parity.corpus import CASES
    from tests.parity.families import FAMILIES
    from tests.parity.oracle import TemplateRefusal, official

    row = _empty(family, "Jinja2", len(CASES))
    for case in CASES:
        try:
            expected: str | None = official(family, case.messages, case.tools, case.knobs)
        except TemplateRefusal:
            expected = None
        found = _ours(FAMILIES[family], case.messages, case.tools, case.knobs)
        row["wrong" if found != expected else "refused_alike" if found is None else "same_bytes"] += 1
    return row


def _by_llamacpp(family: str) -> dict[str, Any]:
    from tests.parity.corpus import CASES
    from tests.parity.families import FAMILIES
    from tests.parity.llamacpp import served

    goldens = json.loads((ROOT / "tests" / "parity" / "goldens" / f"{family}.json").read_text("utf-8"))["cases"]
    row = _empty(family, "llama.cpp", len(CASES))
    for case in CASES:
        entry = goldens[case.name]
        found = _ours(FAMILIES[family], served(family, case.messages), case.tools, case.knobs)
        if "refused" in entry and entry["refused"].startswith(_SERVER_ONLY):
            row["not_asked"] += 1
        elif found == entry.get("text"):
            row["refused_alike" if found is None else "same_bytes"] += 1
        else:
            row["explained" if "differs" in entry and found is not None else "wrong"] += 1
    return row


def _ours(template: Any, messages: Any, tools: Any, knobs: Any) -> str | None:
    try:
        return str(template.render(messages, tools, **knobs))
    except TemplateError:
        return None


def _empty(family: str, oracle: str, cases: int) -> dict[str, Any]:
    zeros = dict.fromkeys(("same_bytes", "refused_alike", "explained", "not_asked", "wrong"), 0)
    return {"template": family, "oracle": oracle, "cases": cases, **zeros}
