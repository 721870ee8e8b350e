"""Where llama.cpp's Jinja engine writes other bytes than Jinja2, as rules that Jinja2 can be made to follow.

`trim`: Jinja2 strips every Unicode white space, llama.cpp six ASCII characters. `numbers`: llama.cpp writes floats as
C's `%g` (six digits), integers beyond 64 bits as floats, and those from 2^63 to 2^64 - 1 wrapped to negative ones.
`strings`: a list made text by `string` or by `~` has its strings without Python's escapes, and its floats without an
exponent. agentloop follows Jinja2 in all of them: that is what models were trained on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

import jinja2

from tests.parity.oracle import environment

__all__ = ["RULES", "render_by", "served"]

RULES = ("trim", "numbers", "strings")


def render_by(
    rules: Sequence[str],
    text: str,
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]] | None,
    knobs: Mapping[str, Any],
) -> str:
    """What Jinja2 writes for a template text when it follows these rules of llama.cpp."""
    variables = {"add_generation_prompt": True, "bos_token": "<|startoftext|>", **knobs}
    return _compiled(tuple(rules), text).render(messages=messages, tools=tools or None, **variables)


def served(name: str, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages as llama-server hands them to the template: to that of LFM2 never any reasoning, and text parts
    joined by newlines."""
    if not name.startswith("lfm2"):
        return messages
    out: list[dict[str, Any]] = []
    for message in messages:
        new = {key: value for key, value in message.items() if key != "reasoning_content"}
        if isinstance(new.get("content"), list):
            new["content"] = "\n".join(part["text"] for part in new["content"])
        out.append(new)
    return out


@cache
def _compiled(rules: tuple[str, ...], text: str) -> jinja2.Template:
    env = environment()
    if "trim" in rules:
        env.filters["trim"] = lambda value: str(value).strip(" \t\n\r\f\v")
    if "numbers" in rules:
        env.filters["tojson"] = dumps
        env.filters["string"] = lambda value: python_text(value, "strings" in rules)
    elif "strings" in rules:
        env.filters["string"] = lambda value: python_text(value, True, str)
    return env.from_string(text)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def number(value: float) -> str:
    """A number as llama.cpp writes it."""
    if isinstance(value, int):
        if -(2**63) <= value < 2**63:
            return str(value)
        if 2**63 <= value < 2**64:
            return str(value - 2**64)
        value = float(value)
    return f"{value:g}"


def python_text(value: Any, plain: bool, digits: Callable[[Any], str] | None = None) -> str:
    """`str(value)` with numbers as `digits` (default: llama.cpp) writes them; `plain`: in lists, strings unescaped and
    floats without an exponent."""
    if is_number(value):
        return (digits or number)(value)
    if not isinstance(value, (list, tuple)):
        return str(value)
    inner: list[str] = []
    for item in value:
        if plain and isinstance(item, float):
            fixed = format(Decimal(repr(item)), "f")
            inner.append(fixed if "." in fixed else fixed + ".0")
        elif not isinstance(item, str):
            inner.append(python_text(item, plain, digits))
        elif plain:
            quote = '"' if "'" in item and '"' not in item else "'"
            inner.append(quote + item + quote)
        else:
            inner.append(repr(item))
    return "[" + ", ".join(inner) + "]"


def dumps(value: Any) -> str:
    """JSON with those numbers."""
    if is_number(value):
        return number(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(k, ensure_ascii=False)}: {dumps(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(dumps, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
