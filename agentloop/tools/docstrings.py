"""What a docstring says about a function and its parameters: google, numpy and sphinx styles."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from typing import NamedTuple

from docstring_parser import Docstring, DocstringStyle, ParseError, parse

__all__ = ["DocText", "read_docstring"]

_STYLES = (DocstringStyle.GOOGLE, DocstringStyle.NUMPYDOC, DocstringStyle.REST, DocstringStyle.EPYDOC)


class DocText(NamedTuple):
    """`description`: the text above the sections. `parameters`: one line each, only names of the signature."""

    description: str
    parameters: dict[str, str]


def read_docstring(text: str | None, names: Collection[str]) -> DocText:
    """Read a docstring in whichever style describes most of the parameters `names`; never raises."""
    clean = inspect.cleandoc(text or "")
    if not clean:
        return DocText("", {})
    best: Docstring | None = None
    score = (0, 0)
    for style in _STYLES:
        try:
            found = parse(clean, style)
        except (ParseError, ValueError, IndexError):
            continue
        known = {param.arg_name.lstrip("*") for param in found.params} & set(names)
        this = (len(known), len(found.meta))
        if best is None or this > score:
            best, score = found, this
    if best is None or score == (0, 0):
        return DocText(clean, {})
    described = {
        param.arg_name.lstrip("*"): " ".join(param.description.split()) for param in best.params if param.description
    }
    return DocText(_above_the_sections(best, clean), {k: v for k, v in described.items() if k in names})


def _above_the_sections(doc: Docstring, clean: str) -> str:
    parts = [part for part in (doc.short_description, doc.long_description) if part]
    # The parser drops the blank line between the two where there was none; the source has the last word on it.
    for joint in ("\n\n", "\n"):
        if clean.startswith(joint.join(parts)):
            return joint.join(parts)
    return re.sub(r"[ \t]+\n", "\n", "\n\n".join(parts)).strip()
