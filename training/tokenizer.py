"""The tokenizer: byte-level BPE with the `qwen35` pre-tokenizer of llama.cpp, trained on episodes.

A word is cut in the same places wherever it stands. The pre-tokenizer leaves the space or the sign before a word on it,
and common BPE then cuts ` karovin` and `/karovin` in different ways, so that to copy a name means to spell it anew.
Here words are learnt without what stands before them; merges with it come last and touch the first piece alone.

Ids: first the merges' vocabulary, then the special tokens, then padding up to the size of the embedding. The special
tokens of the chat format are the same as in the models that it comes from.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from .episodes import episode, segments
from .functions import FUNCTIONS
from .words import CITIES, FOLDERS, KEYS, STEMS, WORDS

__all__ = ["CONTROL", "SPECIAL", "encode", "load_tokenizer", "new_tokenizer", "train_tokenizer"]

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
SPECIAL = (*CONTROL, "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")

_SPLIT = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|"
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_BARE = _SPLIT.replace(r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+", r"[\p{L}\p{M}]+")
_WORDS = 0.8  # share of the merges that make words; the others put a sign before one
_TAG = re.compile("|".join(map(re.escape, SPECIAL)))


def train_tokenizer(path: Path, *, vocabulary: int = 2048, episodes: int = 6000) -> Tokenizer:
    """Train on the episodes of seeds of their own and write `path` (the JSON of the `tokenizers` package)."""
    texts = list(_texts(episodes))
    size = vocabulary - len(SPECIAL) - 7
    words = new_tokenizer(cut=_BARE)
    trainer = trainers.BpeTrainer(
        vocab_size=256 + round((size - 256) * _WORDS),
        special_tokens=[],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    words.train_from_iterator(texts, trainer)
    state = json.loads(words.to_str())["model"]
    ids, merges = state["vocab"], [(left, right) for left, right in state["merges"]]
    for prefix, piece in _prefixed(texts, words, size - len(ids)):
        ids[prefix + piece] = len(ids)
        merges.append((prefix, piece))
    tokenizer = new_tokenizer(ids, merges)
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.save(str(path))
    return tokenizer


def _prefixed(texts: list[str], words: Tokenizer, most: int) -> list[tuple[str, str]]:
    """The commonest words of one piece with a sign before them: pairs of the sign and the piece. Names are left out:
    one form of each is easier to copy."""
    counts: Counter[str] = Counter()
    splitter: Any = new_tokenizer().pre_tokenizer
    for text in texts:
        counts.update(chunk for chunk, _ in splitter.pre_tokenize_str(text))
    names = {part for word in (*STEMS, *KEYS, *WORDS, *CITIES, *FOLDERS, *FUNCTIONS) for part in word.split("_")}
    pieces: dict[tuple[str, str], int] = {}
    for chunk, count in sorted(counts.items()):
        cut = list(words.encode(_plain(chunk)).tokens)
        if (
            len(cut) == 2
            and len(cut[0]) == 1
            and len(cut[1]) > 1
            and not _plain(cut[0]).isalnum()
            and cut[1] not in names
        ):
            pieces[cut[0], cut[1]] = count
    return sorted(pieces, key=lambda pair: (-pieces[pair], pair))[:most]


def _plain(chunk: str) -> str:
    """The text of a chunk of byte-level characters."""
    return str(decoders.ByteLevel().decode([chunk]))


def new_tokenizer(
    vocabulary: dict[str, int] | None = None, merges: list[tuple[str, str]] | None = None, cut: str = _SPLIT
) -> Tokenizer:
    """Byte-level BPE with our pre-tokenizer; empty, or with this vocabulary. Special tokens are added by the caller."""
    tokenizer = Tokenizer(models.BPE(vocabulary, merges) if vocabulary else models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(cut), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def load_tokenizer(path: Path) -> Tokenizer:
    return Tokenizer.from_file(str(path))


def encode(tokenizer: Tokenizer, parts: Iterable[tuple[str, bool]]) -> list[int]:
    """Ids of (text, is_scaffold) parts as the engine encodes them: special tokens in scaffold only."""
    tokenizer.encode_special_tokens = True  # as text, that is; those of the scaffold are found here
    texts: list[str | int] = []
    for text, is_scaffold in parts:
        if not is_scaffold:
            texts.append(text)
            continue
        start = 0
        for match in _TAG.finditer(text):
            texts += [text[start : match.start()], tokenizer.token_to_id(match.group()) or 0]
            start = match.end()
        texts.append(text[start:])
    return _joined(tokenizer, texts)


def _joined(tokenizer: Tokenizer, parts: Sequence[str | int]) -> list[int]:
    ids: list[int] = []
    plain = ""
    for part in parts:
        if isinstance(part, str):
            plain += part
            continue
        ids += tokenizer.encode(plain).ids if plain else []
        ids.append(part)
        plain = ""
    return ids + (tokenizer.encode(plain).ids if plain else [])


def _texts(count: int) -> Iterator[str]:
    """The plain pieces between special tokens; one episode in eight with its system block."""
    for number in range(count):
        pieces = segments(episode(f"tokenizer {number}"), with_system=number % 8 == 0)
        yield from _TAG.split("".join(piece.text for piece in pieces))
