"""Does it still think: the embedded model's held-out tasks with drafting off and on, strict calls off and on, and with
reasoning budgets; the tool protocol; a needle in settings; and GSM8K and HumanEval files that a user gives.

A reply that a cap cut is counted as cut, not as wrong. Every arm gets the same tasks. Greedy.
"""

from __future__ import annotations

import random
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from agentloop import Conversation, Engine, Sampling, Thinking
from agentloop.bench.plot import bar_chart
from agentloop.exceptions import ContextFull, UsageLimitExceeded

from .checks import ImpossibleFigure
from .machine import script
from .report import Options, Report, note
from .taskfiles import CodeTask, MathTask, load_gsm8k, load_humaneval

__all__ = ["intel"]

COLUMNS = ("part", "arm", "tasks", "right", "cut", "rate", "calls", "bad_calls", "generated", "recomputed", "seconds")
BUDGET = 8192
"""Tokens that a question of a user's file may take, reasoning included."""

ARMS: dict[str, dict[str, Any]] = {
    "drafting off": {"drafters": "none"},
    "drafting on": {"drafters": "suffix"},
    "strict calls": {"drafters": "none", "strict": True},
    "strict calls, drafting on": {"drafters": "suffix", "strict": True},
    "budget 24": {"drafters": "none", "budget": 24},
    "budget 8": {"drafters": "none", "budget": 8},
    "thinking off": {"drafters": "none", "thinking": False},
}


def intel(options: Options) -> Report:
    """Rows: {"part", "arm", "tasks", "right", "cut", "rate", "calls", "bad_calls", "generated", "recomputed",
    "seconds", "by_kind"}: rate is right / (tasks - cut); a bad call is one that no tool could be run for."""
    report = Report("intel", options.form, COLUMNS)
    report.model("embedded" if options.model is None else Path(options.model).stem, options.model)
    files = _files(options)
    if options.model is None:
        _own_tasks(report, options)
        _needle(report, options)
    elif not files:
        report.notes.append("The built-in tasks are the embedded model's; give --gsm8k or --humaneval with --model.")
    for part, tasks in files.items():
        _file(report, options, part, tasks)
    groups: dict[str, dict[str, float]] = {}
    for row in report.rows:
        groups.setdefault(row["part"], {})[row["arm"]] = row["rate"]
    report.plot = bar_chart("Tasks solved", "share of those not cut", groups) if groups else None
    return report


def _files(options: Options) -> dict[str, list[MathTask] | list[CodeTask]]:
    files: dict[str, list[MathTask] | list[CodeTask]] = {}
    if options.gsm8k is not None:
        files["gsm8k"] = load_gsm8k(options.gsm8k, options.limit)
    if options.humaneval is not None:
        files["humaneval"] = load_humaneval(options.humaneval, options.limit)
    return files


def _own_tasks(report: Report, options: Options) -> None:
    kinds = script("eval_tasks").SHORT
    each = 1 if options.short else 2
    arms = [arm for arm in ARMS if not options.short or arm != "strict calls, drafting on"]
    for arm in arms:
        settings = dict(ARMS[arm])
        with Engine.load(
            options.model, n_ctx=4096, sequences=1, threads=1, drafters=settings.pop("drafters")
        ) as engine:
            counts: Counter[str] = Counter()
            by_kind: dict[str, list[int]] = {}
            began = time.perf_counter()
            for kind, make in kinds.items():
                by_kind[kind] = [0, each]
                for number in range(each):
                    task = make(random.Random(f"held out {kind} {number}"))
                    one = _attempt(engine, task, number, **settings)
                    counts.update(one)
                    by_kind[kind][0] += one["right"]
            row = _row("tasks", arm, each * len(kinds), counts, time.perf_counter() - began)
            report.rows.append({**row, "by_kind": by_kind})
            note(options, f"intel: {arm}: {row['right']} of {row['tasks']}")
        if counts["recomputed"]:
            raise ImpossibleFigure(f"tokens were decoded twice in runs that only append: {row}")


