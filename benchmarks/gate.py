"""The regression gate: counts that must not grow, compared with those committed in benchmarks/gate.json. No clocks.

`conversation`: the agent's day with scripted replies: tokens new, evaluated and recomputed for each turn. `sequence`:
what the embedded model evaluates for every operation on a live state, with forced tokens, so that no logit matters.
`python_calls`: function calls of Python for each generated token, by Python version; these may differ by a tenth.

    python -m benchmarks gate            compare
    python -m benchmarks gate --write    commit to what is found now
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from agentloop import CancelToken, Conversation, Engine
from agentloop.engine import Sequence as TokenSequence
from agentloop.exceptions import DecodeCancelled
from agentloop.testing import ScriptedEngine, call, say, think

from .checks import ImpossibleFigure
from .machine import ROOT
from .report import Options, Report
from .sessions import prompt_rows
from .trace import INSTRUCTIONS, TOOLS, Step, agent_day

__all__ = ["GATE", "compare", "counts", "gate"]

GATE = ROOT / "benchmarks" / "gate.json"
COLUMNS = ("part", "what", "new", "evaluated", "recomputed")
_CALLS_MARGIN = 1.1


def gate(options: Options) -> Report:
    """Rows: {"part", "what", "new", "evaluated", "recomputed"}. Fails where a count differs from gate.json."""
    report = Report("gate", options.form, COLUMNS)
    found = counts()
    if options.write:
        old = json.loads(GATE.read_text("utf-8")) if GATE.exists() else {}
        found["python_calls"] = {**old.get("python_calls", {}), **found["python_calls"]}
        GATE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    differences = compare(json.loads(GATE.read_text("utf-8")), found)
    if differences:
        raise ImpossibleFigure("; ".join(differences))
    report.rows = [{"part": part, **row} for part in ("conversation", "sequence") for row in found[part]]
    report.extra["python_calls"] = found["python_calls"]
    return report


def counts() -> dict[str, Any]:
    """All counts, in the form of gate.json."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {
        "conversation": conversation_counts(),
        "sequence": sequence_counts(),
        "python_calls": {version: python_calls()},
    }


def compare(committed: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """What differs, in words; empty when nothing does. A Python version without a committed count is not compared."""
    out: list[str] = []
    for part in ("conversation", "sequence"):
        old, new = committed[part], found[part]
        if len(old) != len(new):
            out.append(f"{part}: {len(new)} rows, not {len(old)}")
        out += [f"{part}: {b} is not the committed {a}" for a, b in zip(old, new, strict=False) if a != b]
    for version, value in found["python_calls"].items():
        limit = committed["python_calls"].get(version)
        if limit is not None and value > limit * _CALLS_MARGIN:
            out.append(f"python_calls: {value} a token on Python {version}, committed are {limit}")
    return out


def conversation_counts() -> list[dict[str, Any]]:
    """The agent's day on a scripted engine, turn by turn."""
    engine = ScriptedEngine(_script())
    day = agent_day(engine.vocab, (50, 200, 1000))
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="agentloop-gate-") as folder:
        main = Conversation(engine, instructions=INSTRUCTIONS, tools=TOOLS)
        for step in day:
            if step.kind == "restart":
                main.save(Path(folder) / "session.json", state=False)
                # A scripted engine keeps no state: all tokens are decoded again, and the count says so.
                main = Conversation.load(Path(folder) / "session.json", engine)
            side = main.fork() if step.kind == "side" else main
            rows.append(_turn(side, step))
    return rows


def _script() -> list[Any]:
    read = think("I read the file first.") + call("read_file", path="app.txt")
    done = think("I have what I need.") + say("The answer is 7.")
    cut = think("I list the files, one folder behind the other, and then say what each of them is for.") + done
    return [read, read, read, done, read, done, done, read, done, cut, read, done, read, done]


