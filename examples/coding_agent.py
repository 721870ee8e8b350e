"""A coding agent over a folder: it runs the tests, reads, writes, and runs them again.

python examples/coding_agent.py FOLDER "The tests fail. Fix the bug in calc.py."
"""

import asyncio
import sys

from agentloop import Agent, Thinking, UsageLimits
from agentloop.events import CallReady, ReasoningDelta, TextDelta, ToolFinished
from agentloop.tools.workspace import workspace_tools

TOOLS = ["list_files", "read_file", "write_file", "run_tests"]  # of the tools that the embedded model knows


async def work(folder: str, task: str) -> None:
    agent = Agent(
        tools=workspace_tools(folder, allow=TOOLS),
        thinking=Thinking(effort="low", budget=256),
        limits=UsageLimits(request_limit=12),
    )
    async with agent.stream(task) as run:
        async for event in run:
            if isinstance(event, ReasoningDelta | TextDelta):
                print(event.text, end="", flush=True)
            elif isinstance(event, CallReady):
                print(f"\n-> {event.call.name} {event.call.arguments}")
            elif isinstance(event, ToolFinished):
                print(event.content, end="\n\n")
    usage = run.result.usage
    print(f"\n{usage.requests} turns, new {usage.new}, recomputed {usage.recomputed}, generated {usage.generated}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    asyncio.run(work(sys.argv[1], sys.argv[2]))
