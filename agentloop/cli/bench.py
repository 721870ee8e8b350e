"""`agentloop bench NAME`."""

from __future__ import annotations

import sys

__all__ = ["bench"]


def bench(name: str, *, model: str | None, json: bool) -> int:
    """Run one benchmark and print its result. An unknown name is wrong usage: exit code 2."""
    from ..bench import BENCHES, run_bench

    if name not in BENCHES:
        print(f"agentloop: no benchmark {name!r}; there is: {', '.join(sorted(BENCHES))}", file=sys.stderr)
        return 2
    print(run_bench(name, model=model, json=json))
    return 0
