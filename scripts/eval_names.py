"""What tasks are about: paths, keys, values, texts, cities and numbers; some well known, others seen nowhere before."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["CITIES", "FOLDERS", "NOVEL", "PLAIN", "SKIES", "Names", "coined"]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


@dataclass(frozen=True)
class _List:
    """Words, most of which the training knows, and others that are as common and that no list of the training holds;
    one in five is one of the others."""

    known: tuple[str, ...]
    others: tuple[str, ...]

    def pick(self, r: random.Random) -> str:
        return r.choice(self.others if r.random() < 0.2 else self.known)


STEMS = _List(
    _words(
        """
        app calc config geometry helpers math_ops notes numbers report shape store data users index cache worker order
        item timer ledger session robot recipe video season
        """
    ),
    _words(
        """
        archive beacon bundle daemon deploy filters gateway manifest network pipeline registry scanner telemetry vendor
        workflow
        """
    ),
)
FOLDERS = _List(_words("data docs lib src tests assets scripts"), _words("media pkg services share vault"))
KEYS = _List(
    _words(
        """
        city color depth host level limit mode owner port retries speed theme timeout name version size width weight
        budget region label status
        """
    ),
    _words(
        """
        backlog checksum cluster currency endpoint interval namespace prefix protocol quota replica secret shard tenant
        viewport workers
        """
    ),
)
WORDS = _List(
    _words(
        """
        amber bridge candle copper falcon forest garden lantern maple mirror silver velvet otter raven comet island
        castle hammer bottle ginger quiet rapid smooth
        """
    ),
    _words(
        """
        acorn badger canyon dagger ember feather glacier harvest jungle kettle lagoon nickel pebble quartz ribbon
        saddle umbrella walrus
        """
    ),
)
CITIES = _List(
    _words(
        "Athens Berlin Boston Cairo Dublin Lima Madrid Oslo Paris Rome Tokyo Vienna Lisbon Quito Perth Geneva Porto"
    ),
    _words("Ankara Brisbane Calgary Dakar Florence Hamburg Izmir Krakow Lyon Manila Nice Palermo Riga Turin Valencia"),
)
SKIES = ("clear", "cloudy", "foggy", "rainy", "sunny", "windy")


@dataclass(frozen=True)
class Names:
    """How the names of a task are drawn. `number` is a number as it is spelled; `path` takes the extensions."""

    stem: Callable[[random.Random], str]
    key: Callable[[random.Random], str]
    value: Callable[[random.Random], str]
    word: Callable[[random.Random], str]
    city: Callable[[random.Random], str]
    number: Callable[[random.Random, int], str]
    folder: Callable[[random.Random], str]

    def path(self, r: random.Random, *extensions: str) -> str:
        """A relative path, three in ten in a folder."""
        folder = self.folder(r) + "/" if r.random() < 0.3 else ""
        return f"{folder}{self.stem(r)}.{r.choice(extensions)}"

    def cities(self, r: random.Random, count: int) -> list[str]:
        """Cities that differ."""
        found: list[str] = []
        while len(found) < count:
            city = self.city(r)
            if city not in found:
                found.append(city)
        return found

    def settings(self, r: random.Random, lines: int, room: int = 10_000) -> dict[str, str]:
        """Keys with values: so many, or as fit into `room` characters."""
        found: dict[str, str] = {}
        used = 0
        while len(found) < lines:
            key, value = self.key(r), self.value(r)
            if key in found:  # a file can have more lines than there are keys
                key = f"{key}_{self.key(r)}"
            if key in found:
                continue
            used += len(key) + len(value) + 4
            if used > room:
                break
            found[key] = value
        return found

    def line(self, r: random.Random, most: int) -> str:
        """Words, some of them values."""
        return " ".join(self.value(r) if r.random() < 0.3 else self.word(r) for _ in range(r.randint(1, most)))


def _value(r: random.Random) -> str:
    word = WORDS.pick(r)
    return r.choice((str(r.randint(1, 9999)), word, CITIES.pick(r), f"{word}-{r.randint(1, 99)}"))


PLAIN = Names(
    stem=STEMS.pick,
    key=KEYS.pick,
    value=_value,
    word=WORDS.pick,
    city=CITIES.pick,
    number=lambda r, most: str(r.randint(2, most)),
    folder=FOLDERS.pick,
)
"""Common words."""


def coined(r: random.Random) -> str:
    """A word that is in no list: letters that seldom meet."""
    blocks = (r.choice("bdfgjkmqvxz") + r.choice(("ae", "io", "ou", "uy", "y")) + r.choice("bgkptxz") for _ in range(2))
    return "".join(blocks) + r.choice(("", "q", "sk", "wn"))


def _coined_stem(r: random.Random) -> str:
    word = coined(r)
    forms = (
        word,
        word.capitalize(),
        word.upper(),
        f"{word}-{r.randint(2, 999)}",
        f"{word}_{coined(r)}",
        f"{word}.v{r.randint(2, 40)}",
        f"{r.randint(10, 99)}-{word}-{coined(r)}",
        f".{word}",
    )
    return r.choice(forms)


def _coined_key(r: random.Random) -> str:
    word = coined(r)
    return r.choice((word, f"{word}_{coined(r)}", f"{word}{r.randint(2, 99)}", f"{word}-{coined(r)}"))


def _coined_value(r: random.Random) -> str:
    word = coined(r)
    forms = (
        word,
        word.capitalize(),
        f"{r.randint(0, 40)}.{r.randint(0, 99)}.{r.randint(0, 999)}",
        f"{r.randint(-90, 9000)}.{r.randint(1, 9999)}",
        f"20{r.randint(10, 99)}-{r.randint(1, 12):02}-{r.randint(1, 28):02}",
        f"https://{word}.example/{coined(r)}/{r.randint(1, 99)}",
        f"{word}@{coined(r)}.example",
        str(r.randint(10_000, 99_999_999)),
        f"0x{r.randrange(1 << 32):08x}",
        "".join(r.choice("abdeghkmnqrtABDEGHKMNQRT23456789") for _ in range(r.randint(6, 12))),
        f"{r.randint(0, 23)}:{r.randint(0, 59):02}:{r.randint(0, 59):02}",
        f"{word}:{r.randint(2, 99)}",
        f"{r.randint(1, 30)}.{r.randint(0, 30)}-rc{r.randint(1, 9)}",
        f"{r.randint(1, 9)}.{r.randint(10, 99)}e-{r.randint(2, 12)}",
        f"<{word}>",
    )
    return r.choice(forms)


def _coined_number(r: random.Random, most: int) -> str:
    """Longer than the others, or a decimal fraction."""
    return str(r.randint(1001, 99 * most)) if r.random() < 0.6 else f"{r.randint(0, most)}.{r.randint(1, 9)}5"


NOVEL = Names(
    stem=_coined_stem,
    key=_coined_key,
    value=_coined_value,
    word=coined,
    city=lambda r: coined(r).capitalize(),
    number=_coined_number,
    folder=coined,
)
"""Words, file names, versions, fractions, dates and addresses that are in no list of the training."""