def _attempt(
    engine: Engine, task: Any, number: int, *, strict: bool = False, budget: int | None = None, thinking: bool = True
) -> dict[str, int]:
    """One task, run to its end by an agent."""
    counts: Counter[str] = Counter({"right": 0})

    def watch(event: Any) -> None:
        if event.kind == "call_ready":
            counts["calls"] += 1
            counts["bad_calls"] += event.call.status != "ok"

    run = script("eval_run")
    with warnings.catch_warnings():  # that a budget cuts short what the effort asks for is the point
        warnings.simplefilter("ignore")
        chosen = Thinking(effort=run.EFFORTS[number % 3], budget=budget)
    chosen = chosen if thinking else Thinking(effort=None, enabled=False)
    outcomes = run.attempt(engine, task, chosen, Sampling(), strict=strict, on_event=watch)
    wrong = [outcome.wrong for outcome in outcomes if outcome.wrong]
    counts["right"] += not wrong
    counts["cut"] += any(text.startswith(UsageLimitExceeded.__name__) for text in wrong)
    counts["generated"] += sum(outcome.generated for outcome in outcomes)
    counts["recomputed"] += sum(outcome.recomputed for outcome in outcomes)
    return dict(counts)


def _needle(report: Report, options: Options) -> None:
    """One setting among many, in a file of so many lines."""
    tasks, words = script("eval_tasks"), script("eval_names").PLAIN
    each = 3 if options.short else 5
    with Engine.load(options.model, n_ctx=8192, sequences=1, threads=1, drafters="none") as engine:
        for lines in (1, 4, 16, 64):
            counts: Counter[str] = Counter()
            began = time.perf_counter()
            for number in range(each):
                r = random.Random(f"needle {lines} {number}")
                names = [words.key(r), *(f"{words.word(r)}_{i}" for i in range(lines - 1))]
                settings = {name: str(r.randint(100, 9999)) for name in names}
                order = r.sample(names, len(names))
                world = tasks.World({"app.toml": "\n".join(f"{name} = {settings[name]}" for name in order)})
                read = (("read_file", {"path": "app.toml"}),)
                answer = f"The {names[0]} in app.toml is {settings[names[0]]}."
                task = tasks.kept(world, tasks.Step(f"What is the {names[0]} in app.toml?", (read,), answer))
                counts.update(_attempt(engine, task, 0))
            seconds = time.perf_counter() - began
            report.rows.append(_row("needle", f"{lines} lines", each, counts, seconds))


def _file(report: Report, options: Options, part: str, tasks: list[MathTask] | list[CodeTask]) -> None:
    with Engine.load(options.model, n_ctx=BUDGET + 4096, sequences=1) as engine:
        counts: Counter[str] = Counter()
        failures: list[dict[str, str]] = []
        began = time.perf_counter()
        for task in tasks:
            conversation = Conversation(engine, thinking=Thinking(effort="xhigh"))
            conversation.user(task.prompt)
            try:
                reply = conversation.reply(max_tokens=BUDGET)
                text, cut = reply.content, reply.finish in ("length", "context")
                counts["generated"] += reply.usage.generated
            except ContextFull:
                text, cut = "", True
            conversation.close()
            if cut:
                counts["cut"] += 1
            elif isinstance(task, MathTask):
                counts["right"] += task.right(text)
            else:
                outcome = task.run(text)
                counts["right"] += outcome.passed
                if not outcome.passed:
                    failures.append({"task": task.name, "reason": outcome.reason})
            note(options, f"intel: {task.name}: {counts['right']} right, {counts['cut']} cut")
        row = _row(part, "thinking on", len(tasks), counts, time.perf_counter() - began)
        report.rows.append({**row, "failures": failures})


def _row(part: str, arm: str, tasks: int, counts: Counter[str], seconds: float) -> dict[str, Any]:
    ended = tasks - counts["cut"]
    return {
        "part": part,
        "arm": arm,
        "tasks": tasks,
        "right": counts["right"],
        "cut": counts["cut"],
        "rate": round(counts["right"] / ended, 3) if ended else 0.0,
        "calls": counts["calls"],
        "bad_calls": counts["bad_calls"],
        "generated": counts["generated"],
        "recomputed": counts["recomputed"],
        "seconds": round(seconds, 1),
    }
