"""Gradients of one batch from several processes, each with a part of the rows.

The parameters lie in shared memory and only the first process changes them. All draw the same batch, since it depends
on the seed, the plan and the step, so that nothing but gradients travels.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import torch
import torch.multiprocessing as mp
from tokenizers import Tokenizer
from torch import Tensor, nn

from .losses import FACTS, losses, rows_of
from .schedule import Plan

__all__ = ["Workers"]

PATIENCE = 1800.0
"""Seconds that a process waits for the others: the first step of a compiled network takes minutes."""


class Workers:
    """`count` processes, this one among them. `gradients` sets `.grad` of every parameter. Use as a context."""

    def __init__(
        self, network: nn.Module, tokenizer: Tokenizer, plan: Plan, seed: int, count: int = 1, compiled: bool = False
    ) -> None:
        self.network, self.tokenizer, self.plan, self.seed, self.count = network, tokenizer, plan, seed, count
        self.parameters = list(network.parameters())
        size = sum(parameter.numel() for parameter in self.parameters)
        self.flat = torch.zeros(count, size if count > 1 else 0).share_memory_()
        self.facts = torch.zeros(count, FACTS, dtype=torch.float64).share_memory_()
        self.clock = torch.zeros(2, dtype=torch.int64).share_memory_()  # step and tokens seen, for the other processes
        self.processes: list[Any] = []
        if count > 1:
            network.share_memory()
            context: Any = mp.get_context("spawn")
            self.gate = context.Barrier(count)
            shared = (self.flat, self.facts, self.clock, self.gate)
            arguments = (network, tokenizer.to_str(), plan, seed, compiled, shared)
            self.processes = [
                context.Process(target=_follow, args=(rank, count, *arguments), daemon=True) for rank in range(1, count)
            ]
            for process in self.processes:
                process.start()
        if compiled:
            compile_network(network)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self.processes:
            self.clock[0] = -1
            self.gate.abort()
            for process in self.processes:
                process.join(10)
                if process.is_alive():
                    process.terminate()
        self.processes = []

    def gradients(self, step: int, seen: int) -> tuple[dict[str, float], int]:
        """Of batch `step`: its loss and shares of tokens that were right, and how many tokens it has."""
        if self.processes:
            self.clock[0], self.clock[1] = step, seen
            self.gate.wait(PATIENCE)
        facts, kind, tokens = _part(self.network, self.tokenizer, self.plan, self.seed, step, seen, 0, self.count)
        self.facts[0] = facts
        if self.processes:
            self.gate.wait(PATIENCE)
            self._add()
        loss, right, count, ahead, all_ahead = self.facts.sum(0).tolist()
        named = {f"{kind}_loss": loss, f"{kind}_right": right / max(count, 1)}
        if all_ahead:
            named[f"{kind}_mtp_right"] = ahead / all_ahead
        return named, tokens

    @torch.no_grad()
    def _add(self) -> None:
        total = self.flat[1:].sum(0)
        at = 0
        for parameter in self.parameters:
            part = total[at : at + parameter.numel()].view_as(parameter)
            at += parameter.numel()
            if parameter.grad is not None:
                parameter.grad += part
            elif part.any():  # else no process had one: optimizers leave it alone
                parameter.grad = part.clone()


def compile_network(network: Any) -> None:
    """Fuse the small operations of the blocks, where the network knows how; every shape of a batch compiles anew."""
    if hasattr(network, "compile_blocks"):
        config: Any = torch._dynamo.config
        config.recompile_limit = config.accumulated_recompile_limit = 256
        network.compile_blocks()


def _part(
    network: nn.Module, tokenizer: Tokenizer, plan: Plan, seed: int, step: int, seen: int, rank: int, count: int
) -> tuple[Tensor, str, int]:
    """Set the gradients of this process's rows of a batch; facts, kind and size of the batch."""
    stage = plan.stage(seen)
    tokens, mask, kind = rows_of(tokenizer, stage, seed, step)
    learnt = max(float((mask[:, 1:] > 0).sum()), 1.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, facts = losses(
            network,
            tokens[rank::count],
            mask[rank::count],
            learnt=learnt,
            mtp=stage.mtp if kind == "episode" else 0.0,
            ahead=stage.ahead,
        )
    network.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    return facts, kind, tokens.numel()


def _follow(
    rank: int, count: int, network: nn.Module, tokenizer: str, plan: Plan, seed: int, compiled: bool, shared: Any
) -> None:
    """The life of another process: it ends when the barrier breaks."""
    flat, facts, clock, gate = shared
    threading.Thread(target=_die_with, args=(os.getppid(),), daemon=True).start()
    torch.set_num_threads(1)
    if compiled:
        compile_network(network)
    words = Tokenizer.from_str(tokenizer)
    parameters = list(network.parameters())
    try:
        while True:
            gate.wait(PATIENCE)
            step, seen = clock.tolist()
            facts[rank] = _part(network, words, plan, seed, step, seen, rank, count)[0]
            at = 0
            for parameter in parameters:
                if parameter.grad is None:
                    flat[rank, at : at + parameter.numel()] = 0.0
                else:
                    flat[rank, at : at + parameter.numel()] = parameter.grad.flatten()
                at += parameter.numel()
            gate.wait(PATIENCE)
    except threading.BrokenBarrierError:
        return
    except Exception:
        gate.abort()
        raise


def _die_with(parent: int) -> None:
    """End this process when its parent is gone: one that was killed breaks no barrier."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)
