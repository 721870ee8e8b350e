"""Strings of LFM2 calls as terminals of a grammar: `'text'` as the template writes it, and literals of Python.

The template does not escape, so text between single quotes may hold quotes. Readers take a string to its end at the
first quote before which its own quotes come in pairs and behind which a call can go on; an apostrophe, between two
letters or digits, counts for none. The terminals let through what is read so and nothing else: quotes inside come in
pairs, and what stands behind the first of a pair is not what may follow a string. Any other text can be written as a
literal in double quotes.
"""

from __future__ import annotations

__all__ = ["CONTENT", "literal_text"]

_WORD, _OTHER = r"[\p{L}\p{N}]", r"[^'\p{L}\p{N}]"
_RUN = f"{_WORD}('{_WORD})*"  # with its apostrophes
_ANY = f"({_OTHER}|{_RUN})*"

# Text without quotes that count. A quote between two words would be an apostrophe, so what stands before it ends, or
# what stands behind it begins, with something else (or is empty).
_PLAIN = {
    ("any", "other"): f"({_ANY}{_OTHER})?",
    ("any", "word"): f"{_ANY}{_RUN}",
    ("other", "other"): f"({_OTHER}({_ANY}{_OTHER})?)?",
    ("other", "word"): f"{_OTHER}{_ANY}{_RUN}",
}
_FOLLOWS = r"/\s*(\)|,\s*[^()\[\]{},'\x22\s])(?s:.*)/"  # how that begins which may follow a string: `)` or `, key`


def _name(start: str, end: str) -> str:
    return f"{start[0]}{end[0]}".upper()


def _content() -> str:
    """The terminal CONTENT and those that it is made of."""
    lines = [f"FOLLOWS: {_FOLLOWS}"]
    for (start, end), regex in _PLAIN.items():
        lines.append(f"OUT{_name(start, end)}: /(?s:{regex})/")
        lines.append(f"IN{_name(start, end)}: /(?s:{regex})/ & ~FOLLOWS")
    for before in ("other", "word"):
        for behind in ("other", "word"):
            inner = "any" if before == "other" else "other"
            ways = (
                f'"\'" IN{_name(inner, "other")} "\'" OUT{_name("any", behind)}',
                f'"\'" IN{_name(inner, "word")} "\'" OUT{_name("other", behind)}',
            )
            lines.append(f"PAIR{_name(before, behind)}: {' | '.join(ways)}")
    lines.append("PAIRSO: (PAIROO | PAIROW PAIRWW* PAIRWO)* (PAIROW PAIRWW*)?")
    lines.append("PAIRSW: (PAIRWW | PAIRWO PAIROO* PAIROW)* (PAIRWO PAIROO*)?")
    lines.append(f"CONTENT: OUT{_name('any', 'other')} PAIRSO | OUT{_name('any', 'word')} PAIRSW")
    return "\n".join(lines)


CONTENT = _content()
"""Lines of a grammar, in the Lark dialect of llguidance, with the terminal CONTENT: what may stand between the single
quotes that the template writes."""

_ESCAPES = r"\\(['\x22\\nrt]|x[0-9a-f]{2}|u([0-9a-ce-f][0-9a-f]{3}|d[0-7][0-9a-f]{2})|U00(0[0-9a-f]|10)[0-9a-f]{4})"


def literal_text(shortest: int = 0, longest: int | None = None) -> str:
    """A terminal for the string literals of Python with so many characters."""
    times = f"{{{shortest},{'' if longest is None else longest}}}"
    single, double = (rf"([^{quote}\\\n\r]|{_ESCAPES}){times}" for quote in ("'", r"\x22"))
    return rf"/'{single}'|\x22{double}\x22/"
