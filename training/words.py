"""The lists that episodes draw from, and names made of letters, so that copying is learnt and not the lists."""

from __future__ import annotations

import random

__all__ = ["CITIES", "FOLDERS", "KEYS", "SKIES", "STEMS", "WORDS", "file_path", "invented", "key", "value"]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


STEMS = _words(
    """
    app main calc server config notes data users report index utils store engine parser router model cache queue
    worker client order price stock item cart login token mailer logger timer shape math_ops geometry text_tools
    numbers helpers billing invoice ledger account profile session event sensor robot planet travel recipe music
    photo video player game score team league season
    """
)
KEYS = _words(
    """
    port host timeout retries name owner version color city country level mode theme limit size width height depth
    speed weight price count total budget user email region zone key label title author year month day status
    priority rate
    """
)
WORDS = _words(
    """
    red blue green amber violet silver golden quiet loud rapid slow bright dark warm cold fresh sharp smooth round
    tiny giant river mountain forest desert ocean island valley meadow garden bridge tower castle harbor market
    station village lantern mirror window ladder hammer anchor compass engine rocket satellite comet nebula galaxy
    planet orbit signal copper iron marble cotton velvet paper pencil basket bottle candle carpet falcon tiger otter
    panda raven salmon turtle rabbit maple cedar willow bamboo orchid lotus clover ginger pepper lemon mango cherry
    papaya almond walnut honey butter cheese coffee cocoa
    """
)
CITIES = _words(
    """
    Paris Rome Berlin Madrid Lisbon Vienna Prague Warsaw Dublin Oslo Helsinki Athens Cairo Tokyo Osaka Seoul Beijing
    Delhi Mumbai Lima Bogota Quito Havana Boston Denver Seattle Austin Chicago Toronto Sydney Perth Nairobi Lagos
    Accra Tunis Zurich Geneva Milan Naples Porto
    """
)
SKIES = _words(
    """
    sunny cloudy rainy windy foggy snowy clear stormy
    """
)
FOLDERS = _words(
    """
    src lib docs tests data assets scripts examples
    """
)
EXTENSIONS = _words(
    """
    py txt md toml json cfg
    """
)
_ONSETS = _words(
    """
    b c d f g h k l m n p r s t v w z br cr dr gr pl st tr
    """
)
_VOWELS = _words(
    """
    a e i o u
    """
)


def invented(r: random.Random) -> str:
    """A word that is in no list: two or three syllables."""
    syllables = (r.choice(_ONSETS) + r.choice(_VOWELS) for _ in range(r.randint(2, 3)))
    return "".join(syllables) + r.choice(("", "n", "r", "x"))


def key(r: random.Random) -> str:
    """The name of a setting."""
    x = r.random()
    if x < 0.7:
        return r.choice(KEYS)
    if x < 0.85:
        return f"{r.choice(KEYS)}_{r.choice(KEYS)}"
    return invented(r)


def value(r: random.Random) -> str:
    """The value of a setting."""
    x = r.random()
    if x < 0.40:
        return str(r.randint(0, 10 ** r.randint(1, 5) - 1))
    if x < 0.62:
        return r.choice(WORDS)
    if x < 0.74:
        return f"{r.choice(WORDS)}-{r.randint(1, 99)}"
    if x < 0.86:
        return r.choice(CITIES)
    return invented(r)


def file_path(r: random.Random, *extensions: str) -> str:
    """A relative path, four in ten in a folder; one name in eight is invented."""
    folder = r.choice(FOLDERS) + "/" if r.random() < 0.4 else ""
    stem = invented(r) if r.random() < 0.12 else r.choice(STEMS)
    return f"{folder}{stem}.{r.choice(extensions or EXTENSIONS)}"
