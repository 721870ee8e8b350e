"""From data to a GGUF in one command.

    python -m training [--short] [--family qwen35|lfm2] [--out training-out] [--tokens 8e6] [--seed 0] [--workers 1]
                       [--threads 1] [--compile] [--start OTHER.gguf [--inner 480]]

Trains the tokenizer and the network, and writes `OUT/tiny-hybrid.gguf` or `OUT/tiny-lfm2.gguf` (F16, with the chat
template). A training that was interrupted goes on from `OUT/checkpoint.pt`. `--short` makes a smaller network in a few
minutes: it shows that every step works, and learns the format of calls and little else.
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
from torch import Tensor

from agentloop.templates import Qwen38

from .export import export
from .export_lfm2 import export_lfm2
from .model import Shape, TinyHybrid
from .model_lfm2 import Lfm2Shape, TinyLfm2
from .schedule import REFINING, Plan, Stage
from .start import narrowed, read_gguf
from .tokenizer import load_tokenizer, train_tokenizer
from .train import Trainer

__all__ = ["SHORT_PLAN", "SHORT_SHAPE", "main", "make"]

SHORT_SHAPE = Shape(width=128, heads=2, kv_heads=1, inner=256, state_heads=2, interval=3, layers=3)
SHORT_LFM2 = Lfm2Shape(layers=3)
SHORT_PLAN = Plan(
    tokens=1_200_000,
    rate=3e-3,
    stages=(Stage(0.1, copying=0.6, system=0.0, rows=2), Stage(1.0, copying=0.1, system=0.2, mtp=0.2, rows=2)),
)
SHORT_EPISODES = 500


def make(
    out: Path,
    shape: Shape | Lfm2Shape,
    plan: Plan,
    *,
    seed: int = 0,
    episodes: int = 6000,
    compiled: bool = False,
    workers: int = 1,
    weights: dict[str, Tensor] | None = None,
) -> dict[str, Any]:
    """Make everything in `out`; returns what was made: bytes, SHA-256, parameters, steps, tokens.

    `weights` to start from, else the network starts at random. A `tokenizer.json` that is there is used.
    """
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer(out / "tokenizer.json", shape.vocabulary, episodes)
    torch.manual_seed(seed)
    network = TinyHybrid(shape) if isinstance(shape, Shape) else TinyLfm2(shape)
    if weights is not None:
        network.load_state_dict(weights)
    trainer = Trainer(network, tokenizer, plan, out, seed=seed, workers=workers, compiled=compiled)
    trainer.run(log=lambda entry: print(json.dumps(entry), file=sys.stderr, flush=True))
    if isinstance(shape, Shape):
        path = export(network.state_dict(), shape, tokenizer, out / "tiny-hybrid.gguf", template=Qwen38.jinja())
    else:
        path = export_lfm2(network.state_dict(), shape, tokenizer, out / "tiny-lfm2.gguf", template=Qwen38.jinja())
    content = path.read_bytes()
    return {
        "file": str(path),
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "steps": trainer.step,
        "tokens": trainer.seen,
        "shape": dataclasses.asdict(shape),
        "seed": seed,
    }


def _tokenizer(path: Path, vocabulary: int, episodes: int) -> Tokenizer:
    if path.exists():
        return load_tokenizer(path)
    return train_tokenizer(path, vocabulary=vocabulary, episodes=episodes)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training", description="Make the embedded model from nothing.")
    parser.add_argument("--short", action="store_true", help="a smaller network, in minutes")
    parser.add_argument("--out", type=Path, default=Path("training-out"))
    parser.add_argument("--tokens", type=float, help="tokens to train on, exercises included")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="more than one is slower where another process runs")
    parser.add_argument("--workers", type=int, default=1, help="processes that share the rows of a batch, one a core")
    parser.add_argument("--compile", action="store_true", help="fuse small operations (needs a C++ compiler)")
    parser.add_argument("--family", choices=("qwen35", "lfm2"), default="qwen35")
    parser.add_argument("--start", type=Path, help="a qwen35 GGUF to go on from, with its tokenizer")
    parser.add_argument("--inner", type=int, help="with --start: keep this many units of each feed-forward")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    shape: Shape | Lfm2Shape = SHORT_SHAPE if options.short else Shape()
    if options.family == "lfm2":
        shape = SHORT_LFM2 if options.short else Lfm2Shape()
    plan = SHORT_PLAN if options.short else Plan()
    weights = None
    if options.start:
        if options.family == "lfm2" or options.short:
            parser.error("--start goes on from a qwen35 file in its own size; leave --family and --short out")
        weights, shape, tokenizer = read_gguf(options.start)
        if options.inner:
            weights, shape = narrowed(weights, shape, options.inner)
        options.out.mkdir(parents=True, exist_ok=True)
        tokenizer.save(str(options.out / "tokenizer.json"))
        plan = REFINING
    if options.tokens:
        plan = dataclasses.replace(plan, tokens=int(options.tokens))
    facts = make(
        options.out,
        shape,
        plan,
        seed=options.seed,
        episodes=SHORT_EPISODES if options.short else 6000,
        compiled=options.compile,
        workers=options.workers,
        weights=weights,
    )
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
