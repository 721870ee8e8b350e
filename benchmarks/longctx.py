"""Long documents: the first question, another one, an answer after an edit near the end, and going on after a restart.

The same token ids for every engine. Time to the first token is the client's, restoring a saved session included and
loading the model not; decode speed is that of the answer, at that depth.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agentloop import Engine
from agentloop.bench.plot import line_chart
from agentloop.engine import DiskStore
from agentloop.models import default_model_path

from .peers import LlamaCpp
from .report import Options, Report, median, note, spread
from .server import Server, find_server
from .trace import text_of
from .wire import get_json, post_json

__all__ = ["longctx"]

COLUMNS = ("model", "tokens", "engine", "op", "new", "evaluated", "ttft_s", "tok_s")
ANSWER = 32
_EDIT = 256  # tokens before the document's end


@dataclass(frozen=True, slots=True)
class Answer:
    """`evaluated` prompt tokens, seconds to the first of `ids`, tokens per second behind it."""

    ids: list[int]
    evaluated: int
    ttft_s: float
    tok_s: float


class Reader(Protocol):
    """An engine that holds one document. `ask` gets the whole prompt, of which the first `same` tokens are as in the
    prompt before or its answer."""

    engine: str

    def ask(self, ids: list[int], same: int) -> Answer: ...
    def restart(self) -> None: ...
    def close(self) -> None: ...


class _Agentloop:
    engine = "agentloop"

    def __init__(self, model: str | None, n_ctx: int, folder: Path) -> None:
        self.model, self.n_ctx, self.folder = model, n_ctx, folder
        self._load()
        self.sequence = self._engine.sequence()

    def _load(self) -> None:
        self._engine = Engine.load(self.model, n_ctx=self.n_ctx, sequences=1, drafters="none", threads=1)
        self._kept: str | None = None

    def ask(self, ids: list[int], same: int) -> Answer:
        started = time.perf_counter()
        if self._kept is not None:
            self.sequence = self._engine.restore(DiskStore(self.folder, 1 << 40).get(self._kept))
            self._kept = None
        before = self.sequence.stats
        at = min(same, len(self.sequence))
        if at < len(self.sequence):
            self.sequence.replace_tail(at, ids[at:])
        else:
            self.sequence.extend(ids[at:])
        evaluated = (self.sequence.stats - before).evaluated
        tokens = self.sequence.generate(ANSWER)
        out = [next(tokens).id]
        first = time.perf_counter()
        out += [token.id for token in tokens]
        speed = (len(out) - 1) / (time.perf_counter() - first)
        return Answer(out, evaluated, first - started, speed)

    def restart(self) -> None:
        DiskStore(self.folder, 1 << 40).put("session", self.sequence.snapshot())
        self._engine.close()
        self._load()
        self._kept = "session"

    def close(self) -> None:
        self._engine.close()


class _LlamaServer:
    engine = "llama-server"

    def __init__(self, binary: str, model: str | None, n_ctx: int, folder: Path) -> None:
        path = str(default_model_path()) if model is None else model
        self.server = Server(binary, path, "-np", "1", "--slot-save-path", f"{folder}/", n_ctx=n_ctx)
        self.server.start()
        self._kept = False

    def ask(self, ids: list[int], same: int) -> Answer:
        started = time.perf_counter()
        if self._kept:
            post_json(f"{self.server.address}/slots/0?action=restore", {"filename": "session.bin"})
            self._kept = False
        body = {"prompt": ids, "n_predict": ANSWER, "temperature": 0, "return_tokens": True}
        got = post_json(f"{self.server.address}/completion", body)
        wall, timings = time.perf_counter() - started, got["timings"]
        n, seconds = len(got["tokens"]), timings["predicted_ms"] / 1000
        return Answer(got["tokens"], timings["prompt_n"], max(0.0, wall - seconds), (n - 1) / max(1e-9, seconds))

    def restart(self) -> None:
        get_json(f"{self.server.address}/slots")
        try:
            post_json(f"{self.server.address}/slots/0?action=save", {"filename": "session.bin"})
            self._kept = True
        except OSError:
            self._kept = False
        self.server.restart()

    def close(self) -> None:
        self.server.stop()


class _LlamaCpp:
    engine = "llama-cpp-python"

    def __init__(self, model: str | None, n_ctx: int, folder: Path, eog: list[int]) -> None:
        self.model, self.n_ctx, self.eog = model, n_ctx, eog
        self.path = str(folder / "state.bin")
        self.worker = LlamaCpp(model, n_ctx)
        self._kept = False

    def ask(self, ids: list[int], same: int) -> Answer:
        started = time.perf_counter()
        if self._kept:
            self.worker.ask(op="load", path=self.path)
            self._kept = False
        before = time.perf_counter() - started
        got = self.worker.ask(op="ids", ids=ids, max_tokens=ANSWER, stop=self.eog)
        seconds = got["wall_s"] - got["ttft_s"]
        speed = (len(got["ids"]) - 1) / max(1e-9, seconds)
        return Answer(got["ids"], got["evaluated"], before + got["ttft_s"], speed)

    def restart(self) -> None:
        self.worker.ask(op="save", path=self.path)
        self.worker.close()
        self.worker = LlamaCpp(self.model, self.n_ctx)
        self._kept = True

    def close(self) -> None:
        self.worker.close()


def longctx(options: Options) -> Report:
    """Rows: {"model", "tokens", "engine", "op", "new", "evaluated", "ttft_s", "ttft_spread", "ttft_runs", "tok_s"};
    ops are first, next, edit and restart."""
    report = Report("longctx", options.form, COLUMNS)
    name = "embedded" if options.model is None else Path(options.model).stem
    report.model(name, options.model)
    # The embedded model's context is 32,768 tokens, questions included.
    sizes = {4096: 1} if options.short else {4096: 2, 16384: 1, 31744: 1}
    if find_server() is None:
        report.notes.append("llama-server was left out: it is neither on PATH nor named by AGENTLOOP_LLAMA_SERVER.")
    for size, rounds in sizes.items():
        report.rows += [{"model": name, **row} for row in _at(options, size, rounds)]
    series: dict[str, list[tuple[float, float]]] = {}
    for row in report.rows:
        if row["op"] in ("next", "edit"):
            series.setdefault(f"{row['engine']}, {row['op']}", []).append((row["tokens"], row["ttft_s"]))
    report.plot = line_chart("Another question about a long document", "tokens", "seconds to the first token", series)
    return report


def _at(options: Options, size: int, rounds: int) -> list[dict[str, Any]]:
    with Engine.load(options.model, n_ctx=512, sequences=1, drafters="none", threads=1) as engine:
        vocab, eog = engine.vocab, sorted(engine.vocab.eog)
        document = vocab.encode(text_of(vocab, size, 7))[:size]
        other = vocab.encode(text_of(vocab, _EDIT * 2, 8))[:_EDIT]
        questions = [vocab.encode(f"\nQuestion {i}: what is the level of the garden in section {i}?") for i in range(3)]
    taken: dict[tuple[str, str], list[tuple[int, Answer]]] = {}
    n_ctx = size + 1024
    for turn in range(rounds):
        readers = ["agentloop", *(["llama-server"] if find_server() else []), "llama-cpp-python"]
        for who in readers if turn % 2 == 0 else reversed(readers):
            note(options, f"longctx: {size} tokens, {who}, run {turn + 1} of {rounds}")
            with tempfile.TemporaryDirectory(prefix="agentloop-bench-") as folder:
                reader = _open(who, options.model, n_ctx, Path(folder), eog)
                try:
                    for op, new, answer in _day(reader, document, other, questions):
                        taken.setdefault((reader.engine, op), []).append((new, answer))
                finally:
                    reader.close()
    return [_row(size, engine_name, op, runs) for (engine_name, op), runs in sorted(taken.items(), key=_order)]


def _open(who: str, model: str | None, n_ctx: int, folder: Path, eog: list[int]) -> Reader:
    if who == "agentloop":
        return _Agentloop(model, n_ctx, folder)
    binary = find_server()
    if who == "llama-server" and binary is not None:
        return _LlamaServer(binary, model, n_ctx, folder)
    return _LlamaCpp(model, n_ctx, folder, eog)


def _day(
    reader: Reader, document: list[int], other: list[int], questions: Sequence[list[int]]
) -> list[tuple[str, int, Answer]]:
    out: list[tuple[str, int, Answer]] = []
    n = len(document)
    first = document + questions[0]
    out.append(("first", len(first), reader.ask(first, 0)))
    out.append(("next", len(questions[1]), reader.ask(document + questions[1], n)))
    edited = document[: n - _EDIT] + other
    common = next((i for i, (a, b) in enumerate(zip(document, edited, strict=True)) if a != b), n)
    prompt = edited + questions[1]
    answer = reader.ask(prompt, common)
    out.append(("edit", len(prompt) - common, answer))
    reader.restart()
    prompt += answer.ids
    out.append(("restart", 1 + len(questions[2]), reader.ask(prompt + questions[2], len(prompt))))
    return out


def _order(entry: tuple[tuple[str, str], Any]) -> tuple[int, int]:
    engines, ops = ("agentloop", "llama-server", "llama-cpp-python"), ("first", "next", "edit", "restart")
    return ops.index(entry[0][1]), engines.index(entry[0][0])


def _row(size: int, engine: str, op: str, runs: list[tuple[int, Answer]]) -> dict[str, Any]:
    first = [answer.ttft_s for _, answer in runs]
    return {
        "tokens": size,
        "engine": engine,
        "op": op,
        "new": runs[0][0],
        "evaluated": runs[0][1].evaluated,
        "ttft_s": median(first),
        "ttft_spread": spread(first),
        "ttft_runs": [round(value, 4) for value in first],
        "tok_s": median([answer.tok_s for _, answer in runs], 1),
    }
