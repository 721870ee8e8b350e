"""Score single turns of a model on held-out episodes: the history is given, the call or the answer must match exactly.

    python scripts/eval_turns.py [--model MODEL.gguf] [--episodes 20] [--kinds look_up,edit]

Episodes are those of `training/`, of seeds that no training uses; one kind of task each, every effort, thinking off
among them, and errors to recover from. Reasoning is not compared. Prints one JSON object: right and all turns by kind,
by effort, and of the turns that follow an error.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from agentloop import Engine
from agentloop.templates import Qwen38
from agentloop.templates.base import Segment
from training.episodes import KINDS, Episode, episode, knobs, segments

TEMPLATE = Qwen38()


def before(e: Episode, turn: int) -> list[Segment]:
    """The prompt of a turn: what the runtime leaves of the messages before it, and the opening of the reply."""
    opening = "<|im_start|>assistant\n" + TEMPLATE.reply_prefix(**knobs(e.effort))
    return [*segments(replace(e, messages=e.messages[:turn])), Segment(opening, True)]


def right(engine: Engine, e: Episode, turn: int) -> bool:
    """Whether the reply behind the first `turn` messages has the calls and the text of the episode's own."""
    message = e.messages[turn]
    sequence = engine.sequence()
    sequence.extend(engine.vocab.encode_parts(before(e, turn)))
    ids = [token.id for token in sequence.generate(900)]
    sequence.close()
    reply = TEMPLATE.parse(ids, e.tools, vocab=engine.vocab, thinking=e.effort is not None)
    wanted = [call["function"] for call in message.get("tool_calls", [])]
    calls = [(call.name, call.arguments) for call in reply.calls]
    return calls == [(w["name"], w["arguments"]) for w in wanted] and reply.content == message["content"]


def score(engine: Engine, kinds: list[str], episodes: int) -> dict[str, dict[str, list[int]]]:
    """[right, all] turns: by kind, by effort, and behind an error."""
    counts: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for kind in kinds:
        for number in range(episodes):
            e = episode(f"turns {kind} {number}", [kind])
            for turn, message in enumerate(e.messages):
                if message["role"] != "assistant" or not message["learn"]:
                    continue
                good = right(engine, e, turn)
                _count(counts["kind"][kind], good)
                _count(counts["effort"][str(e.effort)], good)
                if e.messages[turn - 1]["content"].startswith("Error: "):
                    _count(counts["situation"]["after_error"], good)
        print(f"{kind}: {counts['kind'][kind]}", file=sys.stderr, flush=True)
    return {name: dict(values) for name, values in counts.items()}


def _count(pair: list[int], good: bool) -> None:
    pair[0] += good
    pair[1] += 1


def main() -> None:
    parser = argparse.ArgumentParser(description="Score single turns on held-out episodes.")
    parser.add_argument("--model", help="a GGUF file (default: the embedded model)")
    parser.add_argument("--episodes", type=int, default=20, help="of each kind")
    parser.add_argument("--kinds", default=",".join(KINDS))
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"no kind is called {unknown[0]}; there are {', '.join(KINDS)}")
    with Engine.load(options.model, n_ctx=9216, sequences=1, drafters=[]) as engine:
        result: dict[str, Any] = score(engine, kinds, options.episodes)
        print(json.dumps({"model": engine.name, **result}))


if __name__ == "__main__":
    main()
