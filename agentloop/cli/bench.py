"""`agentloop bench NAME`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["bench"]


def bench(name: str, *, model: str | None, draft: str | None = None, json: bool) -> int:
    """Run one benchmark and print its result; its steps go to stderr.

    `draft`: a file that drafts for the model, for `decode` alone. An unknown name is wrong usage: exit code 2.
    """
    from ..bench import BENCHES, run_bench

    if name not in BENCHES:
        print(f"agentloop: no benchmark {name!r}; there is: {', '.join(sorted(BENCHES))}", file=sys.stderr)
        return 2
    if draft is not None and name != "decode":
        print(f"agentloop: {name} takes no --draft; only decode does", file=sys.stderr)
        return 2
    with steps_shown():
        result = run_bench(name, model=model, draft_path=draft, json=json)
    print(result)
    return 0


@contextmanager
def steps_shown() -> Iterator[None]:
    """Inside the block, what a benchmark logs of its progress is shown on stderr."""
    logger = logging.getLogger("agentloop.bench")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("agentloop: %(message)s"))
    level, propagates = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates
