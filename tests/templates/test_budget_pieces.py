"""Budgets where tokens are no characters: tokens without bytes and parts of characters, in any order."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from itertools import cycle, islice

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentloop.templates.budget import ForcedClose, ReasoningBudget
from agentloop.templates.lfm2_reply import LfmReader
from agentloop.templates.reply import ReplyReader
from tests.padded_vocab import PAD, PaddedVocab

VOCAB = PaddedVocab()
END = VOCAB.token_id("</think>")
assert END is not None
EURO = [0xE2, 0x82, 0xAC]
PIECES = [PAD, PAD, 0xC3, 0xE2, 0xF0, 0x80, 0xBF, ord("a"), ord("."), ord(" "), ord("\n"), ord("7")]


def is_whole(data: bytes) -> bool:
    """No character at the end of `data` waits for more bytes."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return not decoder.getstate()[0]


def reason(
    budget: ReasoningBudget,
    wanted: Sequence[int],
    *,
    masked: bool = True,
    likely: Sequence[bool] = (False,),
    asks: bool = True,
) -> tuple[list[int], ForcedClose | None]:
    """A model that wants to reason in these tokens, again and again, and takes what is allowed; ends at a close."""
    tokens: list[int] = []
    forced = budget.begin() if asks else None
    for token, is_likely in islice(zip(cycle(wanted), cycle(likely), strict=False), 300):
        if forced is not None:
            break
        mask = budget.allowed() if masked else None
        if mask is not None and not mask[token]:
            token = next(i for i in (*wanted, PAD, *np.flatnonzero(mask).tolist()) if mask[i])
        if token == END:
            return tokens, None
        tokens.append(token)
        forced = budget.accept(token, VOCAB.decode([token]), "reasoning", end_is_likely=is_likely)
    return tokens, forced


@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=12),
    st.integers(0, 24),
    st.sampled_from([None, 0, 3]),
    st.sampled_from([None, "ok"]),
    st.lists(st.booleans(), min_size=1, max_size=4),
    st.booleans(),
)
@example([0xE2, PAD, 0x82, 0xAC], 3, 0, None, [False], True)
@example([ord("a"), 0xF0, PAD, PAD, PAD], 5, 0, None, [False], True)
@example([ord("a")], 1, None, None, [False], False)
def test_no_tokens_pass_the_limit_or_cut_a_character(
    wanted: list[int], limit: int, soft: int | None, close: str | None, likely: list[bool], asks: bool
) -> None:
    budget = ReasoningBudget(limit, VOCAB, soft=soft, close=close if limit >= 4 else None)
    tokens, forced = reason(budget, wanted, likely=likely, asks=asks)
    before = len(tokens) + (list(forced.ids).index(END) if forced else 0)
    assert before <= limit
    if forced is not None:
        assert is_whole(VOCAB.decode(tokens))


@pytest.mark.parametrize("at", range(4))
def test_a_token_without_bytes_inside_a_character_counts_like_any_other(at: int) -> None:
    wanted = [*EURO[:at], PAD, *EURO[at:]]
    for limit in range(1, 9):
        tokens, forced = reason(ReasoningBudget(limit, VOCAB, soft=0), wanted)
        assert len(tokens) <= limit
        assert forced is None or is_whole(VOCAB.decode(tokens))


def test_a_character_that_has_begun_must_go_on_in_time() -> None:
    budget = ReasoningBudget(3, VOCAB, soft=0)
    assert budget.accept(0xE2, b"\xe2", "reasoning") is None
    mask = budget.allowed()
    assert mask is not None
    assert not mask[PAD]
    assert not mask[0xF0]
    assert mask[0x82]
    assert mask[ord("a")]  # it breaks the character off, and leaves nothing unfinished
    roomy = ReasoningBudget(4, VOCAB, soft=0)
    roomy.accept(0xE2, b"\xe2", "reasoning")
    mask = roomy.allowed()
    assert mask is not None
    assert mask[PAD]


def test_only_tokens_without_bytes_are_reasoning_too() -> None:
    for limit in (1, 2, 5):
        tokens, forced = reason(ReasoningBudget(limit, VOCAB, soft=0), [PAD])
        assert forced is not None
        assert forced.reason == "budget"
        assert len(tokens) + forced.ids.index(END) == limit


def test_a_sentence_end_is_seen_behind_tokens_without_bytes() -> None:
    wanted = [*b"q" * 78, ord("."), *[PAD] * 50]
    tokens, forced = reason(ReasoningBudget(100, VOCAB, soft=20), wanted)
    assert forced is not None
    assert forced.reason == "soft_end"
    assert len(tokens) == 100 - 20 - 1  # the zone begins where the newline and the end of reasoning still fit


def test_a_likely_end_never_closes_inside_a_character() -> None:
    wanted = [*b"q" * 85, 0xE2, PAD, PAD, 0x82, PAD, 0xAC]
    tokens, forced = reason(ReasoningBudget(200, VOCAB, soft=120), wanted, likely=[False] * 85 + [True] * 300)
    assert forced is not None
    assert forced.reason == "soft_end"
    assert len(tokens) == len(wanted)


@pytest.mark.parametrize("wanted", [[0xF0, PAD], [0xF0], [0xE2, PAD, PAD, PAD]])
def test_an_engine_without_masks_is_at_most_three_tokens_late(wanted: list[int]) -> None:
    tokens, forced = reason(ReasoningBudget(5, VOCAB, soft=0), wanted, masked=False)
    assert forced is not None
    assert len(tokens) <= 5 + 3


@pytest.mark.parametrize("opener", ["<tool_call>", "<|tool_call_start|>"])
def test_a_call_that_never_shows_its_name_is_text_at_last(opener: str) -> None:
    """Tokens without bytes cannot keep a budget waiting for the name of a call."""
    special = {1: "<think>", 2: "</think>", 3: opener, 5: "<|im_end|>"}
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
    reader = ReplyReader(special, tools) if opener == "<tool_call>" else LfmReader(special, tools)
    if opener != "<tool_call>":
        reader.feed(1, b"<think>")
    reader.feed(0, b"Hm ")
    reader.feed(3, opener.encode())
    assert reader.in_draft
    for _ in range(1000):
        reader.feed(0, b"")
    assert not reader.in_draft
    assert reader.phase == "reasoning"
    assert opener in reader.finish("length").reasoning
