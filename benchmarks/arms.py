"""Ways to decode the same prompt, for `ab`, `paired` and `longctx`: agentloop with a drafter, and the peers, which take
token ids.

Seconds are from the first token to the last, so a prompt that is in the state already costs nothing; a peer's are its
own (without HTTP, JSON and the queue), which is kind to it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentloop import Engine
from agentloop.engine import Sequence as TokenSequence
from agentloop.models import default_model_path

from .peers import LlamaCpp
from .server import Server
from .wire import post_json

__all__ = ["AgentloopArm", "Arm", "LlamaCppArm", "Made", "ServerArm", "first_difference"]


@dataclass(frozen=True, slots=True)
class Made:
    """Greedy tokens behind a prompt, and what they took."""

    ids: tuple[int, ...]
    seconds: float
    drafted: int = 0
    accepted: int = 0

    @property
    def passes(self) -> int:
        """Decodes of the model behind the first token, which the prompt gave."""
        return max(1, len(self.ids) - 1 - self.accepted)


class Arm(Protocol):
    """One way to decode."""

    name: str

    def prepare(self, prompts: Sequence[Sequence[int]]) -> None:
        """These prompts come; their states may be made ready."""
        ...

    def run(self, prompt: int, max_tokens: int) -> Made: ...
    def close(self) -> None: ...


class AgentloopArm:
    """`Engine.load(..., **settings)`; each prompt is a live sequence that goes back to its end."""

    def __init__(self, name: str, model: str | None, *, n_ctx: int, **settings: Any) -> None:
        self.name = name
        self.engine = Engine.load(model, n_ctx=n_ctx, sequences=1, threads=1, **settings)
        self.engine.calibrate()
        self.live: list[tuple[TokenSequence, int]] = []

    @property
    def drafters(self) -> list[str]:
        """The drafters that the engine really has."""
        return [factory.name for factory in self.engine.drafters]

    def prepare(self, prompts: Sequence[Sequence[int]]) -> None:
        for sequence, _ in self.live:
            sequence.close()
        self.live = []
        for prompt in prompts:
            sequence = self.engine.sequence()
            sequence.extend(prompt)
            sequence.checkpoint(label="turn", pinned=True)
            self.live.append((sequence, len(sequence)))

    def run(self, prompt: int, max_tokens: int) -> Made:
        sequence, length = self.live[prompt]
        sequence.truncate(length)
        before = sequence.stats
        tokens = sequence.generate(max_tokens)
        ids = [next(tokens).id]
        started = time.perf_counter()
        ids += [token.id for token in tokens]
        seconds = time.perf_counter() - started
        spent = sequence.stats - before
        return Made(tuple(ids), seconds, sum(spent.drafted.values()), sum(spent.accepted.values()))

    def close(self) -> None:
        self.engine.close()


class ServerArm:
    """llama-server by token ids, with its own timings."""

    def __init__(self, name: str, binary: str, model: str | None, *args: str, n_ctx: int) -> None:
        self.name = name
        path = str(default_model_path()) if model is None else model
        self.server = Server(binary, path, "-np", "1", *args, n_ctx=n_ctx)
        self.server.start()
        self.prompts: list[list[int]] = []

    def prepare(self, prompts: Sequence[Sequence[int]]) -> None:
        self.prompts = [list(prompt) for prompt in prompts]

    def run(self, prompt: int, max_tokens: int) -> Made:
        body = {"prompt": self.prompts[prompt], "n_predict": max_tokens, "temperature": 0, "return_tokens": True}
        answer = post_json(f"{self.server.address}/completion", body)
        timings = answer["timings"]
        ids = tuple(answer["tokens"])
        drafted, accepted = int(timings.get("draft_n", 0)), int(timings.get("draft_n_accepted", 0))
        return Made(ids, timings["predicted_ms"] / 1000, drafted, accepted)

    def close(self) -> None:
        self.server.stop()


class LlamaCppArm:
    """`Llama.generate` of llama-cpp-python."""

    name = "llama-cpp-python"

    def __init__(self, model: str | None, eog: Sequence[int], *, n_ctx: int) -> None:
        self.worker = LlamaCpp(model, n_ctx)
        self.eog = sorted(eog)
        self.prompts: list[list[int]] = []

    def prepare(self, prompts: Sequence[Sequence[int]]) -> None:
        self.prompts = [list(prompt) for prompt in prompts]

    def run(self, prompt: int, max_tokens: int) -> Made:
        got = self.worker.ask(op="ids", ids=self.prompts[prompt], max_tokens=max_tokens, stop=self.eog)
        return Made(tuple(got["ids"]), got["wall_s"] - got["ttft_s"])

    def close(self) -> None:
        self.worker.close()


def first_difference(
    arm: AgentloopArm, prompt: int, expected: Sequence[int], found: Sequence[int]
) -> tuple[int | None, float | None]:
    """Where `found` parts from `expected`, and by how much the logit of the expected token is larger there, under the
    arm's plain decoding; None twice where one is a beginning of the other."""
    at = next((i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), None)
    if at is None:
        return None, None
    sequence, length = arm.live[prompt]
    sequence.truncate(length)
    for i in range(at):  # one by one, as plain decoding does
        sequence.extend(expected[i : i + 1])
    row = sequence.logits()
    return at, round(float(row[expected[at]] - row[found[at]]), 5)
