"""Score a model on seeded tasks, each run to its end by a real agent.

    python scripts/eval_model.py [MODEL] [--tasks 40] [--kinds repair,write] [--seed 1] [--temperature 0]

Prints one JSON object (progress goes to stderr): solved and tried by kind, and how many tokens were decoded twice (0).
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from eval_tasks import KINDS, Task, World, test_report

from agentloop import Agent, Engine, Sampling, Thinking, UsageLimits
from agentloop.exceptions import AgentLoopError

EFFORTS: tuple[Any, ...] = ("low", "medium", "xhigh")


def tools_for(world: World) -> list[Callable[..., str]]:
    """The six tools that the embedded model knows, over a world in memory."""

    def read_file(path: str) -> str:
        """Read a text file and return its content.

        Args:
            path: Path of the file to read.
        """
        if path not in world.files:
            near = next(iter(world.files), "nothing")
            return f"Error: file not found: {path}. Did you mean {near}?"
        return world.files[path]

    def write_file(path: str, content: str) -> str:
        """Write text to a file, replacing what it held.

        Args:
            path: Path of the file to write.
            content: The new content.
        """
        world.files[path] = content
        return f"Wrote {len(content.encode())} bytes to {path}."

    def list_files(directory: str) -> str:
        """List the files in a directory.

        Args:
            directory: Directory to list.
        """
        start = directory.rstrip("/") + "/"
        return "\n".join(path.removeprefix(start) for path in sorted(world.files) if path.startswith(start))

    def run_tests() -> str:
        """Run the test suite and return its report."""
        return test_report(world)

    def calculator(expression: str) -> str:
        """Evaluate an arithmetic expression.

        Args:
            expression: The expression, for example 2 + 3.
        """
        if not set(expression) <= set("0123456789+-* "):
            return "Error: only numbers, +, - and * are understood."
        return str(eval(expression))

    def get_weather(city: str) -> str:
        """Return the current weather in a city.

        Args:
            city: Name of the city.
        """
        return world.weather.get(city, f"Error: no such city: {city}.")

    return [read_file, write_file, list_files, run_tests, calculator, get_weather]


def attempt(engine: Engine, task: Task, effort: Any, sampling: Sampling) -> tuple[bool, int]:
    """Run one task; whether it was solved, and how many tokens were decoded twice."""
    agent = Agent(
        engine,
        tools=tools_for(task.world),
        thinking=Thinking(effort=effort),
        sampling=sampling,
        limits=UsageLimits(request_limit=10, output_tokens_limit=800),
    )
    try:
        result = agent.run_sync(task.prompt)
    except AgentLoopError:
        return False, 0
    return task.solved(task.world, str(result.output)), result.usage.recomputed


def main() -> None:
    parser = argparse.ArgumentParser(description="Score a model on seeded tasks.")
    parser.add_argument("model", nargs="?", help="a GGUF file (default: the embedded model)")
    parser.add_argument("--tasks", type=int, default=40, help="tasks of each kind")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--temperature", type=float, default=0.0, help="0: greedy; else sampled, seeded by the task")
    options = parser.parse_args()
    solved: dict[str, list[int]] = {}
    recomputed, began = 0, time.monotonic()
    with Engine.load(options.model, n_ctx=4096, sequences=1) as engine:
        for kind in options.kinds.split(","):
            solved[kind] = [0, options.tasks]
            for number in range(options.tasks):
                sampling = Sampling(temperature=options.temperature, seed=number)
                r = random.Random(f"{options.seed} {kind} {number}")
                good, twice = attempt(engine, KINDS[kind](r), r.choice(EFFORTS), sampling)
                solved[kind][0] += good
                recomputed += twice
            print(f"{kind}: {solved[kind][0]} of {options.tasks}", file=sys.stderr, flush=True)
    seconds = round(time.monotonic() - began, 1)
    print(json.dumps({"model": engine.name, "solved": solved, "recomputed": recomputed, "seconds": seconds}))


if __name__ == "__main__":
    main()
