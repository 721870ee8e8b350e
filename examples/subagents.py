"""Many agents from one point: forks share what was decoded, so each pays for its own question only.

python examples/subagents.py
"""

import anyio

from agentloop import Agent, Conversation, Engine, Sampling
from agentloop.tools.samples import calculator, get_weather

QUESTIONS = ("What is the weather in Oslo?", "What is 20 + 22?", "What is the weather in Rome?", "What is 6 * 7?")


async def by_fork(agent: Agent, parent: Conversation) -> int:
    """Sub-agents that know all that was said, each on a fork, all at once. Returns the prefill tokens saved."""
    saved: list[int] = []

    async def child(question: str) -> None:
        branch = parent.fork()
        result = await agent.run(question, conversation=branch)
        first = result.usage.turns[0]
        saved.append(first.reused)
        print(f"  {result.output:32} prefill {result.usage.new}, recomputed {result.usage.recomputed}")
        branch.close()

    async with anyio.create_task_group() as group:
        for question in QUESTIONS:
            group.start_soon(child, question)
    return sum(saved)


async def main() -> None:
    with Engine.load(sequences=6) as engine:
        agent = Agent(engine, tools=[calculator, get_weather])
        first = await agent.run("What is 12 * 7?")
        parent = first.conversation
        print(f"parent: {first.output} {len(parent.tokens)} tokens")

        print(f"{len(QUESTIONS)} sub-agents on forks of it:")
        saved = await by_fork(agent, parent)
        print(f"  saved by forks: {saved} prefill tokens")

        print("the best of 5 answers to one question:")
        best = await agent.best_of("What is 30 + 12?", 5, sampling=Sampling(temperature=0.6, seed=1))
        print(f"  {best.output}  (given {max(best.scores):.0f} times of {len(best.results)})")
        print(f"  saved by forks: {best.saved} prefill tokens; recomputed {best.usage.recomputed}")
        print(f"sum: {saved + best.saved} prefill tokens saved")


if __name__ == "__main__":
    anyio.run(main)
