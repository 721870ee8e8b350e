"""Bad model files and impossible prompts: a typed error that says what to do, and a process that lives."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentloop import templates
from agentloop.engine import Engine
from agentloop.exceptions import ContextFull, ModelLoadError, TemplateNotFound
from agentloop.models import default_model_path
from tests.model_files import TEMPLATE_KEY, copy_of_model, cut_model, data_start

Maker = Callable[[Path], Path]


def text_file(path: Path) -> Path:
    path.write_text("This is a letter, not a model.\n" * 40)
    return path


def folder(path: Path) -> Path:
    path.mkdir()
    return path


def future_version(path: Path) -> Path:
    data = bytearray(default_model_path().read_bytes()[:4096])
    data[4:8] = (9).to_bytes(4, "little")
    path.write_bytes(data)
    return path


def huge_count(path: Path) -> Path:
    """A head that promises more metadata than the file has bytes."""
    data = bytearray(default_model_path().read_bytes()[:4096])
    data[16:24] = (1 << 40).to_bytes(8, "little")
    path.write_bytes(data)
    return path


SIZE = default_model_path().stat().st_size
DATA = data_start()

BROKEN: dict[str, tuple[str, Maker]] = {
    "missing": ("missing", lambda path: path),
    "folder": ("not_a_file", folder),
    "empty": ("not_gguf", lambda path: cut_model(path, 0)),
    "text": ("not_gguf", text_file),
    "future version": ("unsupported_version", future_version),
    "huge count": ("truncated", huge_count),
    "vocabulary only": ("vocabulary_only", lambda path: copy_of_model(path, tensors=False)),
    "unknown architecture": ("refused", lambda path: copy_of_model(path, texts={"general.architecture": "nosuch"})),
    "no tokenizer": ("refused", lambda path: copy_of_model(path, drop=("tokenizer.ggml.model",))),
    "no layer count": ("refused", lambda path: copy_of_model(path, drop=("qwen35.block_count",))),
    "no state size": ("refused", lambda path: copy_of_model(path, drop=("qwen35.ssm.state_size",))),
}
"""Kind of file: the reason that its error gives, and how to make it."""

CUTS = (23, 24, 100, 1000, 20_000, DATA - 500, DATA - 1, DATA, DATA + 1, SIZE // 2, SIZE - 33)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_file_gives_a_typed_error(name: str, tmp_path: Path) -> None:
    reason, make = BROKEN[name]
    path = make(tmp_path / "model.gguf")
    with pytest.raises(ModelLoadError) as caught:
        Engine.load(path, n_ctx=512)
    assert caught.value.reason == reason
    assert caught.value.path == str(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) > len(str(path)) + 20, "it says what to do"


@pytest.mark.parametrize("size", CUTS)
def test_truncated_file_gives_a_typed_error(size: int, tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError) as caught:
        Engine.load(cut_model(tmp_path / "cut.gguf", size), n_ctx=512)
    assert caught.value.reason == ("not_gguf" if size < 24 else "truncated")


def test_the_process_lives_through_all_of_them(tmp_path: Path) -> None:
    """One process tries every broken file and then does real work: nothing aborted, nothing was left locked."""
    paths = [make(tmp_path / f"{number}.gguf") for number, (_, make) in enumerate(BROKEN.values())]
    paths += [cut_model(tmp_path / f"cut{size}.gguf", size) for size in CUTS]
    code = (
        "import sys\n"
        "from agentloop.engine import Engine\n"
        "from agentloop.exceptions import ModelLoadError\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n"
        "        Engine.load(path, n_ctx=512).close()\n"
        "    except ModelLoadError as error:\n"
        "        print(error.reason)\n"
        "with Engine.load(n_ctx=512) as engine:\n"
        "    sequence = engine.sequence()\n"
        "    sequence.extend(engine.vocab.encode('Hello'))\n"
        "    print(len(list(sequence.generate(4))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, paths)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split()
    assert len(lines) == len(paths) + 1
    assert int(lines[-1]) >= 1
    assert done.stderr == "", "llama.cpp's log stays out of the terminal"


def test_a_model_without_chat_template(tmp_path: Path) -> None:
    """It loads and generates from tokens; only the way from messages to tokens is closed, and the error says so."""
    path = copy_of_model(tmp_path / "plain.gguf", drop=(TEMPLATE_KEY,))
    with Engine.load(path, n_ctx=512) as engine:
        assert engine.chat_template is None
        with pytest.raises(TemplateNotFound) as caught:
            templates.for_model(engine.chat_template, engine.metadata)
        assert "template" in str(caught.value)
        sequence = engine.sequence()
        sequence.extend(engine.vocab.encode("Hello"))
        assert list(sequence.generate(2))


def test_a_prompt_longer_than_the_context_changes_nothing() -> None:
    with Engine.load(n_ctx=512) as engine:
        sequence = engine.sequence()
        sequence.extend(engine.vocab.encode("The tests fail."))
        before, row = sequence.tokens, sequence.logits()
        with pytest.raises(ContextFull) as caught:
            sequence.extend(engine.vocab.encode("word " * 2000))
        assert caught.value.needed > caught.value.available
        assert caught.value.n_ctx == 512
        assert sequence.tokens == before
        assert (sequence.logits() == row).all()
        sequence.extend(engine.vocab.encode(" Fix the bug."))
        assert len(sequence.tokens) > len(before)
