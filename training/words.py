"""The lists that episodes draw from, and names made of letters, so that copying is learnt and not the lists."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from string import ascii_letters, ascii_lowercase, digits

__all__ = [
    "CITIES",
    "FOLDERS",
    "KEYS",
    "NAMES",
    "SKIES",
    "STEMS",
    "WORDS",
    "alike",
    "city",
    "file_path",
    "folder_name",
    "invented",
    "key",
    "related",
    "text_line",
    "value",
]


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
NAMES = _words(
    """
    Anna Ben Clara David Emma Felix Grace Hugo Ida Jonas Kate Leo Mia Noah Olga Paul Rosa Sam Tina Victor
    """
)
_ODD_FILES = _words(
    """
    README.md TODO.txt CHANGES.md LICENSE.txt my-notes.txt file2.txt config_v2.toml settings.local.toml notes.old.txt
    data-2024.txt test.txt a.txt setup.cfg tox.ini pyproject.toml
    """
)
_ODD_FOLDERS = _words(
    """
    src/lib src/core lib/net docs/api app/data config etc my-app project2 backup build logs old_files
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
_PIECES = _words(
    """
    ax be cho dw eg fly gu hy ij ka lum mo nyx ob pa qui ras sch te ux vy wo xe yl zan ff ll str ngs ph rth
    """
)
_SPOKEN = _words(
    """
    about abs absolute access add after again agent all already alternatives an answer argument arguments arithmetic
    as asked assert assistant assumptions at available back based become becomes before block both brief briefly bug
    but by bytes calculate calculator call called calls can cannot carefully change changed checked choose clarity
    clear coding column com complete compute conclusion connected consider considering consistency contains content
    copied copy correctness create cube current debug declared degrees denied description did digit direct directly
    directory disk distance divide do does done double each edit edited effort elaboration else empty end enough
    entries error evaluate even exact exactly example exist expression fail failed failing fails false file files
    final find first fix fixed focused foggy follow following for format found from function functions get give
    gives half has have held hello help helpful here how if important in info inner into invalid is it items its
    json keep knowledge language last like limited line lines list loaded logged look lost make maximum may me mean
    minimum minus missing moving much multiple multiply must my name natural need negate negative nested no normal
    not now number object occur odd of old on once one only open optional other parameter parameters pass passed path
    perimeter piece place plausible please plus position positive power prioritize properties provide put question
    read ready reasoning remainder reminder repair replace replacing reply request required response rest result
    retry return returned returns run same save saved say second see set setup sign snowy so solution span specified
    stands start started stay stays step stop stopped stormy string subtract suffix suite sum swap system tags take
    talks task tell test text that the their them then there they think thinking this through time times to took
    tool tools triple true type unknown unnecessary up update use valid validate warning was way weather what which
    with within without work write written wrong wrote you your zero
    """
)
_MARKS = _words(
    """
    <{0}> ${0} ~/{0}/{1} '{0}' `{0}` {0}:{1} {0}+{1} {0}*{1} {0}|{1} {0};{1} ({0}) [{0},{1}] {{{0}}}
    {0}&{1} {0}^{1} {0}\\{1} #{0} !{0} ?{0}={1} {0}... %{0}% {0}é ü{0} {0}ñ{1}
    """
)
_SIMPLE = re.compile(r"[A-Za-z0-9_]{3,12}")


def invented(r: random.Random) -> str:
    """A word that is in no list: parts of two that are, any letters, pieces that many such words share, or syllables.

    Parts of known words have tokens that no whole word has; a token that is never learnt is never copied.
    """
    x = r.random()
    if x < 0.06:
        word = invented(r)
        return word.upper() if x < 0.03 else word.capitalize()
    if x < 0.4:
        first, second = r.choice(_ALL), r.choice(_ALL)
        start, end = first[: r.randint(1, min(6, len(first)))], second[-r.randint(1, min(6, len(second))) :]
        if x < 0.15:
            middle = r.choice(_ALL)
            at = r.randrange(len(middle))
            return start + middle[at : at + r.randint(2, 5)] + end
        return start + end
    if x < 0.55:
        return "".join(r.choice(ascii_lowercase) for _ in range(r.randint(3, 8)))
    if x < 0.75:
        return "".join(r.choice(_PIECES) for _ in range(r.randint(2, 4)))
    syllables = (r.choice(_ONSETS) + r.choice(_VOWELS) for _ in range(r.randint(2, 3)))
    return "".join(syllables) + r.choice(("", "n", "r", "x"))


