"""The page: one HTML file that needs nothing else, and lets nothing in it run but its own script.

Figures stand in the HTML, texts in a block of JSON that the script shows as text. A policy in the head forbids
requests, and any script or style whose hash it does not name.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

from ..exceptions import AgentLoopError
from .reading import read_trace

__all__ = ["page", "write_page"]


def write_page(saved: str | PathLike[str], out: str | PathLike[str] | None = None) -> Path:
    """Write the page of a saved conversation to `out` (None: the same name with `.html`) and return where it is.

    Raises SnapshotError for a file that is no saved conversation, and AgentLoopError where `out` cannot be written.
    """
    saved = Path(saved)
    data = read_trace(saved)
    path = saved.with_suffix(".html") if out is None else Path(out)
    if path.is_dir():
        raise AgentLoopError(f"{path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise AgentLoopError(f"{path.parent} is no folder; make it first, or name another file to write to")
    if path.exists() and path.samefile(saved):
        raise AgentLoopError(f"{path} is the conversation itself; name another file to write to")
    path.write_text(page(data), encoding="utf-8")
    return path


def page(data: Mapping[str, Any]) -> str:
    """The HTML of what `read_trace` read."""
    style = _source("page.css")
    script = f'"use strict";(() => {{\n{_source("drawing.js")}\n{_source("pointing.js")}}})();'
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'"
    title = escape(f"{data['file']}: trace")
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in data["notes"])
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header>
<h1>{escape(data["file"])}</h1>
<p>{escape(data["model"])}, template {escape(data["template"])}</p>
</header>
<main>
<dl class="tiles" aria-label="Sums">{_tiles(data)}</dl>
{notes}
<noscript><p class="note">The timeline and the texts need JavaScript; the table below does not.</p></noscript>
{_TIMELINE}
<section aria-label="Turns">
<h2>Turns</h2>
<div class="scroll">
<table>
<thead><tr>{"".join(f"<th>{name}</th>" for name in _COLUMNS)}</tr></thead>
<tbody>
{_rows(data)}
</tbody>
</table>
</div>
</section>
</main>
<script type="application/json" id="data">{_inert(data)}</script>
<script>{script}</script>
</body>
</html>
"""


_TOKENS = ("reused", "new", "recomputed", "generated")
_COLUMNS = ("turn", "", *_TOKENS, "drafted", "accepted", "prefill", "decode", "tokens/s", "tools", "end")

_TIMELINE = """<section id="view" aria-label="Timeline" hidden>
<div class="bar">
<h2>Timeline</h2>
<ul class="legend">
<li class="new">prefill</li><li class="recomputed">recomputed</li><li class="draft">draft</li>
<li class="plain">decode</li><li class="verify">verify</li><li class="accepted">accepted</li>
<li class="forced">forced</li><li class="tool">tool</li><li class="failed">failed</li>
</ul>
<span class="buttons">
<button type="button" id="out" title="Zoom out (-)">&minus;</button>
<button type="button" id="in" title="Zoom in (+)">+</button>
<button type="button" id="fit" title="Show all (0)">Fit</button>
</span>
</div>
<div id="chart" tabindex="0" role="application" aria-label="Timeline" aria-describedby="keys">
<canvas id="lanes"></canvas>
<canvas id="whole"></canvas>
<div id="tip" hidden></div>
</div>
<p id="keys">Point at something to read it, click to hold it. Keys: &larr; &rarr; events, &uarr; &darr; turns,
+ &minus; zoom, 0 all, Esc lets go. Drag to move, Ctrl and wheel to zoom.<br>
The thin line under a reply is grey for reasoning, violet for a call, dark for the answer; a green bar is as high as the
share of the draft that was accepted.</p>
<div id="say" class="hidden" aria-live="polite"></div>
<div id="detail"></div>
</section>"""


