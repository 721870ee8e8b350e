"""The call list of LFM2: `[name(key='text', n=1), other()]`, read back byte for byte.

The template writes strings between single quotes without escapes, so a quote ends a string only where a next argument,
or the end of the call, follows it.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from ..calls import Call

__all__ = ["read_calls"]

_NAME = re.compile(r"\s*([^\s()\[\]=,'\"]+)\s*\(\s*")
_KEY = re.compile(r"\s*([^\s()\[\]=,'\"]+)\s*=\s*")
_BEHIND = re.compile(r"\s*(?:,\s*[^\s()\[\]=,'\"]+\s*=|\)\s*(?:,\s*[^\s()\[\]=,'\"]+\s*\(|\]\s*\Z))")
_WORD = re.compile(r"[^\s,()\[\]{}'\"]+")
_PYTHON = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}


class _Bad(Exception):
    """The text is not the grammar; says what was expected."""


def read_calls(text: str) -> list[Call]:
    """The calls of the text between the two tags. A list that cannot be read is one `malformed` call."""
    calls: list[Call] = []
    at = len(text) - len(text.lstrip())
    try:
        if text[at : at + 1] != "[":
            raise _Bad("a list of calls begins with [")
        at += 1
        while True:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            name, arguments, at = _call(text, start)
            calls.append(Call(name, arguments, raw=text[start:at]))
            at = _skip(text, at)
            if text[at : at + 1] == ",":
                at += 1
            elif text[at : at + 1] == "]" and not text[at + 1 :].strip():
                return calls
            else:
                raise _Bad("a call is followed by , or by ] at the end")
    except (_Bad, RecursionError) as error:
        found = _NAME.match(text.lstrip().removeprefix("["))
        message = f"the calls could not be read: {error}; write [name(key='value', other=1)]"
        return [Call(found.group(1) if found else "", {}, "malformed", text, message)]


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _call(text: str, at: int) -> tuple[str, dict[str, Any], int]:
    match = _NAME.match(text, at)
    if match is None:
        raise _Bad("a call begins with its name and (")
    name, at = match.group(1), match.end()
    arguments: dict[str, Any] = {}
    if text[at : at + 1] == ")":
        return name, arguments, at + 1
    while True:
        key = _KEY.match(text, at)
        if key is None:
            raise _Bad(f"an argument of {name} is key=value")
        value, at = _value(text, key.end())
        if key.group(1) in arguments and arguments[key.group(1)] != value:
            raise _Bad(f"{key.group(1)} stands there twice with different values")
        arguments[key.group(1)] = value
        at = _skip(text, at)
        if text[at : at + 1] == ")":
            return name, arguments, at + 1
        if text[at : at + 1] != ",":
            raise _Bad(f"the value of {key.group(1)} is followed by , or )")
        at += 1


def _value(text: str, at: int) -> tuple[Any, int]:
    first = text[at : at + 1]
    if first in ("'", '"') and first:
        end = text.find(first, at + 1)
        while end >= 0 and not _BEHIND.match(text, end + 1):
            end = text.find(first, end + 1)
        if end < 0:
            raise _Bad("a string has no end")
        return text[at + 1 : end], end + 1
    if first == "{":
        try:
            return json.JSONDecoder().raw_decode(text, at)
        except ValueError as error:
            raise _Bad(f"an object is no JSON: {error}") from None
    if first == "[":
        return _list(text, at)
    word = _WORD.match(text, at)
    if word is None:
        raise _Bad("a value is missing")
    if word.group() in _PYTHON:
        return _PYTHON[word.group()], word.end()
    try:
        number = ast.literal_eval(word.group())
    except (ValueError, SyntaxError, MemoryError):
        raise _Bad(f"{word.group()[:40]!r} is no value; text stands between quotes") from None
    return number, word.end()


def _list(text: str, at: int) -> tuple[Any, int]:
    """A list, as Python's `str` or as JSON writes it: up to the first bracket with which it can be read."""
    end = text.find("]", at)
    for _ in range(200):
        if end < 0:
            break
        part = text[at : end + 1]
        try:
            return json.loads(part), end + 1
        except (ValueError, RecursionError):
            pass
        try:
            return ast.literal_eval(part), end + 1
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            end = text.find("]", end + 1)
    raise _Bad("a list has no end, or is none")
