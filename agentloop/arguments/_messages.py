"""What a model is told about arguments that do not fit: the path, the rule, the value, the declared names."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from jsonschema.exceptions import ValidationError

from agentloop.arguments._text import loads
from agentloop.exceptions import ArgumentsError

__all__ = ["a_type", "explain", "relevance", "show", "unknown_parameter", "unknown_tool", "why"]

_SHOWN = 80  # characters of a value that a message shows


def relevance(error: ValidationError) -> tuple[int, int]:
    """What a model can act on first: an error high up, and a wrong value before a combination that failed."""
    return (-len(error.absolute_path), 0 if error.validator in ("anyOf", "oneOf") else 1)


def explain(error: ValidationError, declared: list[str]) -> ArgumentsError:
    path = _path(error.absolute_path)
    rule, value = str(error.validator), error.instance
    where = path or "the arguments"
    expected: Any = error.validator_value
    if rule == "required":
        missing = [name for name in expected if name not in value]
        inside = f" in {path}" if path else ""
        message = f"missing required parameter{'s' if len(missing) > 1 else ''} {_quoted(missing)}{inside}"
    elif rule == "type":
        kinds = [expected] if isinstance(expected, str) else list(expected)
        message = f"{where} must be {a_type(kinds)}, got {show(value)}"
    elif rule == "enum":
        message = f"{where} must be one of {', '.join(map(show, expected))}, got {show(value)}"
    elif rule == "const":
        message = f"{where} must be {show(expected)}, got {show(value)}"
    elif rule == "additionalProperties" and isinstance(value, dict):
        known = list(error.schema.get("properties", {})) if path else declared
        extra = [name for name in value if name not in known]
        message = (f"{path}: " if path else "") + unknown_parameter(extra[0] if extra else "?", known)
    elif rule in ("anyOf", "oneOf"):
        message = f"{where} fits none of the allowed forms ({rule}), got {show(value)}"
    else:
        message = f"{where} breaks the rule {rule} ({show(expected)}), got {show(value)}"
    return ArgumentsError(path, rule, value, message)


def _path(steps: Iterable[str | int]) -> str:
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def a_type(types: Iterable[str]) -> str:
    names = sorted(types)
    if "number" in names and "integer" in names:
        names.remove("integer")
    return " or ".join(f"{'an' if name[0] in 'aio' else 'a'} {name}" if name != "null" else "null" for name in names)


def why(text: str) -> str:
    """What is wrong with text that was meant to be an array or an object."""
    if text.strip()[:1] not in ("[", "{"):
        return ""
    try:
        loads(text)
    except ValueError as exc:
        return f", which is no valid JSON: {exc}"
    except RecursionError:
        return ", which is nested too deeply"
    return ""


def show(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def unknown_parameter(name: str, declared: Sequence[str]) -> str:
    if not declared:
        return f'unknown parameter "{name}"; there are no parameters'
    return f'unknown parameter "{name}"; {_nearest(name, declared)}declared parameters: {", ".join(declared)}'


def unknown_tool(name: str, declared: Sequence[str]) -> str:
    if not declared:
        return f'there is no tool "{name}": no tools are declared'
    return f'there is no tool "{name}"; {_nearest(name, declared)}declared tools: {", ".join(declared)}'


def _nearest(name: str, declared: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, declared, n=1, cutoff=0.7)
    return f'did you mean "{near[0]}"? ' if near else ""
