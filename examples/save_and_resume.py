"""A conversation outlives its process: save it, load it, go on. Nothing is decoded a second time.

python examples/save_and_resume.py
"""

import tempfile
from pathlib import Path

from agentloop import Agent, Conversation, Engine
from agentloop.tools.samples import calculator


def first_process(path: Path) -> None:
    with Engine.load() as engine:
        agent = Agent(engine, tools=[calculator])
        result = agent.run_sync("What is 20 + 22?")
        print(result.output)
        result.conversation.save(path)


def second_process(path: Path) -> None:
    with Engine.load() as engine:
        agent = Agent(engine, tools=[calculator])
        conversation = Conversation.load(path, engine)
        result = agent.run_sync("What is 6 * 7?", conversation=conversation)
        print(result.output)
        turn = result.usage.turns[0]
        print(f"reused {turn.reused}, new {turn.new}, recomputed {turn.recomputed}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "conversation.json"
        first_process(path)
        second_process(path)


if __name__ == "__main__":
    main()