def related(r: random.Random, word: str) -> str:
    """Another word that begins or ends like this one; what was copied of it does not tell yet which of them it is."""
    if not _SIMPLE.fullmatch(word):
        return invented(r)
    at = r.randint(1, len(word) - 1)
    forms = (
        word[:at] + r.choice(_PIECES),
        word[:at] + invented(r),
        r.choice(_PIECES) + word[at:],
        word[:at] + r.choice(_PIECES) + word[at:],
        f"{word}_{r.choice(KEYS)}",
        f"{r.choice(KEYS)}_{word}",
        f"{word}{r.randint(2, 99)}",
    )
    return r.choice(forms)


def key(r: random.Random) -> str:
    """The name of a setting."""
    x = r.random()
    if x < 0.42:
        return r.choice(KEYS)
    if x < 0.54:
        return f"{r.choice(KEYS)}_{r.choice(KEYS)}"
    if x < 0.68:
        return r.choice(_ALL)
    if x < 0.74:
        return f"{r.choice(_ALL)}_{r.choice(_ALL)}"
    if x < 0.88:
        return invented(r)
    return r.choice((_numbered, _dashed, _camel, _dotted, _two_invented))(r)


def value(r: random.Random) -> str:
    """The value of a setting: six in ten of the usual kinds, the rest invented or odd."""
    x = r.random()
    if x < 0.04:
        return str(alike(r))
    if x < 0.30:
        return str(r.randint(0, 10 ** r.randint(1, 5) - 1))
    if x < 0.50:
        return _word(r)
    if x < 0.58:
        return f"{_word(r)}-{r.randint(1, 99)}"
    if x < 0.66:
        return r.choice(CITIES)
    if x < 0.78:
        return invented(r)
    return r.choice(_ODD_VALUES)(r)


def city(r: random.Random) -> str:
    """A city, one in five invented."""
    return invented(r).capitalize() if r.random() < 0.2 else r.choice(CITIES)


def folder_name(r: random.Random) -> str:
    """A folder, four in ten with another, an invented or odd name."""
    x = r.random()
    if x < 0.60:
        return r.choice(FOLDERS)
    return r.choice(_ALL) if x < 0.75 else r.choice(_ODD_FOLDERS) if x < 0.87 else invented(r)


def file_path(r: random.Random, *extensions: str) -> str:
    """A relative path, four in ten in a folder; half the names are from other lists, invented or odd."""
    folder = folder_name(r) + "/" if r.random() < 0.4 else ""
    extension = r.choice(extensions or EXTENSIONS)
    x = r.random()
    if x < 0.06:
        odd = [name for name in _ODD_FILES if name.endswith("." + extension)]
        if odd:
            return folder + r.choice(odd)
    stem = r.choice(STEMS)
    if 0.06 <= x < 0.20:
        stem = invented(r)
    elif 0.20 <= x < 0.35:
        forms = (_numbered, _joined) if extension == "py" else (_numbered, _joined, _dashed, _two_invented, _versioned)
        stem = r.choice(forms)(r)
    elif x < 0.50:
        stem = r.choice(_ALL)
    return f"{folder}{stem}.{extension}"


def text_line(r: random.Random, most: int = 7) -> str:
    """Words and values, `most` at most."""
    count = r.randint(1, most)
    x = r.random()
    if x < 0.1:
        return " ".join(invented(r) for _ in range(count))
    if x < 0.13 and count > 1:
        return _sentence(r, count)
    if x < 0.22:  # a word stands there twice or more
        pool = [_word(r), value(r), r.choice(WORDS)]
        return " ".join(r.choices(pool, k=count))
    return " ".join(r.choice([_word(r), r.choice(WORDS), value(r)]) for _ in range(count))


