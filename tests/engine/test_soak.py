"""500 tool rounds on one sequence: memory, cells and checkpoints stay flat."""

from __future__ import annotations

from pathlib import Path

from agentloop.engine import Engine


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_five_hundred_tool_rounds(model_paths: dict[str, Path]) -> None:
    with Engine.load(model_paths["qwen35"], n_ctx=2048, sequences=2, threads=1, checkpoint_bytes=2_000_000) as engine:
        sequence = engine.sequence()
        sequence.extend([i % 256 for i in range(60)])
        sequence.checkpoint(label="system", pinned=True)
        early = 0
        for round_ in range(500):
            if len(sequence) > 1900:
                assert sequence.truncate(60) == "checkpoint"
            before = sequence.stats
            sequence.extend([(round_ + i) % 256 for i in range(20)])
            for _ in sequence.generate(8):
                pass
            sequence.checkpoint(label="tool")
            side = sequence.fork()
            side.extend([1, 2, 3])
            side.close()
            assert (sequence.stats - before).recomputed == 0
            if round_ == 100:
                early = resident()
        stats = engine.stats()
        assert stats["checkpoint_bytes"] <= 2_000_000
        assert (stats["sequences"], stats["live"]) == (1, 1)
        assert resident() - early < 30_000_000
