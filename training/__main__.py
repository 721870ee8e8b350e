"""From data to a GGUF in one command.

    python -m training [--short] [--out training-out] [--tokens 11e6] [--seed 0] [--threads 1] [--compile]

Trains the tokenizer and the network, and writes `OUT/tiny-hybrid.gguf` (F16, with the chat template). A training that
was interrupted goes on from `OUT/checkpoint.pt`. `--short` makes a smaller network in a few minutes: it shows that every
step works, and learns the format of calls and little else.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from agentloop.templates import Qwen38

from .export import export
from .model import Shape
from .schedule import Plan
from .tokenizer import load_tokenizer, train_tokenizer
from .train import Trainer

__all__ = ["SHORT_PLAN", "SHORT_SHAPE", "main", "make"]

SHORT_SHAPE = Shape(width=128, heads=2, kv_heads=1, inner=256, state_heads=1, interval=3, layers=3)
SHORT_PLAN = Plan(tokens=400_000, rows=2, length=512)
SHORT_EPISODES = 500


def make(
    out: Path, shape: Shape, plan: Plan, *, seed: int = 0, episodes: int = 6000, compiled: bool = False
) -> dict[str, Any]:
    """Make everything in `out`; returns what was made: bytes, SHA-256, parameters, steps, tokens."""
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer(out / "tokenizer.json", shape, episodes)
    trainer = Trainer(tokenizer, shape, plan, out, seed=seed)
    if compiled:
        trainer.model.compile_blocks()
    model = trainer.run(log=lambda entry: print(json.dumps(entry), file=sys.stderr, flush=True))
    path = export(model.state_dict(), shape, tokenizer, out / "tiny-hybrid.gguf", template=Qwen38.jinja())
    content = path.read_bytes()
    return {
        "file": str(path),
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "steps": trainer.step,
        "tokens": trainer.seen,
        "shape": dataclasses.asdict(shape),
        "seed": seed,
    }


def _tokenizer(path: Path, shape: Shape, episodes: int) -> Tokenizer:
    if path.exists():
        return load_tokenizer(path)
    return train_tokenizer(path, vocabulary=shape.vocabulary, episodes=episodes)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training", description="Make the embedded model from nothing.")
    parser.add_argument("--short", action="store_true", help="a smaller network, in minutes")
    parser.add_argument("--out", type=Path, default=Path("training-out"))
    parser.add_argument("--tokens", type=float, help="tokens to train on, exercises included")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="more than one is slower where another process runs")
    parser.add_argument("--compile", action="store_true", help="fuse small operations (needs a C++ compiler)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    shape, plan = (SHORT_SHAPE, SHORT_PLAN) if options.short else (Shape(), Plan())
    if options.tokens:
        plan = dataclasses.replace(plan, tokens=int(options.tokens))
    episodes = SHORT_EPISODES if options.short else 6000
    facts = make(options.out, shape, plan, seed=options.seed, episodes=episodes, compiled=options.compile)
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
