"""Snapshots as data: the way there and back, every kind of damage, other models, new processes, and being killed."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from agentloop.engine import DiskStore, Engine, RamStore, Sampling, Snapshot
from agentloop.engine.loading import bounded_batch
from agentloop.exceptions import SnapshotError
from tests.engine.exactness import TOLERANCE, Cold


def ids(n: int, seed: int = 0) -> list[int]:
    out: list[int] = np.random.default_rng(seed).integers(0, 256, n).tolist()
    return out


@pytest.fixture
def data(hybrid: Engine) -> bytes:
    sequence = hybrid.sequence()
    sequence.extend(ids(40))
    sequence.checkpoint(label="system", pinned=True)
    sequence.extend(ids(40, 1))
    raw = sequence.snapshot({"reader": b"\x00state"}).to_bytes()
    sequence.close()
    return raw


def test_restore_goes_on_and_decodes_only_what_is_new(engine: Engine) -> None:
    cold = Cold(engine)
    sequence = engine.sequence()
    sequence.extend(ids(90))
    sequence.checkpoint(label="turn", pinned=True)
    text = [t.id for t in sequence.generate(10, Sampling(temperature=0.8, seed=4))]
    raw = sequence.snapshot({"note": b"x"}).to_bytes(compress=True)
    restored = engine.restore(Snapshot.from_bytes(raw))
    assert restored.tokens == sequence.tokens
    restored.extend(ids(16, 2))
    waiting = len(text) > 0
    assert restored.stats.evaluated == 16 + waiting
    assert restored.stats.recomputed == 0
    assert cold.distance(restored) <= TOLERANCE[engine.shape.architecture]
    assert restored.truncate(90) in ("checkpoint", "trim")
    again = [t.id for t in restored.generate(10, Sampling(temperature=0.8, seed=4))]
    assert again == text
    sequence.close()
    restored.close()
    cold.close()


def test_logits_come_back_without_a_decode(hybrid: Engine, data: bytes) -> None:
    restored = hybrid.restore(Snapshot.from_bytes(data))
    assert restored.logits().shape == (hybrid.vocab.n_tokens,)
    assert restored.stats.evaluated == 0
    restored.close()


def test_every_truncation_is_found(data: bytes) -> None:
    for cut in [0, 1, 7, 8, 9, 12, 100, *range(200, len(data), len(data) // 40), len(data) - 1]:
        with pytest.raises(SnapshotError) as caught:
            Snapshot.from_bytes(data[:cut])
        assert caught.value.reason == "truncated", cut
    with pytest.raises(SnapshotError) as caught:
        Snapshot.from_bytes(data + b"x")
    assert caught.value.reason == "altered"


def test_every_altered_byte_is_found(data: bytes) -> None:
    random.seed(1)
    for at in [*range(60), *random.sample(range(len(data)), 200)]:
        bad = bytearray(data)
        bad[at] ^= 1 << random.randrange(8)
        with pytest.raises(SnapshotError) as caught:
            Snapshot.from_bytes(bytes(bad))
        assert caught.value.reason in ("altered", "foreign", "version", "truncated")


def test_saved_state_cannot_run_code(tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> object:
            return (os.mkdir, (str(tmp_path / "ran"),))

    with pytest.raises(SnapshotError) as caught:
        Snapshot.from_bytes(pickle.dumps(Payload()))
    assert caught.value.reason == "foreign"
    assert not (tmp_path / "ran").exists()


def test_another_model_or_version_is_refused_with_its_reason(
    hybrid: Engine, data: bytes, model_paths: dict[str, Path]
) -> None:
    with Engine.load(model_paths["lfm2"], n_ctx=256, threads=1) as other, pytest.raises(SnapshotError) as caught:
        other.restore(Snapshot.from_bytes(data))
    assert caught.value.reason == "foreign"
    assert "model" in str(caught.value)
    snapshot = Snapshot.from_bytes(data)
    older = Snapshot(
        snapshot.tokens, snapshot.n_decoded, snapshot.state, snapshot.row, {**snapshot.fingerprint, "library": "0.0.1"}
    )
    with pytest.raises(SnapshotError) as caught:
        hybrid.restore(older)
    assert caught.value.reason == "version"


def test_a_state_of_another_attention_is_refused_and_its_tokens_can_be_decoded(
    data: bytes, model_paths: dict[str, Path]
) -> None:
    snapshot = Snapshot.from_bytes(data)
    with Engine.load(model_paths["qwen35"], n_ctx=1024, threads=1, flash_attention=True) as other:
        with pytest.raises(SnapshotError, match="context") as caught:
            other.restore(snapshot)
        assert caught.value.reason == "foreign"
        again = other.sequence()
        again.extend(snapshot.tokens)
        assert snapshot.row is not None
        assert np.abs(again.logits() - snapshot.row).max() < 3e-3 * np.ptp(snapshot.row)


def test_scores_of_attention_are_bounded() -> None:
    assert bounded_batch(512, heads=4, n_ctx=8192) == 512
    assert bounded_batch(512, heads=24, n_ctx=32768) == 341
    assert bounded_batch(512, heads=64, n_ctx=1 << 20) == 64
    assert bounded_batch(18, heads=64, n_ctx=1 << 20) == 18


def test_parts_that_do_not_fit_together_are_refused(hybrid: Engine, data: bytes) -> None:
    s = Snapshot.from_bytes(data)
    wrong = [
        Snapshot(s.tokens[:-2], s.n_decoded, s.state, s.row, s.fingerprint),
        Snapshot(s.tokens, s.n_decoded, s.state, np.zeros(7, np.float32), s.fingerprint),
        Snapshot(s.tokens, s.n_decoded, s.state[:-5], s.row, s.fingerprint),
        Snapshot(s.tokens, s.n_decoded, b"", s.row, s.fingerprint),
        Snapshot((*s.tokens[:-1], 10**6), s.n_decoded, s.state, s.row, s.fingerprint),
    ]
    live = hybrid.stats()["live"]
    for snapshot in wrong:
        with pytest.raises(SnapshotError):
            hybrid.restore(snapshot)
    assert hybrid.stats()["live"] <= live + 0
    good = hybrid.restore(s)
    good.extend(ids(5))
    good.close()


def test_stores_hold_their_bytes_and_forget_the_oldest(hybrid: Engine, data: bytes, tmp_path: Path) -> None:
    snapshot = Snapshot.from_bytes(data)
    for store in (RamStore(3 * snapshot.n_bytes + 10), DiskStore(tmp_path / "store", 3 * len(data) + 10)):
        for name in ("a", "../b", "c"):
            store.put(name, snapshot)
            time.sleep(0.01)
        assert store.get("a").tokens == snapshot.tokens
        time.sleep(0.01)
        store.put("d", snapshot)
        assert "../b" not in store
        assert all(name in store for name in ("a", "c", "d"))
        with pytest.raises(SnapshotError) as caught:
            store.get("../b")
        assert caught.value.reason == "missing"
        store.delete("a")
        store.delete("a")
        assert len(store) == 2
        assert store.n_bytes <= store.limit
    small = DiskStore(tmp_path / "small", 100)
    with pytest.raises(SnapshotError) as caught:
        small.put("a", snapshot)
    assert caught.value.reason == "too_large"
    assert list((tmp_path / "small").iterdir()) == []
    assert [p.parent for p in tmp_path.rglob("*.alsnap")] == [tmp_path / "store"] * 2


CHILD = """
import sys
from agentloop.engine import DiskStore, Engine
path, folder = sys.argv[1:3]
engine = Engine.load(path, n_ctx=1024, threads=1)
store = DiskStore(folder, 1 << 30)
sequence = engine.sequence()
n = 0
print("ready", flush=True)
while True:
    sequence.extend([(n * 7 + i) % 256 for i in range(5)])
    n += 1
    store.put("work", sequence.snapshot())
    print(len(sequence), flush=True)
    if len(sequence) > 900:
        sequence.truncate(0)
        n = 0
