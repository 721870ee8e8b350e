"""Strict calls of LFM2: a model of its architecture without any sense, which calls only what is valid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agentloop import Agent, Conversation, Engine, Thinking
from agentloop.arguments import validate_arguments
from agentloop.bench.random_model import RandomModel, write_random_model
from agentloop.engine.scripted import ScriptedEngine
from agentloop.engine.seam import Sampling
from agentloop.templates import Lfm25
from tests.agent_tools import add, results
from tests.lfm2_vocab import LfmVocab

LISTS = ("<|startoftext|>", "<|tool_call_start|>", "<|tool_call_end|>")
SHORT = {"type": "string", "maxLength": 5}


def schema(name: str, properties: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": "Does it.", "parameters": parameters}}


TOOLS = [
    schema("stop", {}),
    schema("read", {"path": SHORT, "lines": {"type": "integer", "minimum": 1, "maximum": 900}}, ("path",)),
    schema("mode", {"mode": {"type": "string", "enum": ["fast", "slow"]}, "on": {"type": "boolean"}}, ("mode",)),
    schema("plot", {"points": {"type": "array", "items": {"type": "integer"}, "maxItems": 3}}, ("points",)),
]
BY_NAME = {t["function"]["name"]: t["function"]["parameters"] for t in TOOLS}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("random") / "lfm2.gguf"
    write_random_model(path, RandomModel("lfm2", seed=5, special=LISTS))
    with Engine.load(path, n_ctx=4096, sequences=2, threads=1) as loaded:
        yield loaded


def statuses(engine: Engine, *, strict: bool) -> list[str]:
    """Of the calls of some seeds; at the beginning of each reply stands a boolean or a call."""
    found: list[str] = []
    start = Conversation(engine, tools=TOOLS, template=Lfm25(), thinking=Thinking(enabled=False))
    start.user("Do something.")
    start.prefill()
    for seed in range(16):
        c = start.fork()
        sampling = Sampling(temperature=3.0, seed=seed)
        reply = c.reply(max_tokens=400, sampling=sampling, output_schema={"type": "boolean"}, strict=strict)
        for call in reply.calls:
            found.append(call.status)
            if call.status == "ok":
                validate_arguments(call.arguments, BY_NAME[call.name])
        c.close()
    start.close()
    return found


def test_every_call_is_valid(engine: Engine) -> None:
    found = statuses(engine, strict=True)
    assert found.count("ok") >= 4
    assert set(found) <= {"ok", "incomplete"}


def test_without_it_the_same_model_calls_nothing_that_is_valid(engine: Engine) -> None:
    found = statuses(engine, strict=False)
    assert len(found) >= 2
    assert "ok" not in found


def test_a_strict_agent_runs_lists() -> None:
    engine = ScriptedEngine([])
    engine.vocab = LfmVocab()
    engine.add("<|tool_call_start|>[add(a=1, b=2), add(b=3, a=4)]<|tool_call_end|>", "Done.")
    result = Agent(engine, tools=[add], template=Lfm25(), strict=True).run_sync("Go.")
    assert results(result.conversation) == ["3", "7"]
    assert result.output == "Done."
