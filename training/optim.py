"""Muon for matrices: momentum whose singular values are made equal, by a Newton-Schulz iteration.

Source: K. Jordan, "Muon: an optimizer for hidden layers" (2024); the coefficients are his.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

__all__ = ["Muon", "orthogonal"]

_A, _B, _C = 3.4445, -4.7750, 2.0315


def orthogonal(matrix: Tensor, steps: int = 5) -> Tensor:
    """A matrix with the same singular vectors and singular values near 1 (0.7 to 1.2)."""
    x: Tensor = matrix.bfloat16()
    tall = x.shape[0] > x.shape[1]
    x = x.t() if tall else x
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        gram = x @ x.t()
        x = _A * x + (_B * gram + _C * gram @ gram) @ x
    return (x.t() if tall else x).float()


class Muon(torch.optim.Optimizer):
    """lr is the root mean square of an update's elements over 0.2, so that AdamW's decay and rates carry over."""

    def __init__(
        self, parameters: Iterable[Tensor], lr: float = 1e-3, momentum: float = 0.95, weight_decay: float = 0.05
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(parameter)
                moment = state["momentum"].lerp_(parameter.grad, 1 - group["momentum"])
                update = orthogonal(parameter.grad.lerp(moment, group["momentum"]))
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.add_(update, alpha=-group["lr"] * 0.2 * max(parameter.shape) ** 0.5)
