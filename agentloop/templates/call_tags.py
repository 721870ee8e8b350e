"""The tags of calls in a text, and what the beginning of a call tells."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

__all__ = [
    "Kind",
    "Tag",
    "find_tags",
    "function_name",
    "is_closed",
    "json_end",
    "parameters_of",
    "tool_names",
    "unquoted",
]

Kind = Literal["call", "/call", "function", "/function", "parameter", "/parameter"]

_TAG = re.compile(
    r"(?P<call><tool_call>)|(?P<call_></tool_call>)|<function=(?P<function>[^>\n]*)>|(?P<function_></function>)"
    r"|<parameter=(?P<parameter>[^>\n]*)>|(?P<parameter_></parameter>)"
)
_NAME = re.compile(r"\s*(?:<tool_call>)?\s*<function=([^>\n]*)>")
_JSON_NAME = re.compile(r'\s*(?:<tool_call>)?\s*\{\s*"name"\s*:\s*"([^"\\]*)"')
_OPENER = "<tool_call>"


class Tag(NamedTuple):
    """A tag at [start, end) of the text; `name` is what an opening tag names."""

    kind: Kind
    start: int
    end: int
    name: str


def find_tags(text: str, marks: Mapping[int, str]) -> list[Tag]:
    """Every spelling of a tag, in order; the tags of whole calls only where `marks` has one."""
    tags: list[Tag] = []
    for match in _TAG.finditer(text):
        group = match.lastgroup or ""
        kind = "/" + group[:-1] if group.endswith("_") else group
        if kind in ("call", "/call") and match.start() not in marks:
            continue
        name = match.group(group) if kind in ("function", "parameter") else ""
        tags.append(Tag(kind, match.start(), match.end(), name))  # type: ignore[arg-type]
    return tags


def tool_names(tools: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """The names that tool schemas declare."""
    return frozenset(str(tool.get("function", tool).get("name")) for tool in tools)


def unquoted(name: str) -> str:
    """The name of a tag without white space and quotes around it."""
    return name.strip().strip("\"'")


def function_name(text: str) -> tuple[str | None, bool]:
    """The function that a call names, if its beginning is there; and whether, if not, it may still come."""
    match = _NAME.match(text) or _JSON_NAME.match(text)
    if match:
        return unquoted(match.group(1)), False
    rest = text.lstrip().removeprefix(_OPENER).lstrip()
    may_come = "<function=".startswith(rest) or rest.startswith("{")
    if rest.startswith("<function="):
        may_come = "\n" not in rest and ">" not in rest
    return None, may_come


def json_end(text: str, start: int) -> tuple[Any, int] | None:
    """The JSON object that begins at `start` (behind white space) and where it ends; None if there is none."""
    while start < len(text) and text[start].isspace():
        start += 1
    if text[start : start + 1] != "{":
        return None
    try:
        return json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None


def is_closed(text: str, start: int) -> bool:
    """`text` ends with a closing tag of a call that began at `start`: is it where the grammar has it?"""
    body = text[start : text.rfind("<")]
    bare = body.rstrip()
    if bare.endswith(("</function>", "</parameter>")):
        return True
    inner = body.lstrip().removeprefix(_OPENER)
    if inner.lstrip().startswith("{"):
        found = json_end(inner, 0)
        return found is None or not inner[found[1] :].strip()
    return "<parameter=" not in body


def parameters_of(tools: Sequence[Mapping[str, Any]] | None, name: str) -> frozenset[str]:
    """The parameters that the tool `name` declares at the top of its schema."""
    for tool in tools or ():
        function = tool.get("function", tool)
        if function.get("name") == name:
            return frozenset((function.get("parameters") or {}).get("properties") or ())
    return frozenset()
