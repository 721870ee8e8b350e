"""The training loop: seeded, resumable, one process and one thread.

Batch n is a function of the seed and n alone, so a resumed training sees what an unbroken one sees.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn

from .optim import Muon
from .samples import copy_rows, packed_rows
from .schedule import Plan, Stage

__all__ = ["Network", "Trainer"]


class Network(Protocol):
    """What is trained: a torch module with these three, `mtp` only where it has such a layer."""

    def trunk(self, tokens: Tensor) -> Tensor: ...
    def head(self, hidden: Tensor) -> Tensor: ...


class Trainer:
    """Trains `network` in place. `folder` gets `checkpoint.pt` and `log.jsonl`; a checkpoint that is there is gone on
    with."""

    def __init__(self, network: nn.Module, tokenizer: Tokenizer, plan: Plan, folder: Path, *, seed: int = 0) -> None:
        self.network, self.tokenizer, self.plan, self.folder, self.seed = network, tokenizer, plan, folder, seed
        matrices = {n: p for n, p in network.named_parameters() if _is_matrix(n, p)}
        others = [p for n, p in network.named_parameters() if n not in matrices]
        self.optimizers: list[torch.optim.Optimizer] = [
            Muon(matrices.values(), weight_decay=0.05),
            torch.optim.AdamW(others, betas=(0.9, 0.95), weight_decay=0.01),
        ]
        self.step = self.seen = 0
        folder.mkdir(parents=True, exist_ok=True)
        if self.checkpoint.exists():
            self._load(torch.load(self.checkpoint, weights_only=True))

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint.pt"

    def run(self, *, save_every: float = 240.0, log: Callable[[dict[str, Any]], None] | None = None) -> None:
        """Train until the plan's tokens are seen. Saves every `save_every` seconds and last."""
        saved = began = time.monotonic()
        tokens_before, sums = self.seen, _Sums()
        while self.seen < self.plan.tokens:
            sums.add(self.one_step())
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
            "model": self.network.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "step": self.step,
            "seen": self.seen,
        }
        draft = self.checkpoint.with_suffix(".tmp")
        torch.save(state, draft)
        os.replace(draft, self.checkpoint)

    def _load(self, state: dict[str, Any]) -> None:
        self.network.load_state_dict(state["model"])
        for optimizer, kept in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(kept)
        self.step, self.seen = state["step"], state["seen"]

    def one_step(self) -> dict[str, float]:
        """Train on the next batch; returns its losses and shares of tokens that were right."""
        plan, stage = self.plan, self.plan.stage(self.seen)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = plan.learning_rate(self.step, self.seen)
        tokens, mask, kind = self._batch(stage)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            losses, facts = self._losses(tokens, mask, stage.mtp if kind != "copy" else 0.0)
        self.network.zero_grad(set_to_none=True)
        losses.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self.step += 1
        self.seen += tokens.numel()
        return {f"{kind}_{name}": value for name, value in facts.items()}

    def _batch(self, stage: Stage) -> tuple[Tensor, Tensor, str]:
        plan, r = self.plan, random.Random(f"batch {self.seed} {self.step}")
        if r.random() < stage.copying:
            generator = np.random.default_rng(r.getrandbits(48))
            length = min(plan.length, 128)
            rows = plan.rows * plan.length // length
            tokens, mask = copy_rows(self.tokenizer, generator, rows=rows, length=length)
            if stage.copying < 1.0:  # every batch has the same shape: a compiled network is compiled once
                tokens, mask = tokens.reshape(plan.rows, -1), mask.reshape(plan.rows, -1)
            return torch.from_numpy(tokens), torch.from_numpy(mask), "copy"
        tokens, mask = packed_rows(self.tokenizer, r, rows=plan.rows, length=plan.length, system_share=stage.system)
        return torch.from_numpy(tokens), torch.from_numpy(mask), "episode"

    def _losses(self, tokens: Tensor, mask: Tensor, mtp: float) -> tuple[Tensor, dict[str, float]]:
        network: Any = self.network
        hidden = network.trunk(tokens)
        loss, right = self._loss(hidden[:, :-1], tokens[:, 1:], mask[:, 1:])
        facts = {"loss": loss.item(), "right": right}
        if mtp and hasattr(network, "mtp"):
            ahead = network.mtp(tokens[:, 1:-1], hidden[:, :-2])
            extra, right = self._loss(ahead, tokens[:, 2:], mask[:, 2:])
            facts["mtp_right"] = right
            loss = loss + mtp * extra
        return loss, facts

    def _loss(self, hidden: Tensor, wanted: Tensor, mask: Tensor) -> tuple[Tensor, float]:
        """Cross entropy over the learnt tokens, and the share of them that the network gets right."""
        learnt = mask > 0
        if not learnt.any():  # rows that hold nothing but system blocks
            return hidden.sum() * 0.0, 0.0
        logits = cast(Network, self.network).head(hidden[learnt]).float()
        wanted = wanted[learnt]
        right = (logits.detach().argmax(-1) == wanted).float().mean().item()
        return F.cross_entropy(logits, wanted), right


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
