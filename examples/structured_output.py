"""An answer that is a pydantic model: told to the model, held while it writes, validated, and asked for again.

python examples/structured_output.py [MODEL.gguf]

Without a model a script answers, since the embedded model knows seven tools and nothing of reviews. With one, the
grammar of the schema masks every token of the answer, behind free reasoning.
"""

import sys

from pydantic import BaseModel, Field

from agentloop import Agent, Engine, ModelRetry
from agentloop.engine import EngineLike
from agentloop.events import Retry
from agentloop.testing import ScriptedEngine, say, think


class Review(BaseModel):
    """What a customer said."""

    product: str
    stars: int = Field(ge=1, le=5)
    complaints: list[str] = []


SCRIPT = [
    think("They are unhappy.") + say('{"product": "kettle", "stars": 9, "complaints": ["it leaks"]}'),
    think("At most five stars.") + say('{"product": "kettle", "stars": 5, "complaints": ["it leaks"]}'),
    think("A leak is no five stars.") + say('{"product": "kettle", "stars": 2, "complaints": ["it leaks"]}'),
]


def main() -> None:
    engine: EngineLike = Engine.load(sys.argv[1]) if len(sys.argv) > 1 else ScriptedEngine(SCRIPT)
    agent = Agent(engine, output_type=Review)

    @agent.output_validator
    def unhappy_people_give_few_stars(review: Review) -> Review:
        if review.complaints and review.stars > 3:
            raise ModelRetry("Someone who complains gives 3 stars at most.")
        return review

    def show(event: object) -> None:
        if isinstance(event, Retry):
            print("asked again:", event.message)

    result = agent.run_sync("Two weeks old and the kettle leaks already. Otherwise it is fine.", on_event=show)
    review = result.output
    print(f"{type(review).__name__}: {review.product}, {review.stars} stars, complaints: {review.complaints}")
    print(f"{result.usage.requests} turns, new {result.usage.new}, recomputed {result.usage.recomputed}")
    engine.close()


if __name__ == "__main__":
    main()
