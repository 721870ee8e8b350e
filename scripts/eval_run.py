"""Run tasks to their end with a real agent, and judge them."""

from __future__ import annotations

import random
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_long import BUDGETS
from eval_tasks import Step, Task
from eval_world import Desk

from agentloop import Agent, Conversation, Sampling, Thinking, UsageLimits
from agentloop.engine.seam import EngineLike
from agentloop.events import Event
from agentloop.exceptions import AgentLoopError

__all__ = ["LATE", "Outcome", "attempt", "converse", "thinking_of"]

EFFORTS: tuple[Any, ...] = ("low", "medium", "xhigh")

LATE = 4_000
"""Tokens of a conversation behind which its requests are counted separately too."""

FULL = 8_000
"""Tokens at which a conversation gets no more tasks."""

FEWEST = 12  # tasks of a conversation that count, even if it is full before


@dataclass
class Outcome:
    """What became of one request. `wrong` says what was not right, "" if all was; `at` is how many tokens the
    conversation held before it."""

    prompt: str
    wrong: str
    at: int = 0
    recomputed: int = 0
    generated: int = 0
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


def thinking_of(kind: str, r: random.Random) -> Thinking:
    """An effort; no reasoning for `off`, a budget for `budget`."""
    if kind == "off":
        return Thinking(effort=None, enabled=False)
    effort = r.choice(EFFORTS)
    if kind != "budget":
        return Thinking(effort=effort)
    with warnings.catch_warnings():  # that the budget cuts short what the effort asks for is the point
        warnings.simplefilter("ignore")
        return Thinking(effort=effort, budget=r.choice(BUDGETS))


def attempt(
    engine: EngineLike,
    task: Task,
    thinking: Thinking,
    sampling: Sampling,
    *,
    most_tokens: int = 1_600,
    strict: bool = False,
    on_event: Callable[[Event], None] | None = None,
) -> list[Outcome]:
    """Run one task in a conversation of its own; the outcomes of its requests."""
    with _agent(engine, sampling, thinking, most_tokens, edits=task.edits, strict=strict) as (agent, talk, desk):
        return _run(agent, talk, desk, task, on_event)


def converse(
    engine: EngineLike, tasks: list[Task], thinking: Thinking, sampling: Sampling, *, most_tokens: int = 1_600
) -> list[Outcome]:
    """Run tasks in one conversation until it is full. Every request counts; those of the first twelve tasks are
    wrong if what was generated left no room for them."""
    outcomes: list[Outcome] = []
    edits = any(task.edits for task in tasks)
    with _agent(engine, sampling, thinking, most_tokens, edits=edits) as (agent, conversation, desk):
        for number, task in enumerate(tasks):
            if len(conversation.tokens) < FULL:
                outcomes += _run(agent, conversation, desk, task)
            elif number < FEWEST:
                outcomes += [Outcome(step.prompt, "not asked", len(conversation.tokens)) for step in task.steps]
    return outcomes


@contextmanager
def _agent(
    engine: EngineLike, sampling: Sampling, thinking: Thinking, most_tokens: int, *, edits: bool, strict: bool = False
) -> Iterator[tuple[Agent, Conversation, Desk]]:
    with tempfile.TemporaryDirectory(prefix="agentloop-eval-") as folder:
        desk = Desk(Path(folder), edits=edits)
        tools = desk.tools()
        limits = UsageLimits(request_limit=10, output_tokens_limit=most_tokens)
        agent = Agent(engine, tools=tools, limits=limits, strict=strict)
        schemas = [tool.schema for tool in tools]
        conversation = Conversation(engine, tools=schemas, thinking=thinking, sampling=sampling)
        try:
            yield agent, conversation, desk
        finally:
            conversation.close()


def _run(
    agent: Agent,
    conversation: Conversation,
    desk: Desk,
    task: Task,
    on_event: Callable[[Event], None] | None = None,
) -> list[Outcome]:
    desk.lay(task.world)
    outcomes: list[Outcome] = []
    for step in task.steps:
        first, at, before = len(conversation.messages), len(conversation.tokens), conversation.usage
        twice, made = before.recomputed, before.generated
        failure = ""
        try:
            agent.run_sync(step.prompt, conversation=conversation, on_event=on_event)
        except AgentLoopError as error:
            failure = f"{type(error).__name__}: {error}"
        messages = conversation.messages[first:]
        wrong = failure or _wrong(step, messages)
        if not wrong and step is task.steps[-1] and desk.files() != task.after:
            wrong = "the files are not as they should be"
        usage = conversation.usage
        outcomes.append(Outcome(step.prompt, wrong, at, usage.recomputed - twice, usage.generated - made, messages))
    return outcomes


def _wrong(step: Step, messages: list[dict[str, Any]]) -> str:
    """What is not right with the calls and the answer, "" if all is."""
    replies = [message for message in messages if message["role"] == "assistant"]
    made = [sorted(_calls(reply)) for reply in replies]
    wanted = [sorted(_comparable(*call) for call in turn) for turn in (*step.turns, ())]
    for number, calls in enumerate(wanted):
        if number >= len(made) or made[number] != calls:
            return f"turn {number + 1} should call {calls or 'nothing'}"
    if len(made) > len(wanted):
        return f"there should be no turn {len(wanted) + 1}"
    if replies[-1]["content"] != step.answer:
        return f"the answer should be {step.answer!r}"
    return ""


def _calls(message: dict[str, Any]) -> list[tuple[str, str]]:
    functions = [call["function"] for call in message.get("tool_calls") or []]
    return [_comparable(function["name"], function["arguments"]) for function in functions]


def _comparable(name: str, arguments: dict[str, Any]) -> tuple[str, str]:
    """A call as it is compared. The texts of an edit are left out: the file shows what they did."""
    kept = {"path": arguments.get("path")} if name == "edit_file" else arguments
    return name, repr(sorted(kept.items()))
