"""Episodes: one to four tasks in one conversation, with a system block, rendered by agentloop's own template.

An episode is a function of its seed. The same seed gives the same text on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agentloop.templates import Qwen38
from agentloop.templates.base import Segment

from . import code, files, sums
from .schemas import CORE, OTHERS, schema_of, shuffled
from .writing import Effort, Script

__all__ = ["KINDS", "Episode", "episode", "knobs", "segments"]

KINDS: dict[str, tuple[Callable[[Script, random.Random], None], float]] = {
    "arithmetic": (sums.arithmetic, 1.5),
    "look_up": (files.look_up, 6.0),
    "list": (files.list_folder, 1.8),
    "write": (files.write, 2.0),
    "copy": (files.copy_file, 1.5),
    "add_files": (sums.add_files, 1.5),
    "weather": (sums.weather, 4.0),
    "edit": (files.edit, 9.0),
    "write_code": (code.write_code, 1.8),
    "fix": (code.fix, 3.0),
    "small_talk": (sums.small_talk, 0.4),
}
"""Tasks and how often they are drawn; the ones that are hard to learn more often."""

SYSTEMS = (
    None,
    None,
    "You are a helpful agent.",
    "You are a coding agent. Work in the current directory.",
    "Answer briefly.",
    "You are a careful assistant with tools.",
)
HURRY = "Considering the limited time by the user, I have to give the solution based on the thinking directly now."
TEMPLATE = Qwen38()


@dataclass
class Episode:
    """Messages in OpenAI form; an assistant message with `learn` false is shown and not learnt."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    effort: Effort
    kinds: list[str] = field(default_factory=list[str])


def episode(seed: int | str, kinds: list[str] | None = None) -> Episode:
    """The episode of `seed`; `kinds` fixes its tasks."""
    r = random.Random(f"episode {seed}")
    effort: Effort = r.choice(["low", "low", "medium", "xhigh", "xhigh", None])
    script = Script(r, effort)
    if kinds is None:
        kinds = r.choices(list(KINDS), [weight for _, weight in KINDS.values()], k=r.choice([1, 2, 2, 3, 3, 4]))
    for kind in kinds:
        KINDS[kind][0](script, r)
    if effort == "xhigh" and r.random() < 0.35:
        _cut_thoughts(script.messages, r)
    system = r.choice(SYSTEMS)
    head = [{"role": "system", "content": system}] if system else []
    return Episode(head + script.messages, _tools(r, script.tools), effort, kinds)


def knobs(effort: Effort) -> dict[str, Any]:
    """The template's keyword arguments for an effort."""
    return {"enable_thinking": False} if effort is None else {"reasoning_effort": effort}


def segments(e: Episode, *, with_system: bool = True) -> list[Segment]:
    """The rendered episode; without its system block if so asked, which saves half of the tokens."""
    pieces = TEMPLATE.segments(e.messages, e.tools, add_generation_prompt=False, **knobs(e.effort))
    if with_system:
        return pieces
    first = next(i for i, m in enumerate(e.messages) if m["role"] == "user")
    return TEMPLATE.continuation(e.messages[first:], ended=None, add_generation_prompt=False, **knobs(e.effort))


def _tools(r: random.Random, called: set[str]) -> list[dict[str, Any]]:
    """The tools that were called and some more, in any order, or all of the core as most programs declare them."""
    rest = [name for name in CORE if name not in called]
    names = [*sorted(called), *r.sample(rest, r.choice([len(rest), r.randint(0, len(rest))]))]
    if r.random() < 0.1:
        names.append(r.choice(OTHERS))
    if r.random() < 0.5:
        names.sort(key=lambda name: (CORE + OTHERS).index(name))
    else:
        r.shuffle(names)
    return [shuffled(r, schema_of(name)) for name in names or ["read_file"]]


def _cut_thoughts(messages: list[dict[str, Any]], r: random.Random) -> None:
    """Reasoning that a budget closed early, with and without a closing sentence."""
    for message in messages:
        thought = message.get("reasoning_content")
        if thought and r.random() < 0.6:
            thought = thought[: r.randint(3, len(thought))].rstrip()
            message["reasoning_content"] = f"{thought}\n\n{HURRY}" if r.random() < 0.4 else thought
