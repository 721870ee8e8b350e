"""The embedded model: its card tells the truth, and it carries the package's own template."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import gguf
import pytest

from agentloop.models import default_drafter_path, default_model_path

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = ROOT / "agentloop" / "templates" / "qwen3_8.jinja"


def text_of(key: str) -> str:
    return str(gguf.GGUFReader(default_model_path()).fields[key].contents())


def test_the_template_inside_is_the_one_of_the_package() -> None:
    """If this fails: python scripts/embed_model.py COPY_OF_THE_MODEL, and note the new hashes in the card."""
    assert text_of("tokenizer.chat_template") == TEMPLATE.read_text(encoding="utf-8")


def test_it_says_what_it_is() -> None:
    assert text_of("general.license") == "apache-2.0"
    assert text_of("general.description")
    assert text_of("general.architecture") == "qwen35"


@pytest.mark.parametrize(
    ("path", "key", "source"),
    [
        (default_model_path(), "template_sha256", TEMPLATE),
        (default_drafter_path(), "target_sha256", default_model_path()),
    ],
    ids=["model", "drafter"],
)
def test_the_card_names_this_file(path: Path, key: str, source: Path) -> None:
    card = default_model_path().with_name("README.md").read_text(encoding="utf-8")
    block = re.search(r"```json\n(\{\s*\"file\": \"" + re.escape(path.name) + r".*?)```", card, re.DOTALL)
    assert block is not None
    facts = json.loads(block[1])
    content = path.read_bytes()
    assert facts["bytes"] == len(content)
    assert facts["sha256"] == hashlib.sha256(content).hexdigest()
    assert facts[key] == hashlib.sha256(source.read_bytes()).hexdigest()


def test_embedding_is_deterministic(tmp_path: Path) -> None:
    """The shipped file as source gives the shipped file again, byte for byte."""
    output = tmp_path / "again.gguf"
    command = [sys.executable, str(ROOT / "scripts" / "embed_model.py"), str(default_model_path())]
    subprocess.run([*command, "--output", str(output)], check=True, capture_output=True, timeout=120)
    assert output.read_bytes() == default_model_path().read_bytes()
