"""The agent's day that `roundtrip` and the gate go through: what the client says, turn by turn.

Results of tools are fixed texts of a given number of tokens, whatever the model asked for, so that every engine has the
same work. Replies are the model's own: they go back as the engine gave them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agentloop.engine.seam import VocabLike

__all__ = ["INSTRUCTIONS", "TOOLS", "Kind", "Step", "agent_day", "text_of"]

Kind = Literal["first", "tool", "user", "fork", "interrupted", "restart", "side"]

INSTRUCTIONS = "You are a careful assistant. Use the tools."


@dataclass(frozen=True, slots=True)
class Step:
    """One turn. `role` is whose message it is; `cut`: the client goes away after so many pieces of the reply.

    kinds: `first`; `tool`, a result; `user`, another question; `side`, a question on a fork, whose answer the main
    conversation does not see; `fork`, the main one going on behind it; `interrupted`, the turn behind a reply that was
    cut; `restart`, the first turn of a new process with the saved session.
    """

    kind: Kind
    role: Literal["user", "tool"]
    text: str
    cut: int | None = None


def _tool(name: str, description: str, **parameters: str) -> dict[str, Any]:
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS: list[dict[str, Any]] = [
    _tool("read_file", "Read a text file and return its content.", path="Path of the file to read."),
    _tool(
        "write_file",
        "Write text to a file, replacing what it held.",
        path="Path of the file to write.",
        content="The new content.",
    ),
    _tool("list_files", "List the files in a directory.", directory="Directory to list."),
    _tool("run_tests", "Run the test suite and return its report."),
    _tool("calculator", "Evaluate an arithmetic expression.", expression="The expression, for example 2 + 3."),
]
"""What the embedded model knows how to call."""

_WORDS = ("amber", "bridge", "copper", "falcon", "forest", "garden", "silver", "port", "host", "level", "limit", "mode")


def text_of(vocab: VocabLike, tokens: int, seed: int = 0) -> str:
    """Lines of settings that come to `tokens` tokens, or a few more."""
    r = random.Random(seed)
    lines: list[str] = []
    count = 0
    while count < tokens:
        line = f"{r.choice(_WORDS)}_{r.randint(1, 99)} = {r.choice(_WORDS)} {r.randint(1, 9999)}"
        count += len(vocab.encode(line + "\n"))
        lines.append(line)
    return "\n".join(lines)


def agent_day(vocab: VocabLike, sizes: Sequence[int]) -> list[Step]:
    """A question, a tool result of each of `sizes` tokens, and all that makes a cache's life hard."""
    results = [text_of(vocab, size, seed) for seed, size in enumerate(sizes)]
    return [
        Step("first", "user", "Read app.txt and store.txt and add the numbers."),
        *(Step("tool", "tool", result) for result in results),
        Step("user", "user", "What is the port in config.toml?"),
        Step("tool", "tool", text_of(vocab, 100, 90)),
        Step("side", "user", "What can you do?"),
        Step("fork", "user", "Set port to 9090 in config.toml."),
        Step("tool", "tool", text_of(vocab, 60, 91)),
        Step("user", "user", "List the files in docs and say what they are for.", cut=12),
        Step("interrupted", "user", "Stop. What is 128 plus 415?"),
        Step("tool", "tool", "543"),
        Step("restart", "user", "Good. What is the host in config.toml?"),
        Step("tool", "tool", text_of(vocab, 100, 92)),
    ]
