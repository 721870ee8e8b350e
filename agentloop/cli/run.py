"""`agentloop run TASK --workspace DIR`: one task, done by an agent in a folder."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from ..exceptions import ToolError
from ..limits import Usage
from .asking import Person
from .lines import Lines
from .session import existing_folder, load_engine, make_agent, run_with_person, tools_for, turn_rows
from .transcript import Transcript, make_console, usage_line, usage_table

__all__ = ["run_task"]


def run_task(options: argparse.Namespace) -> int:
    """Do the task and print what happened; 0 when there is an answer. Errors of the agent are raised."""
    folder = existing_folder(options.workspace)
    console = make_console()
    asks = sys.stdin is not None and sys.stdin.isatty() and not options.json and not options.yes
    person = Person(console, Lines().ask) if asks else None
    usage = Usage()
    with load_engine(options.model, n_ctx=options.n_ctx, threads=options.threads, draft=options.draft) as engine:
        agent = make_agent(
            engine,
            tools_for(options.model, str(folder), commands=asks or options.yes, ask=options.ask),
            effort=options.effort,
            system=options.system,
            max_turns=options.max_turns,
            max_tokens=options.max_tokens,
            approve=(lambda request: True) if options.yes else person.approve if person else None,
        )
        transcript = None if options.json else Transcript(console)
        result = run_with_person(agent, options.task, transcript, person, usage=usage)
        if result.deferred is not None:
            names = ", ".join(sorted({call.name for call in result.deferred.approvals}))
            raise ToolError(
                f"{names} asks first and there is nobody to ask; run it on a terminal, or allow all with --yes"
            )
        if options.json:
            report: dict[str, Any] = {
                "output": str(result.output),
                "finish_reason": result.finish_reason,
                "model": engine.name,
                "turns": turn_rows(usage),
                "tool_calls": usage.tool_calls,
                "seconds": round(usage.seconds, 3),
            }
            print(json.dumps(report))
        else:
            console.print()
            console.print(usage_table(usage))
            console.print(usage_line(usage))
    return 0
