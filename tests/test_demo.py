"""The demo: its sample is broken, its check cannot be fooled, and the agent repairs it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio
import numpy as np

from agentloop.cli.demo import DEMO_TOOLS
from agentloop.cli.session import make_agent
from agentloop.demo import PROMPT, copy_sample, sample_passes
from agentloop.engine import Engine
from agentloop.events import Event, TurnEnded
from agentloop.tools.workspace import workspace_tools

TOLERANCE = 3e-3
"""Largest difference of logits as a share of their range; a batch of another width alone gives up to 1.3e-3 here."""


def repair(folder: Path) -> None:
    module = folder / "calc.py"
    module.write_text(module.read_text().replace("return a - b", "return a + b", 1))


def test_the_sample_fails_as_it_ships(tmp_path: Path) -> None:
    assert not sample_passes(copy_sample(tmp_path))


def test_a_repaired_sample_passes(tmp_path: Path) -> None:
    repair(copy_sample(tmp_path))
    assert sample_passes(tmp_path)


def test_altered_tests_do_not_count(tmp_path: Path) -> None:
    copy_sample(tmp_path)
    (tmp_path / "test_calc.py").write_text("def test_nothing():\n    pass\n")
    (tmp_path / "conftest.py").write_text("collect_ignore_glob = ['*']\n")
    assert not sample_passes(tmp_path)


def test_a_deleted_module_does_not_pass(tmp_path: Path) -> None:
    copy_sample(tmp_path)
    (tmp_path / "calc.py").unlink()
    assert not sample_passes(tmp_path)


def test_after_every_turn_a_cold_sequence_agrees(tmp_path: Path) -> None:
    """What the live state says comes next is what a state says that decoded the same tokens from nothing."""
    copy_sample(tmp_path)
    distances: list[float] = []
    with Engine.load(n_ctx=8192, sequences=3) as engine:
        agent = make_agent(engine, workspace_tools(tmp_path, allow=DEMO_TOOLS), effort="low")
        conversation = anyio.run(agent.conversation)

        def compare(event: Event) -> None:
            if not isinstance(event, TurnEnded):
                return
            assert event.usage.recomputed == 0
            live, cold = conversation.sequence.fork(), engine.sequence()
            cold.extend(live.tokens)
            mine, truth = live.logits(), cold.logits()
            distances.append(float(np.abs(mine - truth).max() / np.ptp(truth)))
            live.close()
            cold.close()

        result = anyio.run(partial(agent.run, PROMPT, conversation=conversation, on_event=compare))
        assert len(distances) == result.usage.requests >= 4
    assert max(distances) < TOLERANCE
    assert sample_passes(tmp_path)
