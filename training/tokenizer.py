"""The tokenizer: byte-level BPE with the `qwen35` pre-tokenizer of llama.cpp, trained on episodes.

Ids: first the merges' vocabulary, then the special tokens, then padding up to the size of the embedding. The special
tokens of the chat format are the same as in the models that it comes from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from .episodes import episode, segments

__all__ = ["CONTROL", "SPECIAL", "encode", "load_tokenizer", "new_tokenizer", "train_tokenizer"]

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
SPECIAL = (*CONTROL, "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")

_SPLIT = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|"
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_TAG = re.compile("|".join(map(re.escape, SPECIAL)))


def train_tokenizer(path: Path, *, vocabulary: int = 2048, episodes: int = 6000) -> Tokenizer:
    """Train on the episodes of seeds of their own and write `path` (the JSON of the `tokenizers` package)."""
    tokenizer = new_tokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(SPECIAL) - 7,
        special_tokens=[],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(episodes), trainer)
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.save(str(path))
    return tokenizer


def new_tokenizer(vocabulary: dict[str, int] | None = None, merges: list[tuple[str, str]] | None = None) -> Tokenizer:
    """Byte-level BPE with our pre-tokenizer; empty, or with this vocabulary. Special tokens are added by the caller."""
    tokenizer = Tokenizer(models.BPE(vocabulary, merges) if vocabulary else models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def load_tokenizer(path: Path) -> Tokenizer:
    return Tokenizer.from_file(str(path))


def encode(tokenizer: Tokenizer, parts: Iterable[tuple[str, bool]]) -> list[int]:
    """Ids of (text, is_scaffold) parts as the engine encodes them: special tokens in scaffold only."""
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