"""


def test_killed_while_saving(model_paths: dict[str, Path], tmp_path: Path) -> None:
    """Killed at ten random moments; the store always has a whole snapshot, and it goes on."""
    rng = random.Random(3)
    with Engine.load(model_paths["qwen35"], n_ctx=1024, threads=1) as engine:
        for turn in range(10):
            folder = tmp_path / str(turn)
            child = subprocess.Popen(
                [sys.executable, "-c", CHILD, str(model_paths["qwen35"]), str(folder)],
                stdout=subprocess.PIPE,
                text=True,
            )
            assert child.stdout is not None
            child.stdout.readline()
            for _ in range(rng.randrange(1, 6)):
                said = child.stdout.readline()
            time.sleep(rng.random() * 0.01)
            child.send_signal(signal.SIGKILL)
            child.wait()
            snapshot = DiskStore(folder, 1 << 30).get("work")
            assert len(snapshot.tokens) >= int(said)
            restored = engine.restore(snapshot)
            restored.extend([1] * 16)
            assert restored.stats.evaluated == 16
            restored.close()


def test_a_new_process_decodes_only_what_is_new(model_paths: dict[str, Path], tmp_path: Path, hybrid: Engine) -> None:
    sequence = hybrid.sequence()
    sequence.extend(ids(300))
    (tmp_path / "s").write_bytes(sequence.snapshot().to_bytes())
    sequence.extend(range(16))
    expected = int(sequence.logits().argmax())
    sequence.close()
    code = (
        "import sys; from agentloop.engine import Engine, Snapshot\n"
        "engine = Engine.load(sys.argv[1], n_ctx=512, threads=1)\n"
        "s = engine.restore(Snapshot.from_bytes(open(sys.argv[2], 'rb').read()))\n"
        "s.extend(range(16)); print(s.stats.evaluated, int(s.logits().argmax()))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(model_paths["qwen35"]), str(tmp_path / "s")],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert out.stdout.split() == ["16", str(expected)]
