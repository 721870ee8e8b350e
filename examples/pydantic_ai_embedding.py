"""An existing pydantic-ai application, its model swapped for one in the process: pip install '.[pydantic-ai]'

python examples/pydantic_ai_embedding.py
"""

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse

from agentloop import Engine
from agentloop.integrations.pydantic_ai import AgentLoopModel
from agentloop.tools.samples import calculator as evaluate

FILES = {"app.txt": "20", "notes.txt": "22"}


def read_file(path: str) -> str:
    """Read a text file and return its content.

    Args:
        path: Path of the file to read.
    """
    return FILES[path]


def calculator(expression: str) -> str:
    """Evaluate an arithmetic expression.

    Args:
        expression: The expression, for example 2 + 3.
    """
    return str(evaluate(expression))


def show(messages: list[ModelMessage]) -> None:
    for message in messages:
        if isinstance(message, ModelResponse):
            calls = ", ".join(f"{call.tool_name} {call.args}" for call in message.tool_calls)
            usage = message.usage
            print(
                f"  {calls or 'answer':40} cached {usage.cache_read_tokens}, new {usage.details['new_tokens']}, "
                f"recomputed {usage.details['recomputed_tokens']}"
            )


def main() -> None:
    with Engine.load() as engine:
        model = AgentLoopModel(engine)
        agent = Agent(model, tools=[read_file, calculator])

        result = agent.run_sync("Read app.txt and notes.txt and add the numbers.")
        print(result.output)
        show(result.all_messages())

        # pydantic-ai sends the whole history again; the model goes on with the live state that it kept.
        more = agent.run_sync("What is 6 * 7?", message_history=result.all_messages())
        print(more.output)
        show(more.new_messages())
        model.close()


if __name__ == "__main__":
    main()
