"""Decode speed by task and drafter, against plain decoding in the same run.

Each task is a conversation up to the model's next turn, rendered by the native template; what is timed is greedy
generation of that turn behind a live prompt. Drafters take turns within a round, so that a busy machine meets all of
them alike; figures are medians over the rounds. The texts are compared with the plain one: where they differ, the row
says at which token and how far apart the two logits were there, under plain decoding.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..engine import Engine
from ..engine import Sequence as TokenSequence
from ..engine.draft_loading import draft_kind
from ..engine.modelfile import read_model_file
from ..models import default_drafter_path
from ..templates import Qwen38

__all__ = ["TASKS", "decode"]

_CODE = "\n\n\n".join(
    f"def {name}(a, b):\n    return a {sign} b" for name, sign in (("add", "-"), ("subtract", "-"), ("multiply", "*"))
)
_CONFIG = (
    "port = 8080\nhost = amber\ntimeout = 30\nretries = 5\nname = quiet-12\nowner = Paris\nlevel = 7\nmode = rapid"
)
_NOTES = """\
river mountain 1140 forest
desert ocean island
copper iron marble-12 cotton
quiet valley meadow 77
lantern mirror window ladder
hammer anchor 9031 compass
rapid engine rocket
satellite comet nebula-4 galaxy
planet orbit signal
velvet paper pencil 256 basket
bottle candle carpet
falcon tiger otter panda-31
raven salmon turtle rabbit
maple cedar 68 willow
bamboo orchid lotus clover
ginger pepper lemon-9 mango"""


def _tool(name: str, description: str, **parameters: str) -> dict[str, Any]:
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


_TOOLS = [
    _tool("read_file", "Read a text file and return its content.", path="Path of the file to read."),
    _tool(
        "write_file",
        "Write text to a file, replacing what it held.",
        path="Path of the file to write.",
        content="The new content.",
    ),
    _tool("run_tests", "Run the test suite and return its report."),
]


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _call(thought: str, name: str, **arguments: str) -> dict[str, Any]:
    call = {"function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "reasoning_content": thought, "content": "", "tool_calls": [call]}


def _result(text: str) -> dict[str, Any]:
    return {"role": "tool", "content": text}


TASKS: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]] = {
    "chat": [[_user("Hello!")], [_user("What can you do?")], [_user("What is 128 plus 415?")]],
    "edit_a_file": [
        [
            _user("Set port to 9090 in config.toml."),
            _call("I read config.toml before I change port.", "read_file", path="config.toml"),
            _result(_CONFIG),
        ]
    ],
    "fix_a_test": [
        [
            _user("The tests fail. Fix the bug in calc.py."),
            _call("I run the tests to see what fails.", "run_tests"),
            _result("FAILED test_calc.py::test_add - assert -1 == 5\n1 failed, 2 passed"),
            _call("test_add fails, so I read calc.py.", "read_file", path="calc.py"),
            _result(_CODE),
        ]
    ],
    "copy_a_file": [
        [
            _user("Copy notes.txt to docs/backup.txt."),
            _call("I read notes.txt first.", "read_file", path="notes.txt"),
            _result(_NOTES),
        ]
    ],
}


def decode(
    model: str | None = None,
    *,
    draft_path: str | None = None,
    drafters: Sequence[str] | None = None,
    rounds: int = 5,
    max_tokens: int = 200,
) -> dict[str, Any]:
    """Returns {"bench": "decode", "rows": [{"task", "drafter", "tok_s", "ratio", "accepted_per_step",
    "first_difference", "gap"}]}: ratio against "none", gap in logits; both null where the texts are equal.

    `draft_path`: a file that drafts for the model; the embedded model has its own block drafter.
    """
    if draft_path is None and model is None:
        draft_path = str(default_drafter_path())
    kind = draft_kind(read_model_file(Path(draft_path))) if draft_path is not None else None
    names = list(drafters or ["none", "suffix", "mtp", *([kind] if kind else []), "auto"])
    engines: dict[str, Engine] = {}
    try:
        for name in names:
            extra = {"draft_path": draft_path} if draft_path is not None and name in (kind, "auto") else {}
            engines[name] = Engine.load(model, n_ctx=8192, sequences=1, drafters=name, **extra)  # type: ignore[arg-type]
            engines[name].calibrate()
        for name in set(engines) - {"none", "auto"}:  # what this model or this llama.cpp does not have
            if not any(factory.name == name for factory in engines[name].drafters):
                engines.pop(name).close()
        rows: list[dict[str, Any]] = []
        for task, prompts in TASKS.items():
            rows += _task(task, prompts, engines, rounds, max_tokens)
        return {"bench": "decode", "cores": len(os.sched_getaffinity(0)), "rows": rows}
    finally:
        for engine in engines.values():
            engine.close()


def _task(
    task: str,
    prompts: Sequence[Sequence[Mapping[str, Any]]],
    engines: Mapping[str, Engine],
    rounds: int,
    max_tokens: int,
) -> list[dict[str, Any]]:
    speeds: dict[str, list[float]] = {name: [] for name in engines}
    texts: dict[str, list[list[int]]] = {}
    steps: dict[str, tuple[int, int]] = {}
    live = {name: [_prompted(engine, prompt) for prompt in prompts] for name, engine in engines.items()}
    for turn in range(rounds + 1):
        for name in engines:
            spent, made, accepted, texts[name] = 0.0, 0, 0, []
            for sequence, length in live[name]:
                sequence.truncate(length)
                before = sequence.stats
                started = time.perf_counter()
                text = [token.id for token in sequence.generate(max_tokens)]
                spent += time.perf_counter() - started
                made += len(text)
                accepted += sum((sequence.stats - before).accepted.values())
                texts[name].append(text)
            steps[name] = (accepted, made - accepted)
            if turn:  # the first round warms up
                speeds[name].append(made / spent)
    rows: list[dict[str, Any]] = []
    for name in engines:
        where, gap = _difference(live["none"], texts["none"], texts[name])
        ratio = statistics.median(a / b for a, b in zip(speeds[name], speeds["none"], strict=True))
        rows.append(
            {
                "task": task,
                "drafter": name,
                "tok_s": round(statistics.median(speeds[name]), 1),
                "ratio": round(ratio, 3),
                "accepted_per_step": round(steps[name][0] / max(1, steps[name][1]), 3),
                "first_difference": where,
                "gap": gap,
            }
        )
    for pairs in live.values():
        for sequence, _ in pairs:
            sequence.close()
    return rows


def _prompted(engine: Engine, messages: Sequence[Mapping[str, Any]]) -> tuple[TokenSequence, int]:
    segments = Qwen38().segments(messages, _TOOLS, reasoning_effort="low")
    sequence = engine.sequence()
    sequence.extend(engine.vocab.encode_parts(segments))
    sequence.checkpoint(label="turn", pinned=True)
    return sequence, len(sequence)


def _difference(
    plain: Sequence[tuple[TokenSequence, int]], expected: Sequence[Sequence[int]], found: Sequence[Sequence[int]]
) -> tuple[int | None, float | None]:
    """Index of the first token that differs, counted in its own text, and the gap of the two logits there."""
    for (sequence, length), a, b in zip(plain, expected, found, strict=True):
        for i, (x, y) in enumerate(zip(a, b, strict=False)):
            if x != y:
                sequence.truncate(length)
                sequence.extend(a[:i])
                row = sequence.logits()
                return i, round(float(row[x] - row[y]), 5)
    return None, None
