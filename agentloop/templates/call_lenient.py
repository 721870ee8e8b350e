"""What models write instead of the canonical grammar, as long as it can be read in one way only.

Here every tag is a tag, never text of a value. White space is free, closing tags may be missing or doubled, a call may
be JSON. Where a tag stands that none of this explains, the call is malformed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from .call_strict import RawCall, Value
from .call_tags import Tag, function_name, json_end, parameters_of, unquoted

__all__ = ["Lenient", "lenient_reading"]


@dataclass
class Lenient:
    """Calls up to the first one that cannot be read; then `error` says why, and it begins at `failed_at`. `cut`: the
    text ended inside that call. `suffix` is text behind the calls."""

    calls: list[RawCall]
    suffix: str = ""
    error: str | None = None
    failed_at: int = 0
    cut: bool = False


class _Malformed(Exception):
    def __init__(self, reason: str, *, cut: bool = False) -> None:
        super().__init__(reason)
        self.cut = cut


def lenient_reading(
    text: str,
    tags: Sequence[Tag],
    tools: Sequence[Mapping[str, Any]] | None,
    *,
    complete: bool,
    has_opener: bool = True,
) -> Lenient:
    """Read a section of calls. complete: the model ended the reply itself, so a missing end is its mistake."""
    reading = _Reading(text, tags, tools, complete, has_opener)
    try:
        while reading.pos < len(text):
            reading.one_or_text()
    except _Malformed as failure:
        return Lenient(reading.calls, "\n\n".join(reading.prose), str(failure), reading.call_start, failure.cut)
    return Lenient(reading.calls, "\n\n".join(reading.prose))


class _Reading:
    def __init__(
        self,
        text: str,
        tags: Sequence[Tag],
        tools: Sequence[Mapping[str, Any]] | None,
        complete: bool,
        has_opener: bool,
    ) -> None:
        self.text, self.tags, self.tools, self.complete, self.has_opener = text, tags, tools, complete, has_opener
        self.pos = 0
        self.i = 0
        self.call_start = 0
        self.calls: list[RawCall] = []
        self.prose: list[str] = []

    def peek(self) -> Tag | None:
        """The next tag, if nothing but white space stands before it."""
        self.skip()
        if self.i < len(self.tags) and not self.text[self.pos : self.tags[self.i].start].strip():
            return self.tags[self.i]
        return None

    def take(self, gap: str = "\n") -> Tag:
        tag = self.tags[self.i]
        if self.text[self.pos : tag.start] != gap and self.calls:
            self.note("whitespace")
        self.pos = tag.end
        self.i += 1
        return tag

    def note(self, repair: str) -> None:
        if repair not in self.calls[-1].repairs:
            self.calls[-1].repairs.append(repair)

    def at_end(self) -> bool:
        return not self.text[self.pos :].strip()

    def one_or_text(self) -> None:
        tag = self.peek()
        if tag is not None and tag.kind == "/call" and self.calls:
            self.take()
            self.note("doubled_closing")
            self.calls[-1].end = self.pos
        elif tag is not None and tag.kind in ("call", "function"):
            self.call(tag)
        elif self.at_end():
            self.pos = len(self.text)
        else:
            self.between()

    def between(self) -> None:
        """Text behind a call. In it no tag may stand but the opener of another call."""
        self.skip()
        following = self.tags[self.i] if self.i < len(self.tags) else None
        end = len(self.text) if following is None else following.start
        if following is not None and following.kind != "call":
            self.call_start = self.calls[-1].start if self.calls else 0
            if self.calls:
                self.calls.pop()
            raise _Malformed(f"{self.spelled(following)} stands behind the end of the call, where it closes nothing")
        if self.calls and ("missing_opener" in self.calls[-1].repairs):
            self.call_start = self.calls.pop().start
            raise _Malformed("the call has no <tool_call> before it and is followed by text")
        self.prose.append(self.text[self.pos : end].strip())
        if self.calls:
            self.note("text_after_call")
        self.pos = end

    def call(self, tag: Tag) -> None:
        self.call_start = tag.start
        raw = RawCall("", tag.start, tag.end)
        opened = tag.kind == "call"
        if opened:
            if self.calls:
                gap = self.text[self.pos : tag.start]
                self.calls.append(raw)
                if gap != "\n" and not gap.strip():
                    self.note("whitespace")
            else:
                self.calls.append(raw)
            self.pos = tag.end
            self.i += 1
        else:
            self.calls.append(raw)
            self.note("missing_opener")
            self.pos = tag.start
        try:
            first = self.i
            self.body(raw, opened)
        except _Malformed as failure:
            end = self.end_of_garbage(first)
            if end is None or failure.cut:
                self.calls.pop()
                raise
            raw.error, raw.values, self.pos = str(failure), [], end
            raw.name = raw.name or function_name(self.text[raw.start : end])[0] or ""
        raw.end = self.pos

    def end_of_garbage(self, first: int) -> int | None:
        """Where a call that cannot be read, with tags from `first` on, ends: at the first closing tag of a call, unless
        it could be in a value."""
        for k in range(first, len(self.tags)):
            tag = self.tags[k]
            following = self.tags[k + 1] if k + 1 < len(self.tags) else None
            end = len(self.text) if following is None else following.start
            if tag.kind == "/call" and not self.text[tag.end : end].strip():
                return tag.end if following is None or following.kind == "call" else None
            if tag.kind not in ("function", "/function"):
                return None
        return None

    def body(self, raw: RawCall, opened: bool) -> None:
        tag = self.peek()
        if tag is None and json_end(self.text, self.pos) is not None:
            self.json_call(raw)
            self.close(raw, opened)
            return
        while tag is not None and tag.kind == "call":
            self.take()
            self.note("doubled_opener")
            tag = self.peek()
        if tag is None or tag.kind != "function":
            self.refuse_start(tag)
        tag = self.take("\n" if opened else "")
        raw.name = unquoted(tag.name)
        if raw.name != tag.name:
            self.note("quoted_name")
        self.parameters(raw)
        self.close(raw, opened)

    def refuse_start(self, tag: Tag | None) -> NoReturn:
        if self.at_end() and not self.complete:
            raise _Malformed("the reply was cut inside the call", cut=True)
        if tag is None and not self.complete and not any(t.start >= self.pos for t in self.tags):
            raise _Malformed("the reply was cut inside the call", cut=True)
        if self.text[self.pos :].lstrip().startswith("{"):
            raise _Malformed("the call is written as JSON, but the JSON is not valid")
        found = self.spelled(tag) if tag is not None else "other text"
        raise _Malformed(f"<function=NAME> must follow <tool_call>, not {found}")

    def json_call(self, raw: RawCall) -> None:
        found = json_end(self.text, self.pos)
        assert found is not None
        value, self.pos = found
        self.skip()
        name = value.get("name")
        arguments = value.get("arguments", value.get("parameters", {}))
        if isinstance(arguments, str):
            inner = json_end(arguments, 0)
            arguments = inner[0] if inner is not None and not arguments[inner[1] :].strip() else None
        if arguments is None:
            arguments = {}
        if not isinstance(name, str) or not name or not isinstance(arguments, dict):
            raise _Malformed('a call written as JSON needs "name" (a string) and "arguments" (an object)')
        raw.name = name
        raw.values = [Value(key, item) for key, item in arguments.items()]
        self.note("json_style")

    def skip(self) -> None:
        while self.i < len(self.tags) and self.tags[self.i].start < self.pos:
            self.i += 1

    def parameters(self, raw: RawCall) -> None:
        while True:
            tag = self.peek()
            if tag is not None and tag.kind == "parameter":
                self.take()
                self.parameter(raw, tag)
            elif tag is not None and tag.kind == "/parameter" and raw.values:
                self.take()
                self.note("doubled_closing")
            elif tag is None and not raw.values and (found := json_end(self.text, self.pos)) is not None:
                raw.values = [Value(key, item) for key, item in found[0].items()]
                self.pos = found[1]
                self.skip()
                self.note("json_style")
            else:
                return

    def parameter(self, raw: RawCall, opener: Tag) -> None:
        name = unquoted(opener.name)
        if name != opener.name:
            self.note("quoted_name")
        if self.i >= len(self.tags):
            self.ended(f"inside the parameter {name}")
        closer = self.tags[self.i]
        value = self.text[self.pos : closer.start]
        if not (value.startswith("\n") and value.endswith("\n") and len(value) > 1):
            self.note("whitespace")
        value = value.removeprefix("\n").removesuffix("\n")
        if closer.kind == "/parameter":
            self.pos = closer.end
            self.i += 1
        elif closer.kind == "/function" or (
            closer.kind == "parameter" and unquoted(closer.name) in parameters_of(self.tools, raw.name)
        ):
            self.note("missing_closing")
            self.pos = closer.start - (1 if self.text[closer.start - 1] == "\n" else 0)
        else:
            raise _Malformed(
                f"{self.spelled(closer)} stands inside the parameter {name}, which is not closed before it"
            )
        raw.values.append(Value(name, value))

    def close(self, raw: RawCall, opened: bool) -> None:
        closed = False
        if "json_style" in raw.repairs and (tag := self.peek()) is not None and tag.kind == "/function":
            self.take()
            closed = True
        while (tag := self.peek()) is not None and tag.kind == "/function" and "json_style" not in raw.repairs:
            self.take()
            if closed:
                self.note("doubled_closing")
            closed = True
        tag = self.peek()
        if tag is not None and tag.kind == "/call":
            self.take()
            if not closed and "json_style" not in raw.repairs:
                self.note("missing_closing")
        elif self.at_end():
            if not self.complete:
                raise _Malformed("the reply was cut inside the call", cut=True)
            if opened or not closed:
                self.note("missing_closing")
            if not closed and "json_style" not in raw.repairs and not raw.values:
                raise _Malformed("the call is not closed: </function> and </tool_call> are missing")
        elif tag is not None and tag.kind in ("call", "function") and closed:
            if opened:
                self.note("missing_closing")
        elif not opened and closed:
            pass
        else:
            self.refuse_end(raw, tag, closed)

    def refuse_end(self, raw: RawCall, tag: Tag | None, closed: bool) -> None:
        if not self.complete and not any(t.start >= self.pos for t in self.tags):
            raise _Malformed("the reply was cut inside the call", cut=True)
        where = "</tool_call>" if closed else "another <parameter=NAME> or </function>"
        behind = (
            "</function>" if closed else f"the parameter {raw.values[-1].name}" if raw.values else "<function=NAME>"
        )
        found = self.spelled(tag) if tag is not None else "text"
        raise _Malformed(f"{where} must follow {behind}, not {found}")

    def ended(self, where: str) -> None:
        if not self.complete:
            raise _Malformed(f"the reply was cut {where}", cut=True)
        raise _Malformed(f"the reply ends {where}")

    def spelled(self, tag: Tag) -> str:
        return self.text[tag.start : tag.end]
