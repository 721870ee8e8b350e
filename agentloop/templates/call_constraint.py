"""The grammar of the calls that may be written, from behind the first `<tool_call>` to the end of the turn.

The canonical form and nothing else: calls one behind the other and no text after them; a declared name, its parameters
in any order and each at most once, the required ones present, every value in a form that its schema allows. A value
ends at its first closing tag on a line of its own, so text that holds such a line cannot be written as a value;
everything else can. JSON is written as the template writes it, `", "` and `": "` between its parts.

The text is in the Lark dialect of llguidance; the engine compiles it. Its rules with a parameter hold one bit for each
parameter of the tool that was written already.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..arguments.narrowing import narrowed
from .call_tags import unquoted
from .call_values import Form, JsonForm, TextForm, WordForm, value_forms

__all__ = ["call_grammar", "json_rule", "literal", "regex_between_slashes"]

_CLOSE = "\n</parameter>\n"
_CLOSE_REGEX = r"\n<\/parameter>\n"
_ON_A_LINE = 32  # a string that must have up to so many characters has its first ones on one line
_COUNTED = 50  # characters that are counted beside a pattern
_MOST = 60  # parameters in any order: the bits of the rules' parameter
_JSON = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": True}
_HELPERS = r"""
text[lazy]: /(?s:.*)\n<\/parameter>\n/
UNCLOSED: /(?s:.*)/ & ~/(?s:.*)\n<\/parameter>(?s:.*)/
loose: (OPEN text)*
OPEN: /<parameter=[^<>\s"']([^<>\n]*[^<>\s"'])?>\n/
"""


def call_grammar(
    tools: Sequence[Mapping[str, Any]],
    strict: Collection[str] | None = None,
    *,
    opener: str = "<tool_call>",
    closer: str = "</tool_call>",
    end: str = "<|im_end|>",
    patterns: bool = True,
) -> str:
    """The grammar of calls of `tools`. `strict`: the names of those whose arguments are held to their schema (None:
    all); the others may have any parameters with any text. `opener`, `closer` and `end` are special tokens: around a
    call, the first opener apart, and behind them all. Without `patterns`, regular expressions in schemas are left to
    the validation, for the sake of one that a grammar cannot hold.

    A tool whose parameters are no plain object schema is never held to it. ValueError when there is no tool.
    """
    if not tools:
        raise ValueError("there are no tools, so no call may be written")
    lines: list[str] = []
    foot = f"{literal('</function>' + chr(10))} {closer}"
    for i, tool in enumerate(tools):
        function = tool.get("function", tool)
        name = str(function["name"])
        schema = function.get("parameters") or {"type": "object", "properties": {}}
        head = literal(f"\n<function={name}>\n")
        wanted = strict is None or name in strict
        body = _Parameters(f"t{i}", schema, patterns).rules() if wanted else None
        if body is None:
            lines.append(f"t{i}: {head} loose {foot}")
        else:
            lines += [f"t{i}: {head} {body[0]} {foot}", *body[1]]
    start = " | ".join(f"t{i}" for i in range(len(tools)))
    return f'start: call ("\\n" {opener} call)* {end}\ncall: {start}\n' + "\n".join(lines) + _HELPERS


def json_rule(schema: Any, root: Mapping[str, Any] | None = None, *, options: Mapping[str, Any] = _JSON) -> str:
    """The body of a rule for the JSON texts that fit `schema`, which stands inside `root`."""
    return f"%json {json.dumps({'x-guidance': dict(options), **narrowed(schema, root)})}"


class _Parameters:
    """The rules of one tool's parameters, named from `name` on."""

    def __init__(self, name: str, schema: Mapping[str, Any], patterns: bool) -> None:
        self.name, self.schema, self.patterns = name, schema, patterns
        self.lines: list[str] = []

    def rules(self) -> tuple[str, list[str]] | None:
        """What a call's body is, and the rules for it; None when the schema is not a plain one."""
        schema = self.schema
        declared = schema.get("properties")
        if schema.keys() & {"$ref", "anyOf", "oneOf", "allOf", "patternProperties"}:
            return None
        if declared is None and (schema.get("additionalProperties") is not False and "properties" not in schema):
            return None
        properties: dict[str, Any] = dict(declared or {})
        required = [str(name) for name in schema.get("required", ())]
        for name in required:
            properties.setdefault(name, schema.get("additionalProperties", True))
        if any(not _can_stand_in_tag(name) for name in required):
            return None
        names = [*required, *(name for name in properties if name not in required and _can_stand_in_tag(name))]
        for i, name in enumerate(names):
            self.lines.append(
                f"{self.name}p{i}: {literal(f'<parameter={name}>' + chr(10))} ({self._value(i, properties[name])})"
            )
        if not names:
            return '""', self.lines
        if len(names) > _MOST:
            order = [i for i, name in sorted(enumerate(names), key=lambda pair: list(properties).index(pair[1]))]
            parts = (f"{self.name}p{i}" + ("" if i < len(required) else "?") for i in order)
            return " ".join(parts), self.lines
        rule = f"{self.name}a"
        ending = f" %if is_ones([0:{len(required)}])" if required else ""
        self.lines.append(f'{rule}::_: ""{ending}')
        self.lines += [f"  | {self.name}p{i} {rule}::set_bit({i}) %if bit_clear({i})" for i in range(len(names))]
        return f"{rule}::0x0", self.lines

    def _value(self, i: int, schema: Any) -> str:
        return " | ".join(
            self._form(f"{self.name}p{i}f{j}", form) for j, form in enumerate(value_forms(schema, self.schema))
        )

    def _form(self, name: str, form: Form) -> str:
        if isinstance(form, WordForm):
            return literal(form.text + _CLOSE)
        if isinstance(form, JsonForm):
            self.lines.append(f"{name}: {json_rule(form.schema, self.schema)}")
            return f"{name} {literal(_CLOSE)}"
        assert isinstance(form, TextForm)
        pattern = form.pattern if self.patterns else None
        if pattern is None and form.shortest == 0 and form.longest is None:
            return "text"
        if pattern is None:
            # The rule is lazy, so the value ends at its first closing tag; one that is too short must not hold it.
            plain = form.shortest if form.shortest <= _ON_A_LINE else 0
            rest = "" if form.longest is None else form.longest - plain
            self.lines.append(
                f"{name}[lazy]: /[^\\n]{{{plain}}}(?s:.{{{form.shortest - plain},{rest}}}){_CLOSE_REGEX}/"
            )
            return name
        counted = form.longest if form.longest is not None and form.longest <= _COUNTED else ""
        terminal, whole = name.upper(), regex_between_slashes(pattern)
        self.lines.append(f"{terminal}V: UNCLOSED & {whole} & /(?s:.{{{min(form.shortest, _COUNTED)},{counted}}})/")
        self.lines.append(f"{terminal}: {terminal}V {literal(_CLOSE)}")
        self.lines.append(f"{name}[lazy]: {terminal}")
        return name


def _can_stand_in_tag(name: str) -> bool:
    return bool(name) and unquoted(name) == name and ">" not in name and "\n" not in name


def literal(text: str) -> str:
    """A text of the grammar that stands for itself."""
    return json.dumps(text)


def regex_between_slashes(pattern: str) -> str:
    """A regular expression between slashes."""
    out, escaped = [], False
    for character in pattern:
        if character == "/" and not escaped:
            out.append("\\")
        out.append("\\n" if character == "\n" else character)
        escaped = character == "\\" and not escaped
    return f"/{''.join(out)}/"
