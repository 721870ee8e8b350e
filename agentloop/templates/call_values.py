"""What may stand between the tags of one parameter: the value's schema as forms of text.

A string is written as it is, everything else as JSON, so a schema that allows both has forms of both kinds. A form may
allow less than the schema (see `arguments.narrowing`), and more only where no grammar can hold the rule: strings with
rules beside numbers or objects, where the text alone does not tell which it is; lengths of more than a thousand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..arguments import encode_value
from ..arguments._reader import Reader

__all__ = ["NOTES", "JsonForm", "TextForm", "WordForm", "value_forms"]

NOTES = frozenset({"title", "description", "default", "examples", "deprecated", "$comment", "readOnly", "writeOnly"})
"""Keywords that rule out no value."""
_LONGEST = 1000  # characters that a grammar counts


@dataclass(frozen=True, slots=True)
class TextForm:
    """A string: of `shortest` to `longest` characters (None: any number), all of it matching the regular expression
    `pattern` if there is one."""

    shortest: int = 0
    longest: int | None = None
    pattern: str | None = None

    @property
    def is_free(self) -> bool:
        return self == TextForm()


@dataclass(frozen=True, slots=True)
class WordForm:
    """Exactly this text."""

    text: str


@dataclass(frozen=True, slots=True)
class JsonForm:
    """A JSON text; `schema` is what it must fit, and allows no string."""

    schema: Mapping[str, Any] = field(hash=False)


Form = TextForm | WordForm | JsonForm


def value_forms(schema: Any, root: Mapping[str, Any]) -> list[Form]:
    """The forms of a value with this schema, which stands inside `root`. Never empty: a schema that nothing fits gives
    a free text, for the validation to refuse."""
    found = list(_Forms(root).of(schema, frozenset()))
    texts = [form for form in found if isinstance(form, TextForm)]
    schemas = [form.schema for form in found if isinstance(form, JsonForm)]
    if not found or any(form.is_free for form in texts) or (texts and schemas):
        return [TextForm()]
    others: list[Form] = list(dict.fromkeys(form for form in found if not isinstance(form, JsonForm)))
    if schemas:
        others.append(JsonForm(schemas[0] if len(schemas) == 1 else {"anyOf": schemas}))
    return others


class _Forms:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self.reader = Reader(root)

    def of(self, schema: Any, seen: frozenset[str]) -> Iterable[Form]:
        if not isinstance(schema, Mapping):
            return [] if schema is False else [TextForm()]
        rules = {key: value for key, value in schema.items() if key not in NOTES}
        if "const" in rules or "enum" in rules:
            values = [rules["const"]] if "const" in rules else rules["enum"]
            return [WordForm(encode_value(value)) for value in values if self.reader.fits(value, schema)]
        if len(rules) == 1:
            (key, value), *_ = rules.items()
            if key == "$ref" and value not in seen:
                return self.of(self.reader.resolve(value), seen | {value})
            if key in ("anyOf", "oneOf") or (key == "allOf" and len(value) == 1):
                return [form for part in value for form in self.of(part, seen)]
        types = self.reader.types(schema)
        if rules.keys() & {"$ref", "anyOf", "oneOf", "allOf"} or "type" not in rules:
            return [TextForm() if "string" in types else JsonForm(schema)]
        words = [WordForm("true"), WordForm("false")] if "boolean" in types else []
        words += [WordForm("null")] if "null" in types else []
        forms: list[Form] = [_text(rules), *words] if "string" in types else [*words]
        rest = sorted(types - {"string", "boolean", "null"})
        return [*forms, JsonForm({**schema, "type": rest})] if rest else forms


def _text(rules: Mapping[str, Any]) -> TextForm:
    shortest, longest = rules.get("minLength", 0), rules.get("maxLength")
    pattern = _whole(rules["pattern"]) if isinstance(rules.get("pattern"), str) else None
    return TextForm(min(shortest, _LONGEST), longest if longest is not None and longest <= _LONGEST else None, pattern)


def _whole(pattern: str) -> str | None:
    """A pattern that is searched for, as one that matches the whole text; None where that is not a matter of the
    anchors at its ends."""
    start, end = pattern.startswith("^"), re.search(r"(?<!\\)(?:\\\\)*\$\Z", pattern) is not None
    core = pattern[start : len(pattern) - end]
    if re.search(r"\(\?[^:]|\\[bBAZzGpPkKuUxX1-9]", core) or re.search(
        r"[\^$]", re.sub(r"\\.|\[(?:\\.|[^\]\\])+\]", "", core)
    ):
        return None
    if (start or end) and "|" in re.sub(r"\\.|\[(?:\\.|[^\]\\])+\]|\([^()]*\)", "", core):
        return None
    return f"{'' if start else '(?s:.*)'}(?:{core}){'' if end else '(?s:.*)'}"
