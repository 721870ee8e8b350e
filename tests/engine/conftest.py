"""Real models for the engine's tests: the embedded one, and random-weight files of each architecture family."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentloop.bench.random_model import Architecture, RandomModel, write_random_model
from agentloop.engine import Engine

ARCHITECTURES: tuple[Architecture, ...] = ("qwen35", "lfm2", "llama")


DRAFTERS = ("suffix", "mtp")


@pytest.fixture(scope="session")
def model_paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {
        arch: write_random_model(folder / f"{arch}.gguf", RandomModel(arch, mtp=1 if arch == "qwen35" else 0))
        for arch in ARCHITECTURES
    }


@pytest.fixture(scope="session", params=ARCHITECTURES)
def engine(request: pytest.FixtureRequest, model_paths: dict[str, Path]) -> Iterator[Engine]:
    with Engine.load(model_paths[request.param], n_ctx=1024, sequences=3, n_batch=32, drafters=DRAFTERS) as loaded:
        yield loaded


@pytest.fixture(scope="session")
def hybrid(model_paths: dict[str, Path]) -> Iterator[Engine]:
    with Engine.load(model_paths["qwen35"], n_ctx=1024, sequences=3, n_batch=32, drafters=DRAFTERS) as loaded:
        yield loaded


@pytest.fixture(scope="session")
def embedded() -> Iterator[Engine]:
    with Engine.load(n_ctx=8192) as loaded:
        yield loaded
