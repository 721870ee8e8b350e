"""The official templates under the settings that transformers renders them with; never part of this repository.

They come from a folder named in AGENTLOOP_REFERENCE_TEMPLATES, from `../shared/reference` beside the checkout, or from
the `trl` wheel, which `pip download` fetches once into a cache folder. Without any of these, only the goldens are left.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import CallBlock, Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

__all__ = ["TemplateRefusal", "cached_wheel", "environment", "messages_for", "official", "official_text", "where"]

ROOT = Path(__file__).resolve().parents[2]
TRL = "trl==1.16.0"


class TemplateRefusal(Exception):
    """The template called raise_exception."""


class Generation(Extension):
    """`{% generation %}` marks a reply for training and writes its body."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Any) -> Any:
        return caller()


def environment() -> jinja2.Environment:
    """Jinja2 as transformers sets it up for chat templates."""

    def refuse(message: str) -> None:
        raise TemplateRefusal(message)

    def tojson(
        value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
    ) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = refuse
    env.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return env


@cache
def where() -> str | None:
    """Where the official templates were found; None if nowhere."""
    return _folder()[1]


@cache
def _folder() -> tuple[Path | None, str | None]:
    given = os.environ.get("AGENTLOOP_REFERENCE_TEMPLATES")
    for folder in (Path(given) if given else None, ROOT.parent / "shared" / "reference"):
        if folder is not None and (folder / "qwen3_8.jinja").exists():
            return folder, str(folder)
    cached = cached_wheel(TRL, ".jinja")
    if cached is None or not (cached / "qwen3_8.jinja").exists():
        return None, None
    return cached, f"{TRL} ({cached})"


@cache
def cached_wheel(requirement: str, suffix: str) -> Path | None:
    """A folder with the files of a wheel that end in `suffix`, downloaded once; None where that cannot be done."""
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache_home / "agentloop-tests" / requirement.replace("==", "-")
    if folder.exists():
        return folder
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, requirement]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=180)
            folder.parent.mkdir(parents=True, exist_ok=True)
            fresh = Path(tempfile.mkdtemp(dir=folder.parent))
        except (OSError, subprocess.SubprocessError):
            return None
        with zipfile.ZipFile(next(Path(scratch).glob("*.whl"))) as archive:
            for name in archive.namelist():
                if name.endswith(suffix):
                    (fresh / Path(name).name).write_bytes(archive.read(name))
        try:
            fresh.rename(folder)
        except OSError:  # another run was first
            return folder if folder.exists() else None
    return folder


@cache
def official_text(name: str) -> str | None:
    """The text of the official template `name`; None if there is no way to get it."""
    folder = _folder()[0]
    path = None if folder is None else folder / f"{name}.jinja"
    return path.read_text("utf-8") if path is not None and path.exists() else None


@cache
def _compiled(name: str) -> jinja2.Template:
    text = official_text(name)
    assert text is not None
    return environment().from_string(text)


def official(
    name: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, knobs: Mapping[str, Any] = {}
) -> str:
    """What the official template writes. Raises TemplateRefusal where it refuses."""
    variables = {"add_generation_prompt": True, "bos_token": "<|startoftext|>", **knobs}
    return _compiled(name).render(messages=messages_for(name, messages), tools=tools or None, **variables)


def messages_for(name: str, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages in the form that this template reads: that of LFM2 calls reasoning `thinking`, reads calls in their
    envelope alone, takes an empty list of calls for calls, and no content for the word None."""
    if not name.startswith("lfm2"):
        return messages
    out: list[dict[str, Any]] = []
    for message in messages:
        new = {key: value for key, value in message.items() if value is not None and value != []}
        if message["role"] == "assistant":
            if new.get("reasoning_content"):
                new["thinking"] = new["reasoning_content"]
            calls = [
                call if "function" in call else {"type": "function", "function": call}
                for call in new.get("tool_calls", ())
            ]
            if calls:
                new["tool_calls"] = calls
        new.pop("reasoning_content", None)
        new.setdefault("content", "")
        out.append(new)
    return out
