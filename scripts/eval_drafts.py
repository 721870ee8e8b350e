"""How many tokens a drafter gets accepted, at a fixed draft length, on held-out episodes.

    python scripts/eval_drafts.py mtp|suffix|DRAFTER.gguf [--model MODEL.gguf] [--k 3] [--episodes 40]

Every reply of an episode is generated behind its true history, greedy, with k tokens drafted at every step whatever it
costs. Prints one JSON object: steps (decodes of the model), drafted tokens accepted per step, tokens generated per step
(one more: 1.0 without drafts), share of the drafted tokens accepted. Episodes are of seeds that no training uses.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from eval_turns import before

from agentloop import Engine
from agentloop.engine.policy import Choice, Policy
from training.episodes import episode


class Always(Policy):
    """Draft k tokens at every step."""

    def __init__(self, k: int) -> None:
        super().__init__([1.0] * (k + 1))
        self.k = k

    def choose(self, candidates: Iterable[tuple[str, int, int]]) -> Choice:
        most = max((most for _, _, most in candidates), default=0)
        return Choice(0, min(self.k, most))


def measure(engine: Engine, episodes: int) -> dict[str, float]:
    """Generate the replies of held-out episodes; sums over all of them."""
    tokens = drafted = accepted = 0
    for number in range(episodes):
        e = episode(f"drafts {number}")
        for i, message in enumerate(e.messages):
            if message["role"] != "assistant":
                continue
            sequence = engine.sequence()
            sequence.extend(engine.vocab.encode_parts(before(e, i)))
            tokens += sum(1 for _ in sequence.generate(600))
            drafted += sum(sequence.stats.drafted.values())
            accepted += sum(sequence.stats.accepted.values())
            sequence.close()
    steps = tokens - accepted
    return {
        "tokens": tokens,
        "steps": steps,
        "drafted": drafted,
        "accepted": accepted,
        "accepted_per_step": round(accepted / max(1, steps), 3),
        "share": round(accepted / max(1, drafted), 3),
        "tokens_per_step": round(tokens / max(1, steps), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how many drafted tokens are accepted.")
    parser.add_argument("drafter", help="mtp, suffix, or the GGUF of a block drafter")
    parser.add_argument("--model", help="a GGUF file (default: the embedded model)")
    parser.add_argument("--k", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=40)
    options = parser.parse_args()
    inside = options.drafter in ("mtp", "suffix")
    with Engine.load(
        options.model,
        n_ctx=9216,
        sequences=1,
        drafters=[options.drafter if inside else "block"],
        draft_path=None if inside else options.drafter,
    ) as engine:
        engine.calibrate()  # or the first generation puts its own policy in place of this one
        engine.policy = Always(options.k)
        facts = measure(engine, options.episodes)
    print(json.dumps({"model": engine.name, "drafter": Path(options.drafter).name, "k": options.k, **facts}))


if __name__ == "__main__":
    main()
