"""What stands in the files of an episode: settings, logs, and texts to copy."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .functions import FUNCTIONS, module_source
from .words import KEYS, STEMS, WORDS, file_path, invented, key, related, text_line, value

__all__ = ["Settings", "copied_text", "log", "settings"]

SEPARATORS = (" = ", " = ", " = ", ": ", "=")
DOINGS = (
    "started {word} {n}",
    "stopped {word} {n}",
    "loaded {n} items from {word}",
    "request {n} took {m} ms",
    "{word} connected",
    "{word} is ready",
    "saved {word} to disk",
    "cache has {n} entries",
    "user {word} logged in",
    "retry {m} of {n}",
    "checked {word}",
)
FAULTS = (
    "cannot open {word}.db",
    "connection to {word} lost",
    "{word} is missing",
    "timeout after {n} s",
    "no space left on disk {word}",
    "user {word} not found",
    "invalid value {n} for {word}",
    "{word} failed with code {n}",
    "port {n} is in use",
    "permission denied for {word}",
    "cannot write {path}",
    "no rights on {path}",
    "broken link to {path}",
    "unknown codec in {path}",
    "{path} is not readable",
    "wrong owner of {path}",
)


@dataclass
class Settings:
    """Lines of `key SEPARATOR value`, maybe with headers, remarks and empty lines between them."""

    values: dict[str, str]
    separator: str
    lines: list[str]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def line(self, name: str) -> str:
        return f"{name}{self.separator}{self.values[name]}"

    def with_value(self, name: str, new: str) -> str:
        """The text with another value of `name`."""
        at = self.lines.index(self.line(name))
        return "\n".join([*self.lines[:at], f"{name}{self.separator}{new}", *self.lines[at + 1 :]])

    def names(self) -> list[str]:
        """The keys whose lines stand nowhere else in the text, not even as a part."""
        text = self.text
        return [name for name in self.values if text.count(self.line(name)) == 1]


def settings(r: random.Random, count: int) -> Settings:
    """`count` settings with different keys, at least one of which has a line that is in no other line."""
    values: dict[str, str] = {}
    alike = r.choice((0.0, 0.0, 0.15, 0.4))
    while len(values) < count:
        name = key(r) if count < 12 else _long_key(r)
        text = value(r)
        if values and r.random() < alike:
            name = related(r, r.choice(list(values)))
        if values and r.random() < alike:
            text = related(r, r.choice(list(values.values())))
        if not name[0].isdigit():
            values[name] = text
    separator = r.choice(SEPARATORS)
    lines: list[str] = []
    decorated = r.random() < (0.5 if count >= 12 else 0.12)
    for i, (name, text) in enumerate(values.items()):
        if decorated and (i % 9 == 0 if count >= 12 else i == 0):
            lines += ["", f"[{r.choice(STEMS)}_{i}]"] if lines else [f"[{r.choice(STEMS)}]"]
        if decorated and r.random() < 0.06:
            lines.append(f"# {r.choice(WORDS)} {r.choice(WORDS)}")
        lines.append(f"{name}{separator}{text}")
    found = Settings(values, separator, lines)
    return found if found.names() else settings(r, count)


def _long_key(r: random.Random) -> str:
    x = r.random()
    if x < 0.3:
        return f"{r.choice(KEYS)}_{r.choice(KEYS)}"
    if x < 0.5:
        return f"{r.choice(STEMS)}_{r.choice(KEYS)}"
    if x < 0.65:
        return f"{r.choice(KEYS)}_{r.randint(1, 99)}"
    return invented(r) if x < 0.8 else key(r)


def log(r: random.Random, count: int) -> tuple[str, str]:
    """A log of `count` lines, one of which is an error, and the text of that error."""
    stamped = r.random() < 0.4
    error = _filled(r, r.choice(FAULTS))
    at = r.randrange(count)
    lines = []
    seconds = r.randint(0, 80000)
    for i in range(count):
        seconds += r.randint(0, 9)
        clock = f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02} " if stamped else ""
        level = r.choice(("INFO", "INFO", "INFO", "INFO", "DEBUG", "WARNING"))
        lines.append(clock + (f"ERROR {error}" if i == at else f"{level} {_filled(r, r.choice(DOINGS))}"))
    return "\n".join(lines), error


def _filled(r: random.Random, pattern: str) -> str:
    word = invented(r) if r.random() < 0.3 else r.choice(STEMS + WORDS)
    if r.random() < 0.4:  # any words, so that the patterns are not all that is known
        return text_line(r, 6)
    return pattern.format(word=word, n=r.randint(1, 9999), m=r.randint(1, 99), path=file_path(r))


def copied_text(r: random.Random, extension: str, count: int) -> str:
    """A text of about `count` lines; what it is of fits the extension."""
    if extension == "py":
        names = r.sample(list(FUNCTIONS), min(len(FUNCTIONS), max(1, (count + 3) // 4)))
        return module_source(names)
    if extension in ("toml", "cfg", "ini"):
        return settings(r, max(2, count)).text
    if extension == "csv":
        columns = r.randint(2, 4)
        cell = [r.random() < 0.5 for _ in range(columns)]
        rows = (",".join(_cell(r, number) for number in cell) for _ in range(count))
        return "\n".join(rows)
    if r.random() < 0.15:
        return "\n".join(str(r.randint(0, 10 ** r.randint(1, 5) - 1)) for _ in range(count))
    most = r.choice((2, 4, 7, 7))
    if r.random() < 0.4:  # few words that come again and again: what stands before one tells little
        pool = [
            *r.sample(WORDS, r.choice((2, 4, 7, 10, 20, 40))),
            str(r.randint(0, 9999)),
            f"{r.choice(WORDS)}-{r.randint(1, 99)}",
        ]
        return "\n".join(" ".join(r.choices(pool, k=r.randint(1, most))) for _ in range(count))
    return "\n".join(text_line(r, most) for _ in range(count))


def _cell(r: random.Random, number: bool) -> str:
    return str(r.randint(0, 9999)) if number else (invented(r) if r.random() < 0.3 else r.choice(WORDS))
