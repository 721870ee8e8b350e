"""What a tool returns becomes text, and text that is too long for the model is cut and kept in a file."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from agentloop.arguments import well_formed
from agentloop.exceptions import ToolFailed

__all__ = ["CappedText", "ResultCap", "result_text"]

_WIDEST = 64  # characters of a token, at the most, that the cut reckons with
_LINE_SLACK = 0.25  # share of a part that may be given up to end it at a line


def result_text(value: Any) -> str:
    """A tool's return value as the text that the model reads.

    `str` as it is, `None` as `ok`, anything else (pydantic models, dataclasses, enums, dates, containers) as JSON.
    Raises `ToolFailed` for bytes, at any depth, and for values that JSON cannot hold.
    """
    value = well_formed(value)  # a lone surrogate has no token
    if isinstance(value, str):
        return value
    if value is None:
        return "ok"
    if (place := _find_bytes(value, "")) is not None:
        where = f" in {place}" if place else ""
        raise ToolFailed(
            f"the tool returned binary data{where}, which is no text for a model; "
            "it should return text, or write a file and return its name"
        )
    try:
        return json.dumps(to_jsonable_python(value, by_alias=True), ensure_ascii=False)
    except (PydanticSerializationError, TypeError, ValueError, RecursionError) as exc:
        raise ToolFailed(
            f"the tool returned a value of type {type(value).__name__}, which cannot become JSON: {exc}"
        ) from None


def _find_bytes(value: Any, path: str, depth: int = 0) -> str | None:
    """Where in the value bytes are: a path, `""` for the value itself, None if nowhere."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return path
    if depth > 50 or isinstance(value, (str, int, float, bool, type(None))):
        return None
    children: Any = ()
    if isinstance(value, BaseModel):
        children = dict(value).items()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        children = [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    elif isinstance(value, Mapping):
        children = value.items()
    elif isinstance(value, (list, tuple, set, frozenset)):
        children = enumerate(value)
    for key, child in children:
        found = _find_bytes(child, f"{path}.{key}" if path else str(key), depth + 1)
        if found is not None:
            return found
    return None


class CappedText(NamedTuple):
    """`text` for the model; `file` holds the whole text if it was cut; `left_out` counts the characters cut away."""

    text: str
    file: Path | None
    left_out: int


class ResultCap:
    """Cuts results to `limit` tokens: head and tail stay, the whole text goes to a file that the model is told of.

    `count_tokens` counts the tokens of a text (the engine's vocabulary). `folder` takes the files and is made when
    first needed; None keeps no file. `shown_from` is the folder that paths are shown relative to, so that the model's
    own file tools can open them.
    """

    def __init__(
        self,
        limit: int,
        count_tokens: Callable[[str], int],
        folder: str | Path | None = None,
        *,
        shown_from: str | Path | None = None,
    ) -> None:
        if limit < 1:
            raise ValueError(f"a cap of {limit} tokens leaves nothing; give at least 1")
        self.limit = limit
        self.count_tokens = count_tokens
        self.folder = None if folder is None else Path(folder)
        self.shown_from = None if shown_from is None else Path(shown_from)

    def apply(self, text: str, name: str = "result") -> CappedText:
        """The text if it fits, else head, a note and tail, at most `limit` tokens. It blocks: call it in a thread."""
        if self._fits(text):
            return CappedText(text, None, 0)
        file, note = self._spill(text, name)
        return self._cut(text, file, note)

    def _fits(self, text: str) -> bool:
        if len(text) > self.limit * _WIDEST:
            return False
        return len(text.encode("utf-8", "replace")) <= self.limit or self.count_tokens(text) <= self.limit

    def _spill(self, text: str, name: str) -> tuple[Path | None, str]:
        if self.folder is None:
            return None, ""
        stem = re.sub(r"[^A-Za-z0-9_.-]", "_", name).strip(".") or "result"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for number in range(1, 1_000_000):
                path = self.folder / f"{stem}-{number}.txt"
                try:
                    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                except FileExistsError:
                    continue
                with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="") as file:
                    file.write(text)
                return path, f"; the full text is in {self._shown(path)}"
        except OSError as exc:
            return None, f"; the full text could not be kept: {exc.strerror or exc}"
        return None, ""

    def _shown(self, path: Path) -> str:
        if self.shown_from is not None:
            try:
                return path.resolve().relative_to(self.shown_from.resolve()).as_posix()
            except ValueError:
                pass
        return str(path)

    def _cut(self, text: str, file: Path | None, note: str) -> CappedText:
        def build(head: str, tail: str) -> str:
            left_out = len(text) - len(head) - len(tail)
            return f"{head}\n[... {left_out} characters left out{note} ...]\n{tail}".strip("\n")

        room = self.limit - self.count_tokens(build("", ""))
        while True:
            head = self._longest(text, max(room * 2 // 3, 0), from_start=True)
            tail = self._longest(text[len(head) :], max(room - room * 2 // 3, 0), from_start=False)
            result = build(head, tail)
            over = self.count_tokens(result) - self.limit
            if over <= 0 or room <= 0:
                return CappedText(result, file, len(text) - len(head) - len(tail))
            room -= max(over, 1)

    def _longest(self, text: str, tokens: int, *, from_start: bool) -> str:
        """The longest part of at most `tokens` tokens, ended at a line where that gives up little."""
        if tokens <= 0:
            return ""
        low, high = 0, min(len(text), tokens * _WIDEST)
        while low < high:
            middle = (low + high + 1) // 2
            part = text[:middle] if from_start else text[len(text) - middle :]
            if self.count_tokens(part) <= tokens:
                low = middle
            else:
                high = middle - 1
        part = text[:low] if from_start else text[len(text) - low :]
        line = part.rfind("\n") if from_start else part.find("\n")
        given_up = len(part) - line - 1 if from_start else line + 1
        if line < 0 or given_up > len(part) * _LINE_SLACK:
            return part
        return part[:line] if from_start else part[line + 1 :]