def _source(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()


def _inert(data: Mapping[str, Any]) -> str:
    """JSON without a character that HTML would read."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _tiles(data: Mapping[str, Any]) -> str:
    usage, turns = data["usage"], data["turns"]
    drafted, accepted = (sum(_drafts(turn)[i] for turn in turns) for i in (0, 1))
    steps_s = sum(step[1] for turn in turns for step in turn["steps"])
    generated = sum(turn["generated"] for turn in turns)
    tiles = [
        ("turns", f"{len(turns):,}", ""),
        ("reused", f"{usage['reused']:,}", "tokens that were in the live state"),
        ("new", f"{usage['new']:,}", "tokens decoded once"),
        ("recomputed", f"{usage['recomputed']:,}", "tokens decoded a second time"),
        ("generated", f"{usage['generated']:,}", f"{usage['reasoning']:,} of reasoning"),
        ("drafts accepted", f"{accepted / drafted:.0%}" if drafted else "none", f"{accepted:,} of {drafted:,}"),
        ("tokens/s", f"{generated / steps_s:,.0f}" if steps_s else "none", "while the model writes"),
        ("tools", f"{len(data['tools']):,}" if data["timed"] else "unknown", _outcomes(data["tools"])),
        ("model busy", _seconds(sum(turn["d"] for turn in turns)), f"of {_seconds(data['length'])} shown"),
    ]
    return "".join(
        f'<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd><dd class="said">{escape(said)}</dd></div>'
        for name, value, said in tiles
    )


def _outcomes(tools: list[dict[str, Any]]) -> str:
    bad = sum(tool["outcome"] not in ("ok", "deferred") for tool in tools)
    return f"{bad:,} not ok" if bad else "all ok" if tools else ""


def _drafts(turn: Mapping[str, Any]) -> tuple[int, int]:
    drafts = [step for step in turn["steps"] if len(step) > 5]
    return sum(step[6] for step in drafts), sum(step[7] for step in drafts)


def _rows(data: Mapping[str, Any]) -> str:
    counts = _tools_behind(data)
    rows: list[str] = []
    most = max((sum(turn[name] for name in _TOKENS) for turn in data["turns"]), default=1) or 1
    for i, turn in enumerate(data["turns"]):
        drafted, accepted = _drafts(turn)
        decode_s = sum(step[1] for step in turn["steps"])
        number = "&ndash;" if turn["n"] is None else str(turn["n"])
        cells = [
            f'<button type="button" data-turn="{i}">{number}</button>',
            _tokens_bar(turn, most),
            *(f"{turn[name]:,}" for name in _TOKENS),
            f"{drafted:,}" if drafted else "",
            f"{accepted:,}" if drafted else "",
            _seconds(turn["prefill"]),
            _seconds(decode_s) if turn["steps"] else "",
            f"{turn['generated'] / decode_s:,.0f}" if decode_s else "",
            f"{counts[i]:,}" if counts[i] else "",
            escape(f"{turn['finish']}, {turn['gone']}" if turn["gone"] else turn["finish"]),
        ]
        kind = ' class="gone"' if turn["gone"] else ""
        rows.append(f"<tr{kind}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return "\n".join(rows)


def _tokens_bar(turn: Mapping[str, Any], most: int) -> str:
    """The turn's tokens as a bar of at most 120 units."""
    rects, x = "", 0.0
    for name in _TOKENS:
        width = 120 * turn[name] / most
        if width:
            rects += f'<rect class="{name}" x="{x:.2f}" y="0" width="{max(width, 0.6):.2f}" height="10"/>'
        x += width
    return f'<svg width="120" height="10" aria-hidden="true">{rects}</svg>'


def _tools_behind(data: Mapping[str, Any]) -> list[int]:
    """How many tools ended between a turn and the next."""
    turns = data["turns"]
    order = sorted(range(len(turns)), key=lambda i: turns[i]["t"])
    counts = [0] * len(turns)
    at = -1
    for tool in sorted(data["tools"], key=lambda tool: tool["t"]):
        while at + 1 < len(order) and turns[order[at + 1]]["t"] <= tool["t"]:
            at += 1
        if at >= 0:
            counts[order[at]] += 1
    return counts


def _seconds(seconds: float) -> str:
    if seconds >= 120:
        return f"{seconds / 60:,.1f} min"
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms"
