"""Score a model on seeded tasks, each run to its end by a real agent.

    python scripts/eval_model.py [MODEL] [--tasks 40] [--kinds repair,write] [--seed 1] [--temperature 0]
                                 [--show-failures]

A task is solved if its calls, its answers and the files at the end are right, byte for byte. The kind `conversation` is
one conversation of up to 8,000 tokens for every ten tasks; its requests count one by one, those behind token 4,000 once
more as `late`. Prints one JSON object (progress goes to stderr): solved and tried by kind, in all, their share, and how
many tokens were decoded twice (0).
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from typing import Any

from eval_long import KINDS, talk
from eval_run import LATE, Outcome, attempt, converse, thinking_of

from agentloop import Engine, Sampling

TALK = "conversation"
SHOWN = 1_500  # characters of one message of a failure


def score(engine: Engine, kind: str, options: argparse.Namespace) -> tuple[list[bool], list[Outcome]]:
    """Which tasks of a kind were solved (which requests, for `conversation`), and the outcomes of all requests."""
    solved: list[bool] = []
    outcomes: list[Outcome] = []
    count = (options.tasks + 9) // 10 if kind == TALK else options.tasks
    for number in range(count):
        sampling = Sampling(temperature=options.temperature, seed=number)
        r = random.Random(f"{options.seed} {kind} {number}")
        if kind == TALK:
            tasks = talk(r)
            new = converse(engine, tasks, thinking_of(kind, r), sampling)
            solved += [not outcome.wrong for outcome in new]
        else:
            task = KINDS[kind](r)
            new = attempt(engine, task, thinking_of(kind, r), sampling)
            solved.append(not any(outcome.wrong for outcome in new))
        outcomes += new
        if options.show_failures:
            for outcome in new:
                if outcome.wrong:
                    show(f"{kind} {number}", outcome)
    return solved, outcomes


def show(name: str, outcome: Outcome) -> None:
    """Print a failed request and what the model did."""
    print(f"--- {name}, token {outcome.at}: {outcome.wrong[:SHOWN]}", file=sys.stderr)
    for message in outcome.messages or [{"role": "user", "content": outcome.prompt}]:
        if message.get("reasoning_content"):
            print(f"  thought: {message['reasoning_content'][:SHOWN]}", file=sys.stderr)
        for call in message.get("tool_calls") or []:
            print(f"  call: {call['function']['name']} {call['function']['arguments']}"[:SHOWN], file=sys.stderr)
        if message["content"]:
            print(f"  {message['role']}: {message['content'][:SHOWN]}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description="Score a model on seeded tasks.")
    parser.add_argument("model", nargs="?", help="a GGUF file (default: the embedded model)")
    parser.add_argument("--model", dest="named", help="the same, by name")
    parser.add_argument("--tasks", type=int, default=40, help="tasks of each kind")
    parser.add_argument("--kinds", default=",".join([*KINDS, TALK]))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--temperature", type=float, default=0.0, help="0: greedy; else sampled, seeded by the task")
    parser.add_argument("--show-failures", action="store_true", help="what went wrong, to stderr")
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    if unknown := [kind for kind in kinds if kind not in KINDS and kind != TALK]:
        parser.error(f"no kind is called {unknown[0]}; there are {', '.join([*KINDS, TALK])}")
    counts: dict[str, list[int]] = {}
    report: dict[str, Any] = {}
    recomputed, began = 0, time.monotonic()
    with Engine.load(options.named or options.model, n_ctx=9_216, sequences=1) as engine:
        for kind in kinds:
            started = time.monotonic()
            solved, outcomes = score(engine, kind, options)
            counts[kind] = [sum(solved), len(solved)]
            recomputed += sum(outcome.recomputed for outcome in outcomes)
            if kind == TALK:
                late = [not outcome.wrong for outcome in outcomes if outcome.at >= LATE]
                report["late"] = [sum(late), len(late)]
            seconds = time.monotonic() - started
            print(f"{kind}: {counts[kind][0]} of {counts[kind][1]}, {seconds:.1f} s", file=sys.stderr, flush=True)
    total = [sum(good for good, _ in counts.values()), sum(tried for _, tried in counts.values())]
    report |= {"total": total, "share": round(total[0] / max(1, total[1]), 4), "recomputed": recomputed}
    seconds = round(time.monotonic() - began, 1)
    print(json.dumps({"model": engine.name, "solved": counts, **report, "seconds": seconds}))


if __name__ == "__main__":
    main()
