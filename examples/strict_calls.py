"""Calls that cannot be wrong: a strict tool's schema masks every token of its calls, whatever the model would write.

python examples/strict_calls.py
"""

from typing import Annotated, Literal

from pydantic import Field

from agentloop import Conversation, Engine, Sampling, tool


@tool(strict=True)
def set_light(room: Literal["kitchen", "hall"], percent: Annotated[int, Field(ge=0, le=100)], warm: bool) -> str:
    """Set a light.

    Args:
        room: Where it is.
        percent: How bright.
        warm: Warm or cold.
    """
    return f"{room}: {percent} %, {'warm' if warm else 'cold'}"


def main() -> None:
    """The embedded model has never seen such a tool, and here it is even drawn at random: what it calls makes no sense,
    but it is always a call that fits."""
    with Engine.load() as engine:
        for held in (False, True):
            print("strict:" if held else "free:")
            for seed in range(4):
                conversation = Conversation(engine, tools=[set_light.schema])
                conversation.user("Dim the light in the hall.")
                reply = conversation.reply(
                    strict=["set_light"] if held else False,
                    tool_choice="required" if held else "auto",
                    sampling=Sampling(temperature=1.0, seed=seed),
                    max_tokens=200,
                )
                calls = [f"{call.name} {call.arguments} {call.status}" for call in reply.calls]
                print("  ", "; ".join(calls)[:100] or "no call")
                conversation.close()


if __name__ == "__main__":
    main()
