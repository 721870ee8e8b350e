"""From data to a GGUF in one command.

    python -m training [--short] [--family qwen35|lfm2] [--out FOLDER] [--tokens 8e6] [--seed 0] [--workers 1]
                       [--threads 1] [--compile] [--start OTHER.gguf [--inner 480]]

Trains the tokenizer and the network, and writes `tiny-hybrid.gguf` or `tiny-lfm2.gguf` (F16, with the chat template) to
a folder: `training-out`, `training-out-short`, `training-out-lfm2` or another one. A training that was interrupted goes
on from its checkpoint there. `--short` makes a smaller network in a few minutes: it shows that every step works, and
learns the format of calls and little else.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import math
import sys
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from agentloop.templates import Qwen38

from .export import export
from .export_lfm2 import export_lfm2
from .model import Shape, TinyHybrid
from .model_lfm2 import Lfm2Shape, TinyLfm2
from .schedule import REFINING, Plan, Stage
from .start import BadStart, Start, read_start
from .tokenizer import load_tokenizer, train_tokenizer
from .train import OtherTraining, Trainer

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
    start: Start | None = None,
) -> dict[str, Any]:
    """Make everything in `out`; returns what was made: bytes, SHA-256, parameters, steps, tokens.

    Without `start` the network starts at random, with the `tokenizer.json` that is there or a new one. Raises
    OtherTraining where `out` holds another training; its files are left alone.
    """
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer(out, shape.vocabulary, episodes, start)
    torch.manual_seed(seed)
    network = TinyHybrid(shape) if isinstance(shape, Shape) else TinyLfm2(shape)
    if start is not None:
        network.load_state_dict(start.weights)
    begun = start.sha256 if start is not None else ""
    trainer = Trainer(network, tokenizer, plan, out, seed=seed, workers=workers, compiled=compiled, start=begun)
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


def _tokenizer(out: Path, vocabulary: int, episodes: int, start: Start | None) -> Tokenizer:
    path = out / "tokenizer.json"
    if start is None:
        return (
            load_tokenizer(path) if path.exists() else train_tokenizer(path, vocabulary=vocabulary, episodes=episodes)
        )
    if path.exists() and load_tokenizer(path).to_str() != start.tokenizer.to_str():
        raise OtherTraining(out, ["tokenizer"])
    start.tokenizer.save(str(path))
    return start.tokenizer


def _count(text: str) -> int:
    """A whole number from 1 on, also as 8e6."""
    number = float(text)
    if not 1 <= number < math.inf or number != int(number):
        raise argparse.ArgumentTypeError(f"{text} is no whole number from 1 on")
    return int(number)


def _folder(options: argparse.Namespace) -> Path:
    """One for each sort of training."""
    name = "training-out"
    for part, given in (("lfm2", options.family == "lfm2"), ("short", options.short), ("refined", options.start)):
        name += f"-{part}" if given else ""
    return Path(name)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training", description="Make the embedded model from nothing.")
    parser.add_argument("--short", action="store_true", help="a smaller network, in minutes")
    parser.add_argument("--out", type=Path, help="a folder (default: training-out, and what tells it from others)")
    parser.add_argument("--tokens", type=_count, help="tokens to train on, exercises included")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=_count, default=1, help="more than one is slower where another process runs")
    parser.add_argument(
        "--workers", type=_count, default=1, help="processes that share the rows of a batch, one a core"
    )
    parser.add_argument("--compile", action="store_true", help="fuse small operations (needs a C++ compiler)")
    parser.add_argument("--family", choices=("qwen35", "lfm2"), default="qwen35")
    parser.add_argument("--start", type=Path, help="a qwen35 GGUF to go on from, with its tokenizer")
    parser.add_argument("--inner", type=_count, help="with --start: keep this many units of each feed-forward")
    options = parser.parse_args()
    if options.start and (options.family == "lfm2" or options.short):
        parser.error("--start goes on from a qwen35 file in its own size; leave --family and --short out")
    if options.inner and not options.start:
        parser.error("--inner narrows the network of --start, which is missing")
    torch.set_num_threads(options.threads)
    shape: Shape | Lfm2Shape = SHORT_SHAPE if options.short else Shape()
    if options.family == "lfm2":
        shape = SHORT_LFM2 if options.short else Lfm2Shape()
    plan = REFINING if options.start else SHORT_PLAN if options.short else Plan()
    if options.tokens:
        plan = dataclasses.replace(plan, tokens=options.tokens)
    if options.workers > plan.fewest_rows:
        parser.error(f"--workers {options.workers}: some batches have {plan.fewest_rows} rows, one a worker at most")
    try:
        start = None
        if options.start:
            start = read_start(options.start, options.inner)
            shape = start.shape
        facts = make(
            options.out or _folder(options),
            shape,
            plan,
            seed=options.seed,
            episodes=SHORT_EPISODES if options.short else 6000,
            compiled=options.compile,
            workers=options.workers,
            start=start,
        )
    except (OSError, BadStart, OtherTraining) as error:
        parser.error(str(error))
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
