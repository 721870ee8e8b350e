"""Several runs for one answer: an agent as another one's tool, and the best of many answers from one point."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from ..context import RunContext
from ..conversation import Conversation
from ..engine.seam import Sampling
from ..exceptions import ToolFailed
from ..limits import Usage
from ..tools import Tool, result_text
from .result import RunResult

if TYPE_CHECKING:
    from .agent import Agent

__all__ = ["BestOf", "Score", "agent_tool", "answers_from", "pick"]

Score = Callable[[RunResult[Any]], "float | Awaitable[float]"]
"""How good an answer is; the largest wins."""


@dataclass(frozen=True, slots=True)
class BestOf:
    """`best` is the chosen result, `results` all of them in the order of their seeds, `scores` theirs. `usage` is that
    of all together; `saved` counts the prompt tokens that forks did not decode again."""

    best: RunResult[Any]
    results: tuple[RunResult[Any], ...] = field(repr=False)
    scores: tuple[float, ...]
    usage: Usage = field(repr=False)
    saved: int

    @property
    def output(self) -> Any:
        """The best answer."""
        return self.best.output


def agent_tool(agent: Agent[Any, Any], name: str, description: str, *, fork: bool, **options: Any) -> Tool:
    """See `Agent.as_tool`."""

    async def delegate(ctx: RunContext[Any], task: str) -> str:
        usage = Usage()
        conversation = await anyio.to_thread.run_sync(_branch, ctx) if fork else None
        try:
            result = await agent.run(task, deps=ctx.deps, usage=usage, conversation=conversation)
        finally:
            ctx.usage.incr(usage)
            if conversation is not None:
                conversation.close()
        if result.deferred is not None:
            raise ToolFailed("the agent needs a decision of a person, which it cannot get here")
        if conversation is None:
            result.conversation.close()
        return result_text(result.output)

    delegate.__doc__ = f"{description}\n\nArgs:\n    task: What to do, with everything that is needed for it."
    return Tool(delegate, name=name, takes_context=True, **options)


def _branch(ctx: RunContext[Any]) -> Conversation:
    """A fork of the conversation that calls, with its open calls answered so that another prompt can follow."""
    parent = ctx.conversation
    if parent is None:
        raise ToolFailed("there is no conversation to branch from")
    child = parent.fork()
    for call in child.open_calls:
        child.tool_result(call["id"], "You work on this yourself now; the task follows.", call["function"]["name"])
    return child


async def answers_from(
    agent: Agent[Any, Any], start: Conversation, n: int, *, deps: Any, sampling: Sampling | None
) -> list[RunResult[Any]]:
    """`n` runs from forks of `start`, each with a seed of its own, all at once; the engine takes them in turns."""
    base = sampling or agent.sampling or Sampling()
    if base.temperature == 0:
        base = replace(base, temperature=0.8, top_p=0.95)  # greedy answers would all be the same
    results: dict[int, RunResult[Any]] = {}
    errors: list[Exception] = []

    async def one(i: int, branch: Conversation) -> None:
        seeded = replace(base, seed=i if base.seed is None else base.seed + i)
        try:
            results[i] = await agent.run(None, deps=deps, conversation=branch, sampling=seeded)
        except Exception as error:  # the others may still answer
            errors.append(error)
            branch.close()

    branches = await anyio.to_thread.run_sync(lambda: [start.fork() for _ in range(n)])
    async with anyio.create_task_group() as group:
        for i, branch in enumerate(branches):
            group.start_soon(one, i, branch)
    if not results:
        raise errors[0]
    return [results[i] for i in sorted(results)]


async def pick(results: Sequence[RunResult[Any]], score: Score | None) -> tuple[int, tuple[float, ...]]:
    """The index of the best result, and the scores. Without `score`, how often an answer was given is its score."""
    scores: list[float] = []
    counts = Counter(str(result.output).strip() for result in results)
    for result in results:
        value: Any = counts[str(result.output).strip()] if score is None else score(result)
        scores.append(float(await value if inspect.isawaitable(value) else value))
    return max(range(len(scores)), key=scores.__getitem__), tuple(scores)
