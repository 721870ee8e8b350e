"""A byte vocabulary with the special tokens of LFM2."""

from __future__ import annotations

import re

from agentloop.engine.bytevocab import ByteVocab

__all__ = ["LfmVocab"]

_SPELLINGS = (
    "<|pad|>",
    "<|startoftext|>",
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|tool_list_start|>",
    "<|tool_list_end|>",
    "<|tool_call_start|>",
    "<|tool_call_end|>",
    "<|tool_response_start|>",
    "<|tool_response_end|>",
    "<think>",
    "</think>",
)


class LfmVocab(ByteVocab):
    """As ByteVocab, for LFM2."""

    def __init__(self) -> None:
        super().__init__()
        self._special = dict(enumerate(_SPELLINGS, start=256))
        self._ids = {text: i for i, text in self._special.items()}
        self._pattern = re.compile("|".join(map(re.escape, _SPELLINGS)))
        self.end_of_turn = self._ids["<|im_end|>"]
