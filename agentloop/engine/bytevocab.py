"""ByteVocab: a vocabulary of 256 bytes and the special tokens of the Qwen family, for engines without a model file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

__all__ = ["ByteVocab"]

_SPELLINGS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)


class ByteVocab:
    """Ids 0 to 255 are bytes; the special tokens follow. Satisfies the engine seam's VocabLike."""

    def __init__(self) -> None:
        self._special = dict(enumerate(_SPELLINGS, start=256))
        self._ids = {text: i for i, text in self._special.items()}
        self._pattern = re.compile("|".join(map(re.escape, _SPELLINGS)))
        self.end_of_turn = self._ids["<|im_end|>"]

    @property
    def n_tokens(self) -> int:
        return 256 + len(self._special)

    @property
    def eog(self) -> frozenset[int]:
        return frozenset((self.end_of_turn, self._ids["<|endoftext|>"]))

    def encode(self, text: str, special: bool = False) -> list[int]:
        """A lone surrogate becomes `?`."""
        return self.encode_parts([(text, special)])

    def encode_parts(self, parts: Iterable[tuple[str, bool]]) -> list[int]:
        """Special tokens are recognised in scaffold parts only."""
        ids: list[int] = []
        for text, is_scaffold in parts:
            start = 0
            for match in self._pattern.finditer(text) if is_scaffold else ():
                ids += text[start : match.start()].encode("utf-8", "replace")
                ids.append(self._ids[match.group()])
                start = match.end()
            ids += text[start:].encode("utf-8", "replace")
        return ids

    def decode(self, ids: Sequence[int]) -> bytes:
        """Bytes of `ids`, special tokens spelled out."""
        return b"".join(map(self.piece, ids))

    def piece(self, token: int) -> bytes:
        """Bytes of one id. ValueError outside [0, n_tokens)."""
        if 0 <= token < 256:
            return bytes((token,))
        if token not in self._special:
            raise ValueError(f"token id {token} is outside the vocabulary of {self.n_tokens}")
        return self._special[token].encode()

    def token_id(self, text: str) -> int | None:
        """The id of the special token that is spelled exactly `text`, or None."""
        return self._ids.get(text)

    def special_tokens(self) -> Mapping[int, str]:
        """Every special id with its spelling."""
        return MappingProxyType(self._special)
