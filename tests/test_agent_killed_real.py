"""A run on the embedded model, killed at random moments of prefill, decode, saving and tools, is gone on with."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np

from agentloop import Agent, Conversation, Engine
from agentloop.tools.samples import calculator

VICTIM = """
    import sys, time
    from agentloop import Agent, Engine
    from agentloop.tools import tool

    @tool
    def calculator(expression: str) -> str:
        '''Evaluate an arithmetic expression.

        Args:
            expression: The expression, for example 2 + 3.
        '''
        time.sleep(0.01)
        return str(eval(expression, {}))

    engine = Engine.load(n_ctx=8192)
    agent = Agent(engine, tools=[calculator])
    conversation = None
    print("ready", flush=True)
    for i in range(40):
        result = agent.run_sync(f"What is {i + 10} plus 30?", conversation=conversation, save_to=sys.argv[1])
        conversation = result.conversation
"""


def test_killed_at_random_moments(tmp_path: Path) -> None:
    rng = random.Random(7)
    with Engine.load(n_ctx=8192) as engine:
        agent = Agent(engine, tools=[calculator])
        for turn in range(8):
            path = tmp_path / f"{turn}.json"
            child = subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(VICTIM), str(path)], stdout=subprocess.PIPE, text=True
            )
            assert child.stdout is not None
            child.stdout.readline()
            while not path.exists():
                assert child.poll() is None
                time.sleep(0.005)
            time.sleep(rng.random())
            child.kill()
            child.wait()
            child.stdout.close()
            conversation = Conversation.load(path, engine)
            saved = conversation.tokens
            assert saved
            result = agent.run_sync("What is 5 plus 6?", conversation=conversation)
            assert result.usage.recomputed == 0
            cold = engine.sequence()
            cold.extend(conversation.tokens)
            live, truth = conversation.sequence.logits(), cold.logits()
            assert np.abs(live - truth).max() <= 3e-3 * np.ptp(truth)
            cold.close()
            conversation.close()
