"""Text to token ids and back.

llama.cpp's tokenizer with `parse_special=False` still yields the ids of USER_DEFINED tokens (`<think>`, `<tool_call>`
and their like): a tool result could close the model's reasoning. `encode` therefore cuts data inside every string that
spells such a token and encodes the parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._native import NativeModel

__all__ = ["Vocab"]

_CONTROL, _USER_DEFINED = 8, 16


class Vocab:
    """The vocabulary of one model. Ids are ints in [0, n_tokens). Safe to use from any thread."""

    def __init__(self, model: NativeModel) -> None:
        self._model = model
        self._n = model.n_vocab
        attributes = model.token_attributes()
        flagged = (attributes & (_CONTROL | _USER_DEFINED)).nonzero()[0].tolist()
        spelled = {i: model.piece(i).decode("utf-8", "replace") for i in flagged}
        self._special = {i: text for i, text in spelled.items() if text}
        self._ids = {text: i for i, text in reversed(self._special.items())}
        self._eog = model.eog_ids()
        self._pieces: dict[int, bytes] = {}
        longest_first = sorted(self._ids, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    @property
    def n_tokens(self) -> int:
        return self._n

    @property
    def eog(self) -> frozenset[int]:
        """Ids that end a generation."""
        return self._eog

    def special_tokens(self) -> Mapping[int, str]:
        """Every control and user-defined id with its spelling."""
        return MappingProxyType(self._special)

    def token_id(self, text: str) -> int | None:
        """The id of the special token that is spelled exactly `text`, or None."""
        return self._ids.get(text)

    def encode(self, text: str, special: bool = False) -> list[int]:
        """Ids of `text`. With special=False none of `special_tokens()` comes out, whatever the text spells; with
        special=True every such spelling becomes its id. A lone surrogate becomes `?`."""
        if special:
            return self.encode_parts([(text, True)])
        ids: list[int] = []
        start, seek = 0, 0
        while self._pattern is not None and (match := self._pattern.search(text, seek)):
            # A one-character special token cannot be cut; its bytes go in one by one below.
            cut = match.start() + 1
            ids += self._plain(text[start:cut])
            start = seek = cut
        return ids + self._plain(text[start:])

    def encode_parts(self, parts: Iterable[tuple[str, bool]]) -> list[int]:
        """Ids of joined (text, is_scaffold) parts. Special tokens are recognised in scaffold parts only. The plain text
        between two of them is encoded as one piece, data and scaffold together, as a tokenizer would see the whole."""
        ids: list[int] = []
        plain: list[str] = []

        def flush() -> None:
            if plain:
                ids.extend(self.encode("".join(plain)))
                plain.clear()

        for text, is_scaffold in parts:
            if not is_scaffold or self._pattern is None:
                plain.append(text)
                continue
            start = 0
            for match in self._pattern.finditer(text):
                if match.start() > start:
                    plain.append(text[start : match.start()])
                flush()
                ids.append(self._ids[match.group()])
                start = match.end()
            if start < len(text):
                plain.append(text[start:])
        flush()
        return ids

    def decode(self, ids: Sequence[int]) -> bytes:
        """Bytes of `ids`, special tokens spelled out. May end inside a UTF-8 character."""
        return b"".join(map(self.piece, ids))

    def piece(self, token: int) -> bytes:
        """Bytes of one id. ValueError outside [0, n_tokens)."""
        piece = self._pieces.get(token)
        if piece is None:
            if not 0 <= token < self._n:
                raise ValueError(f"token id {token} is outside the vocabulary of {self._n}")
            piece = self._pieces[token] = self._model.piece(token)
        return piece

    def _plain(self, text: str) -> list[int]:
        if not text:
            return []
        ids = self._model.tokenize(text.encode("utf-8", "replace"), False)
        if self._special and not self._special.keys().isdisjoint(ids):
            if len(text) > 1:  # only a one-character special token gets here: isolate it
                return [i for character in text for i in self._plain(character)]
            return [i for i in ids if i not in self._special]
        return ids
