"""Where a call may begin, before it shows its name: in open reasoning, and in content without its opening tag."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .call_tags import function_name, tool_names, unquoted

__all__ = ["LONGEST_DRAFT", "LONGEST_HEAD", "CallHeads"]

LONGEST_HEAD = 200
"""Characters that may pass before a call in open reasoning, or one without opener, shows its name."""

LONGEST_DRAFT = 4 * LONGEST_HEAD + 1
"""Tokens that may pass: more than the bytes of the longest head, so only tokens without bytes can reach it."""

_BARE_CALL = re.compile(r"<function=([^>\n]*)>\s*(?:<parameter=|</function>)")
_NEXT = ("<parameter=", "</function>")


class CallHeads:
    """Knows the names of the declared `tools`; only they make a call of what looks like one."""

    def __init__(self, tools: Iterable[Mapping[str, Any]]) -> None:
        self.declared = tool_names(tools)

    def draft(self, text: str) -> bool | None:
        """Whether `text`, from the opening tag of a call on, names a declared function. None: it may yet."""
        name, may_come = function_name(text[:LONGEST_HEAD])
        if name is not None:
            return name in self.declared
        begun = text.partition("<function=")[2]
        return None if may_come and len(text) < LONGEST_HEAD and self._may_be_declared(begun) else False

    def find_bare(self, text: str, before: Callable[[], str]) -> re.Match[str] | None:
        """A call without opener in the content `text`, which stands behind the content `before()`: at the beginning of
        a line, and not in a fenced example."""
        for match in _BARE_CALL.finditer(text):
            if match.end() - match.start() > LONGEST_HEAD or unquoted(match.group(1)) not in self.declared:
                continue
            ahead = before() + text[: match.start()]
            at_line_start = not ahead.rpartition("\n")[2].strip(" \t")
            quoted = ahead.count("```") % 2 == 1 or ahead.rstrip().endswith("<tool_call>")
            if at_line_start and not quoted:
                return match
        return None

    def may_begin(self, text: str) -> int:
        """From where on `text` may turn out to be a call without opener; its length, if nowhere."""
        at = text.rfind("<")
        if at < 0:
            return len(text)
        start = text.rfind("<function=", 0, at)  # the last tag may be the one behind the function's
        if start >= 0 and self._is_head(text[start:]):
            return start
        return at if self._is_head(text[at:]) else len(text)

    def _is_head(self, tail: str) -> bool:
        if len(tail) > LONGEST_HEAD:
            return False
        if "<function=".startswith(tail):
            return True
        if not tail.startswith("<function="):
            return False
        name, bracket, rest = tail[len("<function=") :].partition(">")
        if not bracket:
            return "\n" not in name and self._may_be_declared(name)
        return unquoted(name) in self.declared and any(tag.startswith(rest.lstrip()) for tag in _NEXT)

    def _may_be_declared(self, begun: str) -> bool:
        """A name that begins so may yet become a declared one."""
        core = unquoted(begun)
        return any(name.startswith(core) for name in self.declared)
