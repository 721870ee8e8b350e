"""One target and several draft files: does a quantised draft pay?

Without --draft, the target is the embedded model and the drafts are the model itself (F16: every draft is accepted and
costs a whole pass), its Q8_0 form, and block drafters that lie beside it. Same prompts, arms taking turns, medians; the
text must be the one of the arm without a draft, or part from it at a near tie.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

from agentloop.bench.plot import bar_chart
from agentloop.exceptions import ModelLoadError
from agentloop.models import default_model_path

from .arms import AgentloopArm, Arm, Made, ServerArm, first_difference
from .checks import ImpossibleFigure, check_decode
from .machine import ROOT, bandwidth, model_info, script
from .report import Options, Report, median, note, spread
from .server import find_server
from .tasks import prompts_for

__all__ = ["paired"]

COLUMNS = ("draft", "engine", "mib", "tok_s", "ratio", "drafted", "accepted", "acceptance", "identical", "gap")

NEAR_TIE = 0.1
"""Logits closer than this may change places when a batch has another width. A wider gap fails the script."""


def paired(options: Options) -> Report:
    """Rows: {"draft", "engine", "mib", "tok_s", "tok_s_spread", "tok_s_runs", "ratio", "drafted", "accepted",
    "acceptance", "identical", "differs_at", "gap"}; the first row has no draft. `identical`: all texts have the bytes
    of that row's."""
    report = Report("paired", options.form, COLUMNS)
    report.model("target", options.model)
    rounds = 1 if options.short else 3
    with tempfile.TemporaryDirectory(prefix="agentloop-bench-") as folder:
        drafts = {Path(path).name: path for path in options.drafts} or _own(Path(folder))
        for name, path in drafts.items():
            report.model(name, path)
        arms = _arms(report, options, drafts)
        try:
            _measure(report, options, arms, rounds)
        finally:
            for _, arm in arms:
                arm.close()
    speeds = {f"{row['engine']}, {row['draft']}": {"ratio": row["ratio"]} for row in report.rows}
    report.plot = bar_chart("Drafts for one target", "times decoding without a draft", speeds)
    return report


def _own(folder: Path) -> dict[str, str]:
    """Drafts for the embedded model."""
    model = default_model_path()
    template = (ROOT / "agentloop" / "templates" / "qwen3_8.jinja").read_text(encoding="utf-8")
    small = folder / "tiny-hybrid-q8_0.gguf"
    script("embed_model").embed(model, small, template, "Q8_0")
    others = {path.name: str(path) for path in sorted(model.parent.glob("*.gguf")) if path != model}
    return {"itself (F16)": str(model), "itself (Q8_0)": str(small), **others}


def _arms(report: Report, options: Options, drafts: dict[str, str]) -> list[tuple[str, Arm]]:
    arms: list[tuple[str, Arm]] = [
        ("none", AgentloopArm("agentloop", options.model, n_ctx=4096, drafters="none")),
    ]
    binary = find_server()
    if binary is not None:
        arms.append(("none", ServerArm("llama-server", binary, options.model, n_ctx=4096)))
    for name, path in drafts.items():
        for kind in ("draft_model", "block"):
            try:
                arm = AgentloopArm("agentloop", options.model, n_ctx=4096, drafters=kind, draft_path=path)
            except (ModelLoadError, ValueError) as error:
                if kind == "block":
                    report.notes.append(f"{name}: {error}")
                continue
            if not arm.drafters:
                arm.close()
                continue
            arms.append((name, arm))
            break
        if binary is not None:
            try:
                args = ("--spec-type", "draft-simple", "-md", path)
                arms.append((name, ServerArm("llama-server", binary, options.model, *args, n_ctx=4096)))
            except RuntimeError as error:
                report.notes.append(f"llama-server with {name}: {str(error).splitlines()[-1]}")
    return arms


def _measure(report: Report, options: Options, arms: list[tuple[str, Arm]], rounds: int) -> None:
    plain = arms[0][1]
    assert isinstance(plain, AgentloopArm)
    prompts = [ids for task in prompts_for(plain.engine).values() for ids in task]
    for _, arm in arms:
        arm.prepare(prompts)
    made: list[list[list[Made]]] = [[] for _ in arms]
    for turn in range(rounds + 1):
        note(options, f"paired: round {turn} of {rounds}")
        for i in range(len(arms)) if turn % 2 else range(len(arms) - 1, -1, -1):
            runs = [arms[i][1].run(prompt, 128) for prompt in range(len(prompts))]
            if turn:  # the first round warms up
                made[i].append(runs)
    base = {arm.name: i for i, (draft, arm) in enumerate(arms) if draft == "none"}
    weights = model_info(options.model)["bytes"]
    speed = bandwidth(weights)
    for i, (draft, arm) in enumerate(arms):
        row = _row(draft, arm, made[i], made[base[arm.name]], report)
        passes = [sum(run.passes for run in runs) / sum(run.seconds for run in runs) for runs in made[i]]
        check_decode(max(passes), weights, speed, f"{arm.name} with {draft}")
        expected = made[base[arm.name]][-1]
        for prompt, run in enumerate(made[i][-1]):
            where, gap = first_difference(plain, prompt, expected[prompt].ids, run.ids)
            if where is not None and gap is not None:
                row |= {"identical": False, "differs_at": where, "gap": gap}
                if arm.name == "agentloop" and abs(gap) > NEAR_TIE:
                    raise ImpossibleFigure(f"a draft changed the text where the logits are {gap} apart: {row}")
        report.rows.append(row)


def _row(draft: str, arm: Arm, made: list[list[Made]], base: list[list[Made]], report: Report) -> dict[str, Any]:
    speeds, plain = [_speed(runs) for runs in made], [_speed(runs) for runs in base]
    drafted, accepted = sum(run.drafted for run in made[-1]), sum(run.accepted for run in made[-1])
    info = report.models.get(draft)
    return {
        "draft": draft,
        "engine": arm.name,
        "mib": None if info is None else round(info["bytes"] / 2**20, 1),
        "tok_s": median(speeds, 1),
        "tok_s_spread": spread(speeds, 1),
        "tok_s_runs": [round(value, 1) for value in speeds],
        "ratio": round(statistics.median(a / b for a, b in zip(speeds, plain, strict=True)), 3),
        "drafted": drafted,
        "accepted": accepted,
        "acceptance": round(accepted / drafted, 3) if drafted else None,
        "identical": True,
        "differs_at": None,
        "gap": None,
    }


def _speed(runs: list[Made]) -> float:
    return sum(len(run.ids) - 1 for run in runs) / max(1e-9, sum(run.seconds for run in runs))