def _turn(conversation: Conversation, step: Step) -> dict[str, Any]:
    ids = [entry["id"] for entry in conversation.open_calls]
    if step.role == "tool" and ids:
        conversation.tool_result(ids[0], step.text)
    else:
        conversation.append({"role": step.role, "content": step.text})
    before, cancel, pieces = conversation.sequence.stats, CancelToken(), 0

    def watch(event: Any) -> None:
        nonlocal pieces
        pieces += event.kind.endswith("_delta")
        if step.cut is not None and pieces >= step.cut:
            cancel.cancel()

    waiting = len(conversation.sequence) - conversation.sequence.n_decoded  # type: ignore[attr-defined]
    new = len(conversation.prompt_ids()) + waiting
    with contextlib.suppress(DecodeCancelled):
        conversation.reply(cancel=cancel, on_event=watch)
    spent = conversation.sequence.stats - before
    evaluated = prompt_rows(conversation.sequence, spent, cut=cancel.cancelled)
    return {"what": step.kind, "new": new, "evaluated": evaluated, "recomputed": spent.recomputed}


class _Always:
    """Steering that lets one id through, so that the course of a generation is the same everywhere."""

    def __init__(self, n_tokens: int, token: int) -> None:
        self._mask = np.zeros(n_tokens, dtype=np.bool_)
        self._mask[token] = True

    def accept(self, token: Any) -> None:
        return None

    def allowed(self) -> Any:
        return self._mask

    def room(self) -> int | None:
        return None


def sequence_counts() -> list[dict[str, Any]]:
    """Operations on live states of the embedded model: what each evaluates, and what of it was known before."""
    rows: list[dict[str, Any]] = []
    with Engine.load(n_ctx=8192, sequences=2, drafters="none", threads=1) as engine:
        n = engine.vocab.n_tokens
        usual = min(set(range(n)) - set(engine.vocab.eog) - set(engine.vocab.special_tokens()))

        def ids(count: int, seed: int) -> list[int]:
            return [(i * 31 + seed * 17) % 1000 + usual for i in range(count)]

        live = engine.sequence()

        def step(what: str, sequence: TokenSequence, new: int, work: Any) -> None:
            before = sequence.stats
            work()
            spent = sequence.stats - before
            rows.append({"what": what, "new": new, "evaluated": spent.evaluated, "recomputed": spent.recomputed})

        def generate(sequence: TokenSequence, count: int) -> None:
            for _ in sequence.generate(count, steering=_Always(n, usual)):
                pass

        step("a document of 2000", live, 2000, lambda: live.extend(ids(2000, 1)))
        live.checkpoint(label="turn")
        step("a reply of 40", live, 39, lambda: generate(live, 40))
        step("a result of 100 behind it", live, 101, lambda: live.extend(ids(100, 2)))
        fork = live.fork()
        step("10 tokens on a fork", fork, 10, lambda: fork.extend(ids(10, 3)))
        step("10 other tokens on the main one", live, 10, lambda: live.extend(ids(10, 4)))
        step("back to the checkpoint", live, 0, lambda: live.truncate(2000))
        step("another reply of 40", live, 39, lambda: generate(live, 40))
        step("another tail at 1980, of 30", live, 30, lambda: live.replace_tail(1980, ids(30, 5)))
        third = engine.sequence()
        step("a third sequence for two places", third, 50, lambda: third.extend(ids(50, 6)))
        step("5 tokens on the one that was parked", fork, 5, lambda: fork.extend(ids(5, 7)))
        again = engine.restore(live.snapshot())
        step("5 tokens on a restored one", again, 5, lambda: again.extend(ids(5, 8)))
    return rows


def python_calls() -> float:
    """Calls of Python functions for each generated token, over the scripted day."""
    engine = ScriptedEngine([think("word " * 200) + say("done. " * 20)] * 2)
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    conversation = Conversation(engine, instructions=INSTRUCTIONS, tools=TOOLS)
    conversation.user("Hello.")
    conversation.reply()  # imports and caches are paid here
    conversation.user("Again.")
    before = conversation.sequence.stats
    former = sys.getprofile()
    sys.setprofile(count)
    try:
        conversation.reply()
    finally:
        sys.setprofile(former)
    return round(calls / (conversation.sequence.stats - before).generated, 2)
