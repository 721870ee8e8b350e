"""`agentloop run TASK --workspace DIR`: one task, done by an agent in a folder."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import anyio

from .session import ask_person, existing_folder, follow, load_engine, make_agent, tools_for, turn_rows
from .transcript import Transcript, make_console, usage_line, usage_table

__all__ = ["run_task"]


def run_task(options: argparse.Namespace) -> int:
    """Do the task and print what happened; 0 when there is an answer. Errors of the agent are raised."""
    folder = existing_folder(options.workspace)
    console = make_console()
    person = sys.stdin.isatty() and not options.json
    with load_engine(options.model, n_ctx=options.n_ctx, threads=options.threads) as engine:
        agent = make_agent(
            engine,
            tools_for(options.model, str(folder), commands=person or options.yes),
            effort=options.effort,
            system=options.system,
            max_turns=options.max_turns,
            max_tokens=options.max_tokens,
            approve=(lambda request: True) if options.yes else ask_person(console) if person else None,
        )
        transcript = None if options.json else Transcript(console)
        result = anyio.run(lambda: follow(agent, options.task, transcript))
        if options.json:
            report: dict[str, Any] = {
                "output": str(result.output),
                "finish_reason": result.finish_reason,
                "model": engine.name,
                "turns": turn_rows(result.usage),
                "tool_calls": result.usage.tool_calls,
                "seconds": round(result.usage.seconds, 3),
            }
            print(json.dumps(report))
        else:
            console.print()
            console.print(usage_table(result.usage))
            console.print(usage_line(result.usage))
    return 0
