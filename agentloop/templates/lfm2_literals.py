"""Literals inside the calls of LFM2.5: JSON and Python in one grammar, as models mix them.

Read without Python's own parser, whose stack a deeply nested text could overflow.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["LiteralError", "read_literal"]

_DEPTH = 100
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_]\w*")
_SPACE = re.compile(r"\s*")
_WORDS: dict[str, Any] = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_SHORT = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "0": "\0", "\n": ""}
_HEX = {"x": 2, "u": 4, "U": 8}


class LiteralError(ValueError):
    """The text is no literal from `at` on."""

    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.at = at


def read_literal(text: str, at: int, depth: int = 0) -> tuple[Any, int]:
    """The JSON value that begins at `at`, and where it ends. Raises LiteralError."""
    if depth > _DEPTH:
        raise LiteralError(at, f"values are nested deeper than {_DEPTH}")
    first = text[at : at + 1]
    if first in ("'", '"') and first:
        return _string(text, at)
    if first in ("[", "(") and first:
        return _list(text, at, "]" if first == "[" else ")", depth)
    if first == "{":
        return _object(text, at, depth)
    word = _WORD.match(text, at)
    if word is not None and word.group() in _WORDS:
        return _WORDS[word.group()], word.end()
    number = _NUMBER.match(text, at)
    if number is None:
        raise LiteralError(at, "there is no value where one must stand")
    spelled = number.group().replace("_", "")
    try:
        is_integer = spelled.lstrip("+-").isdigit()
        value: int | float = int(spelled) if is_integer else float(spelled)
    except ValueError as error:  # thousands of digits
        raise LiteralError(at, f"a number cannot be read: {error}") from None
    if value in (float("inf"), float("-inf")):
        raise LiteralError(at, "a number is too large")
    return value, number.end()


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _list(text: str, at: int, closing: str, depth: int) -> tuple[list[Any], int]:
    out: list[Any] = []
    at = _skip(text, at + 1)
    while True:
        if text.startswith(closing, at):
            return out, at + 1
        value, at = read_literal(text, at, depth + 1)
        out.append(value)
        at = _separated(text, at, closing)


def _object(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    out: dict[str, Any] = {}
    at = _skip(text, at + 1)
    while True:
        if text.startswith("}", at):
            return out, at + 1
        if text[at : at + 1] not in ("'", '"') or at >= len(text):
            raise LiteralError(at, "a key of an object must be a quoted string")
        key, at = _string(text, at)
        at = _skip(text, at)
        if not text.startswith(":", at):
            raise LiteralError(at, "a colon must follow the key of an object")
        if key in out:
            raise LiteralError(at, f"the key {key!r} is there twice")
        out[key], at = read_literal(text, _skip(text, at + 1), depth + 1)
        at = _separated(text, at, "}")


def _separated(text: str, at: int, closing: str) -> int:
    """Behind a comma, or at the closing bracket."""
    at = _skip(text, at)
    if text.startswith(",", at):
        return _skip(text, at + 1)
    if text.startswith(closing, at):
        return at
    raise LiteralError(at, f"a comma or {closing} must follow a value")


def _string(text: str, at: int) -> tuple[str, int]:
    quote, start = text[at], at
    out: list[str] = []
    at += 1
    while at < len(text):
        char = text[at]
        if char == quote:
            # JSON spells characters beyond the first plane as two halves.
            joined = "".join(out).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            return joined, at + 1
        if char != "\\":
            out.append(char)
            at += 1
            continue
        kind = text[at + 1 : at + 2]
        if kind in _HEX and kind:
            digits = text[at + 2 : at + 2 + _HEX[kind]]
            if len(digits) != _HEX[kind] or not re.fullmatch("[0-9A-Fa-f]+", digits) or int(digits, 16) > 0x10FFFF:
                raise LiteralError(at, f"\\{kind} must be followed by {_HEX[kind]} hexadecimal digits")
            out.append(chr(int(digits, 16)))
            at += 2 + _HEX[kind]
        elif kind in _SHORT:
            out.append(_SHORT[kind])
            at += 2
        else:
            # An escaped quote, slash or backslash; Python keeps the backslash before anything else.
            out.append(kind if kind in ("'", '"', "/", "\\") else "\\" + kind)
            at += 1 + max(len(kind), 1)
    raise LiteralError(start, "a string is not closed")