def _sentence(r: random.Random, count: int) -> str:
    """Words as people write them down: a capital at the beginning, a sign at the end."""
    words = [r.choice((_word(r), r.choice(_SPOKEN), r.choice(NAMES))) for _ in range(count)]
    if count > 3 and r.random() < 0.3:
        words[count // 2] += ","
    text = " ".join(words)
    return text[0].upper() + text[1:] + r.choice("...!?:")


def alike(r: random.Random) -> int:
    """A number of two to five digits, of which at most two differ: what is copied of it does not tell where it ends."""
    digits_of_it = r.sample("0123456789", 2)
    return int("".join(r.choices(digits_of_it, weights=(3, 1), k=r.randint(2, 5))))


def _word(r: random.Random) -> str:
    """Three in four from the list, else one that prompts and results are made of, now and then in capitals."""
    if r.random() < 0.75:
        return r.choice(WORDS)
    word = r.choice(_SPOKEN)
    return r.choice((word, word, word, word.upper(), word.capitalize()))


def _numbered(r: random.Random) -> str:
    return r.choice(KEYS + STEMS) + r.choice(("", "_", "_v")) + str(r.randint(1, 99))


def _joined(r: random.Random) -> str:
    return f"{r.choice(STEMS)}_{r.choice(STEMS)}"


def _dashed(r: random.Random) -> str:
    return f"{r.choice(WORDS)}-{r.choice(STEMS)}"


def _dotted(r: random.Random) -> str:
    return f"{r.choice(STEMS)}.{r.choice(KEYS)}"


def _two_invented(r: random.Random) -> str:
    return invented(r) + r.choice("_-") + r.choice((invented(r), str(r.randint(1, 999))))


def _versioned(r: random.Random) -> str:
    return f"{invented(r)}.v{r.randint(1, 40)}" if r.random() < 0.5 else invented(r).capitalize()


def _camel(r: random.Random) -> str:
    return r.choice(WORDS) + r.choice(STEMS).replace("_", "").capitalize()


_ALL = tuple(word.lower() for word in (*STEMS, *KEYS, *WORDS, *CITIES, *NAMES, *_SPOKEN))


def _marked(r: random.Random) -> str:
    """A word with signs around or inside it, as expressions, tags and variables have them."""
    word, other = invented(r), r.choice((invented(r), str(r.randint(0, 99))))
    return r.choice(_MARKS).format(word, other)


_ODD_VALUES: tuple[Callable[[random.Random], str], ...] = (
    lambda r: f"{r.randint(0, 99)}.{r.randint(1, 999)}",
    lambda r: f"{r.randint(0, 9)}.{r.randint(0, 20)}.{r.randint(0, 9)}",
    lambda r: f"{r.randint(0, 40)}.{r.randint(0, 99)}.{r.randint(0, 999)}",
    lambda r: f"{r.randint(-99, 9999)}.{r.randint(1, 9999)}",
    lambda r: str(r.randint(10_000, 99_999_999)),
    lambda r: f"20{r.randint(10, 29)}-{r.randint(1, 12):02}-{r.randint(1, 28):02}",
    lambda r: r.choice(("true", "false")),
    lambda r: f"https://{invented(r)}.{r.choice(('com', 'org', 'net'))}/{r.choice(WORDS)}",
    lambda r: f"https://{invented(r)}.net/{invented(r)}/{r.randint(1, 99)}",
    lambda r: f'"{r.choice(WORDS)} {r.choice(WORDS)}"',
    lambda r: f'"{invented(r)}"',
    lambda r: invented(r).capitalize(),
    lambda r: f"{invented(r)}@{invented(r)}.com",
    lambda r: f"{r.choice(NAMES).lower()}@{invented(r)}.org",
    lambda r: r.choice(WORDS).capitalize() + r.choice(STEMS).replace("_", "").capitalize(),
    lambda r: f"0x{r.randrange(16**4):04x}" if r.random() < 0.6 else f"0x{r.randrange(16**8):08x}",
    lambda r: f"{r.randint(1, 60)}{r.choice(('s', 'ms', 'MB', 'kg', '%'))}",
    lambda r: f"-{r.randint(1, 999)}",
    lambda r: f"/{r.choice(FOLDERS)}/{invented(r)}",
    lambda r: f"{r.choice(NAMES)} {invented(r).capitalize()}",
    lambda r: f"10.0.{r.randint(0, 255)}.{r.randint(1, 254)}",
    _marked,
    _marked,
    lambda r: "".join(r.choice(ascii_letters + digits) for _ in range(r.randint(5, 12))),
    lambda r: f"{r.randint(0, 23)}:{r.randint(0, 59):02}",
)
