"""What used to kill the process, hang it, or leave a sequence that could not go on."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from gguf import GGUFReader, GGUFValueType, GGUFWriter

from agentloop.bench.random_model import RandomModel, write_random_model
from agentloop.engine import Engine
from agentloop.exceptions import AgentLoopError, ClosedError, ModelLoadError
from tests.engine.exactness import TOLERANCE, Cold


def with_metadata(source: Path, target: Path, key: str, value: object, kind: GGUFValueType) -> Path:
    """A copy of a model file with one scalar of its head changed."""
    reader = GGUFReader(source)
    writer = GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        sub = field.types[1] if field.types[0] == GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), field.types[0], sub)
    writer.kv_data[0].pop(key, None)
    writer.add_key_value(key, value, kind)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("block_count", 0, GGUFValueType.UINT32),
        ("block_count", 2**31, GGUFValueType.UINT32),
        ("block_count", 3, GGUFValueType.UINT32),
        ("attention.layer_norm_rms_epsilon", float("nan"), GGUFValueType.FLOAT32),
        ("attention.layer_norm_rms_epsilon", -1.0, GGUFValueType.FLOAT32),
        ("rope.dimension_count", 0, GGUFValueType.UINT32),
        ("rope.dimension_count", 7, GGUFValueType.UINT32),
        ("rope.dimension_count", 4096, GGUFValueType.UINT32),
        ("rope.freq_base", 0.0, GGUFValueType.FLOAT32),
        ("ssm.inner_size", 128, GGUFValueType.UINT32),
        ("full_attention_interval", 0, GGUFValueType.UINT32),
        ("nextn_predict_layers", 9, GGUFValueType.UINT32),
    ],
)
def test_a_head_that_llama_cpp_would_die_of(
    model_paths: dict[str, Path], tmp_path: Path, key: str, value: object, kind: GGUFValueType
) -> None:
    path = with_metadata(model_paths["qwen35"], tmp_path / "bad.gguf", f"qwen35.{key}", value, kind)
    with pytest.raises(ModelLoadError) as caught:
        Engine.load(path, n_ctx=256)
    assert caught.value.reason == "damaged"
    assert key in str(caught.value) or "block" in str(caught.value)


def test_a_copy_with_nothing_changed_still_loads(model_paths: dict[str, Path], tmp_path: Path) -> None:
    path = with_metadata(
        model_paths["qwen35"], tmp_path / "same.gguf", "qwen35.context_length", 4096, GGUFValueType.UINT32
    )
    with Engine.load(path, n_ctx=256) as engine:
        engine.sequence().extend([1, 2, 3])


@pytest.mark.parametrize(
    "settings",
    [
        {"n_ctx": 1},
        {"n_ctx": 17},
        {"n_ctx": 64, "draft_max": 100},
        {"n_ctx": 512, "draft_max": 128},
        {"n_ctx": 100, "n_batch": 1},
        {"n_ctx": 300, "draft_max": 0, "sequences": 1},
        {"n_ctx": 256, "sequences": 64},
    ],
)
def test_odd_settings_work(model_paths: dict[str, Path], settings: dict[str, int]) -> None:
    with Engine.load(model_paths["qwen35"], drafters="suffix", **settings) as engine:  # type: ignore[arg-type]
        engine._calibrated = True
        sequence = engine.sequence()
        sequence.extend([5] * 40)
        list(sequence.generate(20))
        sequence.truncate(30)
        cold = Cold(engine)
        assert cold.distance(sequence) <= TOLERANCE["qwen35"]
        cold.close()


@pytest.mark.parametrize(
    "settings", [{"draft_max": 10**6}, {"draft_max": -1}, {"threads": 10**6}, {"n_ctx": 2**32}, {"sequences": 10**4}]
)
def test_senseless_settings_are_refused(model_paths: dict[str, Path], settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        Engine.load(model_paths["qwen35"], **settings)  # type: ignore[arg-type]


def test_a_name_too_long_is_no_file() -> None:
    with pytest.raises(ModelLoadError):
        Engine.load("x" * 5000)


@pytest.mark.parametrize("work", ["generate", "extend"])
def test_closing_while_another_thread_decodes(model_paths: dict[str, Path], work: str) -> None:
    engine = Engine.load(model_paths["qwen35"], n_ctx=2048)
    engine.calibrate()
    sequence = engine.sequence()
    sequence.extend([5, 6, 7])
    ended: list[BaseException] = []
    going = threading.Event()

    def decode() -> None:
        try:
            while True:
                if work == "generate":
                    for _ in sequence.generate(200):
                        going.set()
                else:
                    sequence.extend([5] * 500)
                going.set()
                sequence.truncate(3)
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=decode)
    thread.start()
    assert going.wait(30)
    engine.close()
    thread.join(30)
    assert isinstance(ended[0], ClosedError)


def test_a_closed_engine_says_so(model_paths: dict[str, Path]) -> None:
    engine = Engine.load(model_paths["qwen35"], n_ctx=256)
    sequence = engine.sequence()
    sequence.extend([1, 2])
    engine.close()
    uses: list[Callable[[], object]] = [
        lambda: engine.vocab.encode("x"),
        lambda: engine.vocab.decode([200]),
        lambda: sequence.logits(),
        lambda: sequence.snapshot(),
        lambda: sequence.fork(),
        lambda: sequence.checkpoint(),
        lambda: next(sequence.generate(1)),
        engine.sequence,
    ]
    for use in uses:
        with pytest.raises(ClosedError):
            use()
    assert engine.chat_template is None
    assert engine.name


def test_an_interrupt_in_the_middle_of_a_decode(model_paths: dict[str, Path]) -> None:
    """SIGINT at many moments of decoding in the main thread; the sequence goes on, exact, each time."""
    with Engine.load(model_paths["qwen35"], n_ctx=2048) as engine:
        engine.calibrate()
        cold = Cold(engine)
        sequence = engine.sequence()
        sequence.extend([(i * 37) % 256 for i in range(100)])
        hits = 0
        for i in range(25):
            timer = threading.Timer(0.002 + 0.0007 * i, lambda: os.kill(os.getpid(), signal.SIGINT))
            timer.start()
            try:
                while True:
                    for _ in sequence.generate(40):
                        pass
                    sequence.truncate(90)
            except KeyboardInterrupt:
                hits += 1
            timer.join()
            sequence.extend([7, 8, 9])
            assert cold.distance(sequence) <= TOLERANCE["qwen35"]
            sequence.truncate(80)
            sequence.extend([(i * 11) % 256 for i in range(20)])
        assert hits == 25
        cold.close()


def test_an_engine_that_nobody_holds_gives_its_memory_back(model_paths: dict[str, Path]) -> None:
    code = (
        "import gc, sys; from agentloop.engine import Engine\n"
        "def size(): return int(open('/proc/self/statm').read().split()[1]) * 4096\n"
        "for i in range(24):\n"
        "    Engine.load(sys.argv[1], n_ctx=8192).sequence().extend([1, 2, 3]); gc.collect()\n"
        "    if i == 3: early = size()\n"
        "print((size() - early) >> 20)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(model_paths["qwen35"])],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert int(done.stdout) < 40  # 20 contexts of 6 MB and more each
    gc.collect()


@pytest.mark.parametrize("bad", ["12", [1.7], [float("inf")], [None], [2**70]])
def test_what_is_no_token_id(hybrid: Engine, bad: object) -> None:
    sequence = hybrid.sequence()
    sequence.extend([1, 2, 3])
    with pytest.raises((TypeError, ValueError)):
        sequence.extend(bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        sequence.truncate(1.0)  # type: ignore[arg-type]
    assert sequence.n_decoded == 3
    sequence.close()


def test_a_model_of_nothing_but_nan(tmp_path: Path) -> None:
    import numpy as np

    path = write_random_model(tmp_path / "nan.gguf", RandomModel("llama"))
    data = bytearray(path.read_bytes())
    data[-4096:] = np.full(1024, np.nan, np.float32).tobytes()  # the last feed-forward weights
    path.write_bytes(data)
    with Engine.load(path, n_ctx=256, drafters="none") as engine:
        sequence = engine.sequence()
        sequence.extend([1, 2, 3])
        with pytest.raises(AgentLoopError, match="not numbers"):
            next(sequence.generate(1))


def test_a_context_that_was_freed_is_not_asked_anything(model_paths: dict[str, Path]) -> None:
    """As when another thread closes the engine between two steps of one operation."""
    engine = Engine.load(model_paths["qwen35"], n_ctx=256, sequences=2, drafters=("suffix", "mtp"), threads=1)
    sequence = engine.sequence()
    sequence.extend([1, 2, 3, 4])
    context = engine.context
    engine.close()
    sequence._state.n = 2
    sequence._forget_behind_state()
    for ask in (
        lambda: context.position(0),
        lambda: context.remove(0, 1),
        lambda: context.clear(0),
        lambda: context.copy(0, 1),
        lambda: context.save(0),
        lambda: context.load(0, b"x"),
        lambda: context.state_size(0),
        lambda: context.row(0),
        lambda: context.decode([1], 4, 0),
        lambda: context.decode_at([1], 4, 0),
        context.synchronize,
    ):
        with pytest.raises(ClosedError):
            ask()
