"""A model calls Python functions: two plain ones and one that receives the run's context.

python examples/tool_calling.py
"""

from agentloop import Agent, RunContext

agent: Agent[dict[str, str]] = Agent()


@agent.tool_plain
def calculator(expression: str) -> str:
    """Evaluate an arithmetic expression.

    Args:
        expression: The expression, for example 2 + 3.
    """
    left, sign, right = expression.split()
    a, b = int(left), int(right)
    return str({"+": a + b, "-": a - b, "*": a * b}[sign])


@agent.tool
def get_weather(ctx: RunContext[dict[str, str]], city: str) -> str:
    """Return the current weather in a city.

    Args:
        city: Name of the city.
    """
    return ctx.deps.get(city, "Error: unknown city.")


def main() -> None:
    weather = {"Oslo": "snowy, -3 degrees", "Rome": "sunny, 24 degrees"}

    result = agent.run_sync("What is 12 * 7?", deps=weather)
    print(result.output)

    # The next run goes on in the same conversation: only its own tokens are decoded.
    result = agent.run_sync("What is the weather in Oslo and Rome?", deps=weather, conversation=result.conversation)
    print(result.output)

    for number, turn in enumerate(result.usage.turns, 1):
        print(f"turn {number}: reused {turn.reused}, new {turn.new}, recomputed {turn.recomputed}")


if __name__ == "__main__":
    main()
