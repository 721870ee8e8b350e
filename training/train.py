"""The training loop: seeded and resumable.

Batch n is a function of the seed, the plan and n, so a resumed training sees what an unbroken one sees. A checkpoint
says what it is of; another training does not go on from it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from .optim import Muon
from .schedule import Plan
from .workers import Workers

__all__ = ["OtherTraining", "Trainer"]


class OtherTraining(ValueError):
    """The folder holds the files of a training that differs from this one in `differences`."""

    def __init__(self, folder: Path, differences: list[str]) -> None:
        super().__init__(
            f"{folder} holds a training with another {', another '.join(differences)}; name another folder with --out, "
            "or give the options that it began with"
        )
        self.folder = folder
        self.differences = differences


class Trainer:
    """Trains `network` in place. `folder` gets `checkpoint.pt` and `log.jsonl`; a checkpoint that is there is gone on
    with, or OtherTraining is raised if it differs in shape, seed, plan, tokenizer or `start`, which names what the
    weights were at the beginning. `workers`: processes that share the rows of a batch, not more than its rows."""

    def __init__(
        self,
        network: nn.Module,
        tokenizer: Tokenizer,
        plan: Plan,
        folder: Path,
        *,
        seed: int = 0,
        workers: int = 1,
        compiled: bool = False,
        start: str = "",
    ) -> None:
        if not 1 <= workers <= plan.fewest_rows:
            raise ValueError(f"{workers} workers; the batches of this plan have {plan.fewest_rows} rows at the fewest")
        self.network, self.tokenizer, self.plan, self.folder, self.seed = network, tokenizer, plan, folder, seed
        self.workers, self.compiled = workers, compiled
        matrices = {n: p for n, p in network.named_parameters() if _is_matrix(n, p)}
        others = [p for n, p in network.named_parameters() if n not in matrices]
        self.optimizers: list[torch.optim.Optimizer] = [
            Muon(matrices.values(), weight_decay=0.05),
            torch.optim.AdamW(others, betas=(0.9, 0.95), weight_decay=0.01),
        ]
        self.step = self.seen = 0
        self.made_of = {
            "shape": json.dumps({name: list(p.shape) for name, p in network.named_parameters()}, sort_keys=True),
            "seed": str(seed),
            "plan": json.dumps(dataclasses.asdict(plan), sort_keys=True),
            "tokenizer": hashlib.sha256(tokenizer.to_str().encode()).hexdigest(),
            "start": start,
        }
        folder.mkdir(parents=True, exist_ok=True)
        if self.checkpoint.exists():
            self._load(torch.load(self.checkpoint, weights_only=True))

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint.pt"

    def run(
        self,
        *,
        save_every: float = 240.0,
        log: Callable[[dict[str, Any]], None] | None = None,
        steps: int | None = None,
    ) -> None:
        """Train until the plan's tokens are seen, or for `steps`. Saves every `save_every` seconds and last."""
        saved = began = time.monotonic()
        tokens_before, sums, last = self.seen, _Sums(), self.step + steps if steps is not None else None
        with Workers(self.network, self.tokenizer, self.plan, self.seed, self.workers, self.compiled) as workers:
            while self.seen < self.plan.tokens and self.step != last:
                sums.add(self.one_step(workers))
                if self.step % 20 == 0:
                    rate = (self.seen - tokens_before) / (time.monotonic() - began)
                    entry = {"step": self.step, "tokens": self.seen, "per_second": round(rate), **sums.means()}
                    with open(self.folder / "log.jsonl", "a", encoding="utf-8") as file:
                        file.write(json.dumps(entry) + "\n")
                    if log is not None:
                        log(entry)
                    sums = _Sums()
                if time.monotonic() - saved > save_every:
                    self.save()
                    saved = time.monotonic()
        self.save()

    def save(self) -> None:
        """Write the checkpoint, whole or not at all."""
        state = {
            "made_of": self.made_of,
            "model": self.network.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "step": self.step,
            "seen": self.seen,
        }
        draft = self.checkpoint.with_suffix(".tmp")
        torch.save(state, draft)
        os.replace(draft, self.checkpoint)

    def _load(self, state: dict[str, Any]) -> None:
        kept = state.get("made_of", {})
        if differences := [name for name, value in self.made_of.items() if kept.get(name) != value]:
            raise OtherTraining(self.folder, differences)
        self.network.load_state_dict(state["model"])
        for optimizer, kept in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(kept)
        self.step, self.seen = state["step"], state["seen"]

    def one_step(self, workers: Workers) -> dict[str, float]:
        """Train on the next batch; returns its loss and shares of tokens that were right."""
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.plan.learning_rate(self.step, self.seen)
        facts, tokens = workers.gradients(self.step, self.seen)
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self.step += 1
        self.seen += tokens
        return facts


class _Sums:
    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {}

    def add(self, facts: dict[str, float]) -> None:
        for name, value in facts.items():
            self.values.setdefault(name, []).append(value)

    def means(self) -> dict[str, float]:
        return {name: round(sum(values) / len(values), 4) for name, values in sorted(self.values.items())}


def _is_matrix(name: str, parameter: Tensor) -> bool:
    """What Muon trains; embedding, convolutions, norms and the small gates are AdamW's."""
    return parameter.dim() == 2 and min(parameter.shape) > 8 and "embedding" not in name
