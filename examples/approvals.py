"""A person decides on calls: at once, or later in another process.

python examples/approvals.py
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from agentloop import Agent, Conversation, DeferredToolResults, Engine, ToolApproved, ToolDenied, tool
from agentloop.tools import ApprovalRequest


@tool(requires_approval=True)
def calculator(expression: str) -> str:
    """Evaluate an arithmetic expression.

    Args:
        expression: The expression, for example 2 + 3.
    """
    left, sign, right = expression.split()
    a, b = int(left), int(right)
    return str({"+": a + b, "-": a - b, "*": a * b}[sign])


def decide(request: ApprovalRequest) -> bool | ToolDenied:
    """Asked for each call. A real one would show the arguments to someone and wait."""
    allowed = "*" not in request.call.arguments["expression"]
    print(f"  {request.call.name} {request.call.arguments}: {'yes' if allowed else 'no'}")
    return True if allowed else ToolDenied("No products today.")


def inline(engine: Engine) -> None:
    agent = Agent(engine, tools=[calculator], approve=decide)
    for question in ("What is 20 + 22?", "What is 12 * 7?"):
        print(question)
        result = agent.run_sync(question)
        print("  the model read:", [m["content"] for m in result.messages if m["role"] == "tool"])


def ask(engine: Engine, path: Path) -> None:
    """Without `approve`, the run stops with what it wants to do. The conversation goes into a file."""
    result = Agent(engine, tools=[calculator]).run_sync("What is 30 + 12?")
    assert result.deferred is not None
    for call in result.deferred.approvals:
        print(f"process 1: {call.name} {call.arguments} waits for a decision")
    result.conversation.save(path)


def resume(engine: Engine, path: Path) -> None:
    """Somebody has decided, and changed the arguments."""
    conversation = Conversation.load(path, engine)
    decisions = {call["id"]: ToolApproved(override_args={"expression": "40 + 2"}) for call in conversation.open_calls}
    result = Agent(engine, tools=[calculator]).run_sync(
        conversation=conversation, deferred_tool_results=DeferredToolResults(decisions)
    )
    print("process 2:", result.output)
    print(f"process 2: reused {result.usage.reused}, new {result.usage.new}, recomputed {result.usage.recomputed}")


def main() -> None:
    with Engine.load() as engine:
        if len(sys.argv) == 3 and sys.argv[1] == "resume":
            resume(engine, Path(sys.argv[2]))
            return
        inline(engine)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "waiting.json"
            ask(engine, path)
            print(end="", flush=True)
            subprocess.run([sys.executable, __file__, "resume", str(path)], check=True)


if __name__ == "__main__":
    main()
