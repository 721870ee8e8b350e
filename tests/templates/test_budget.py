"""The reasoning budget: exact counts, no cut characters, room for the answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentloop.engine.bytevocab import ByteVocab
from agentloop.templates.budget import ForcedClose, ReasoningBudget

VOCAB = ByteVocab()
END = VOCAB.token_id("</think>")
assert END is not None


def drive(budget: ReasoningBudget, text: str, *, likely_at: int | None = None) -> tuple[list[int], list[ForcedClose]]:
    """Feed a reply as a model that wants to write `text` would; returns the tokens that stand there in the end."""
    tokens: list[int] = []
    answers: list[ForcedClose] = []
    phase = "reasoning"

    def accept(token: int) -> ForcedClose | None:
        nonlocal phase
        tokens.append(token)
        if token == END:
            phase = "content"
        return budget.accept(token, VOCAB.decode([token]), phase, end_is_likely=len(tokens) == likely_at)

    forced = budget.begin()
    wanted = VOCAB.encode(text, special=True)
    while True:
        if forced is not None:
            answers.append(forced)
            for token in forced.ids:
                assert accept(token) is None
            break
        if not wanted or phase != "reasoning":
            break
        mask = budget.allowed()
        token = wanted.pop(0)
        if mask is not None and not mask[token]:
            token = ord("a")
            while wanted and 0x80 <= wanted[0] < 0xC0:
                wanted.pop(0)
        forced = accept(token)
    return tokens, answers


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 5, 17, 64])
def test_never_more_than_the_limit_and_one_end(limit: int) -> None:
    tokens, answers = drive(ReasoningBudget(limit, VOCAB, soft=0), "x" * 200)
    assert tokens.count(END) == 1
    assert tokens.index(END) == limit
    assert [a.reason for a in answers] == ["budget"]
    assert VOCAB.decode(tokens).decode().endswith("</think>\n\n")


def test_a_reply_that_ends_in_time_is_left_alone() -> None:
    budget = ReasoningBudget(10, VOCAB, soft=0)
    tokens, answers = drive(budget, "12345678</think>\n\nanswer")
    assert not answers
    assert budget.closed
    assert budget.count == 8
    assert budget.room() is None
    assert tokens.count(END) == 1


def test_the_natural_end_right_at_the_limit_is_not_doubled() -> None:
    for n in range(1, 12):
        budget = ReasoningBudget(10, VOCAB, soft=0)
        tokens, _ = drive(budget, "y" * n + "</think>\n\nanswer")
        assert tokens.count(END) == 1
        assert tokens.index(END) <= 10


def test_the_closing_sentence_is_part_of_the_limit() -> None:
    tokens, (answer,) = drive(ReasoningBudget(40, VOCAB, close="Time to answer.", soft=0), "z" * 100)
    assert tokens.index(END) == 40
    assert VOCAB.decode(tokens).decode() == "z" * 23 + "\nTime to answer.\n</think>\n\n"
    assert answer.reason == "budget"


def test_a_closing_sentence_longer_than_the_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="closing text has 17 tokens, more than the budget of 16"):
        ReasoningBudget(16, VOCAB, close="Time to answer.")
    tokens, _ = drive(ReasoningBudget(17, VOCAB, close="Time to answer."), "z" * 100)
    assert VOCAB.decode(tokens).decode() == "\nTime to answer.\n</think>\n\n"


def test_a_sentence_end_in_the_zone_closes_earlier() -> None:
    budget = ReasoningBudget(100, VOCAB, soft=20)
    tokens, (answer,) = drive(budget, "q" * 85 + ". And on it goes, and on, and on")
    assert answer.reason == "soft_end"
    assert tokens.index(END) == 87  # 86 and a newline
    tokens, (answer,) = drive(ReasoningBudget(100, VOCAB, soft=20), "q" * 85 + "3.14 and so it goes on and on and on")
    assert (answer.reason, tokens.index(END)) == ("budget", 100)


def test_a_likely_end_in_the_zone_closes_earlier() -> None:
    tokens, (answer,) = drive(ReasoningBudget(100, VOCAB, soft=20), "q" * 300, likely_at=85)
    assert (answer.reason, tokens.index(END)) == ("soft_end", 86)
    _, (answer,) = drive(ReasoningBudget(100, VOCAB, soft=20), "q" * 300, likely_at=50)
    assert answer.reason == "budget"


def test_room_for_the_answer_lowers_the_limit() -> None:
    budget = ReasoningBudget(1000, VOCAB, soft=0, room=100, answer_room=60)
    tokens, (answer,) = drive(budget, "x" * 2000)
    assert answer.reason == "answer_room"
    assert 100 - len(tokens) >= 60
    assert tokens.index(END) == 37
    budget = ReasoningBudget(1000, VOCAB, close="Enough.", room=12)
    tokens, _ = drive(budget, "x" * 2000)
    assert tokens.index(END) == 0


def test_it_never_acts_in_a_call_or_an_answer() -> None:
    budget = ReasoningBudget(3, VOCAB)
    for phase in ("call", "content"):
        budget.rearm()
        assert all(budget.accept(97, b"a", phase) is None for _ in range(50))
        assert budget.count == 0
        assert budget.allowed() is None


def test_reasoning_that_is_opened_again_counts_on() -> None:
    budget = ReasoningBudget(5, VOCAB, soft=0)
    for _ in range(3):
        assert budget.accept(97, b"a", "reasoning") is None
    assert budget.accept(END, b"</think>", "content") is None
    answers = [budget.accept(97, b"a", "reasoning") for _ in range(4)]
    assert [a is not None for a in answers] == [True, False, False, False]


def test_rearmed_for_each_reply() -> None:
    budget = ReasoningBudget(6, VOCAB, soft=0)
    first = drive(budget, "x" * 30)[0]
    budget.rearm()
    assert drive(budget, "x" * 30)[0] == first


def test_room_never_reaches_past_a_change_of_course() -> None:
    budget = ReasoningBudget(50, VOCAB, soft=10)
    while not budget.closed:
        room = budget.room()
        assert room is not None
        for _ in range(max(room - 1, 0)):
            assert budget.accept(97, b"a", "reasoning") is None
            assert budget.allowed() is None
        budget.accept(97, b"a", "reasoning")
    assert budget.count <= 50


@given(st.text(min_size=30), st.integers(0, 30), st.sampled_from([None, "ok"]))
def test_no_character_is_cut(text: str, limit: int, close: str | None) -> None:
    text = text.encode("utf-8", "replace").decode()
    close = close if limit >= 4 else None
    tokens, _ = drive(ReasoningBudget(limit, VOCAB, close=close), text)
    if END in tokens:
        before = tokens[: tokens.index(END)]
        assert len(before) <= limit
        VOCAB.decode(before).decode("utf-8")  # raises on half a character


def test_without_a_mask_a_character_is_completed_first() -> None:
    budget = ReasoningBudget(3, VOCAB, soft=0)
    answers = [budget.accept(piece[0], piece, "reasoning") for piece in [b"a", b"\xe2", b"\x82", b"\xac"]]
    assert [a is not None for a in answers] == [False, False, False, True]


def test_a_model_without_the_tag_is_refused() -> None:
    with pytest.raises(ValueError, match="no single token"):
        ReasoningBudget(3, VOCAB, tag="<no such tag>")
    with pytest.raises(ValueError, match=">= 0"):
        ReasoningBudget(-1, VOCAB)


def test_at_a_limit_of_zero_only_the_end_is_allowed() -> None:
    mask = ReasoningBudget(0, VOCAB).allowed()
    assert mask is not None
    assert np.flatnonzero(mask).tolist() == [END]


def test_a_call_that_may_have_begun_is_not_cut() -> None:
    budget = ReasoningBudget(3, VOCAB, soft=0)
    fed = [budget.accept(97, b"a", "reasoning", in_draft=draft) for draft in (False, True, True, True, True, False)]
    assert [answer is not None for answer in fed] == [False, False, False, False, False, True]
    assert budget.count == 6
    budget.rearm()
    for _ in range(4):
        assert budget.accept(97, b"a", "reasoning", in_draft=True) is None
    assert budget.allowed() is None
    assert budget.accept(97, b"a", "call") is None
    assert budget.allowed() is None
    assert budget.room() is None
