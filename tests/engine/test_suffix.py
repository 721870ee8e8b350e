"""The suffix drafter alone: its matches are real, it goes on after an edit, and it never reads the history again."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentloop.engine.drafters.suffix import GRAM, SuffixDrafter


class Counted(list[int]):
    """A list that counts how often one of its items is read."""

    reads = 0

    def __getitem__(self, key: Any) -> Any:
        self.reads += 1
        return super().__getitem__(key)


def feed(drafter: SuffixDrafter, tokens: list[int], known: int) -> None:
    """What the target does: everything but the last token was decoded."""
    drafter._learn(tokens[known:-1], known)


@given(
    st.lists(st.integers(0, 3), min_size=4, max_size=60),
    st.lists(st.tuples(st.integers(0, 5), st.randoms()), max_size=40),
)
def test_a_match_is_what_it_says(start: list[int], steps: list[tuple[int, random.Random]]) -> None:
    drafter, tokens = SuffixDrafter(16), list(start)
    feed(drafter, tokens, 0)
    for action, rng in steps:
        if action == 0 and len(tokens) > 4:
            tokens = tokens[: rng.randrange(3, len(tokens))]
            drafter.rewind(len(tokens))
            known = len(drafter._tokens)
            tokens.append(rng.randrange(4))
        else:
            known = len(tokens) - 1
            drafted = [] if action == 5 else drafter.propose(tokens, action).ids[:action]
            tokens += drafted or [rng.randrange(4)]
        feed(drafter, tokens, known)
        place, length = drafter._search(tokens)
        assert place < len(tokens) - 1
        if length >= GRAM:
            assert tokens[place - length + 1 : place + 1] == tokens[-length:]
            assert drafter.propose(tokens, 2).ids[:1] == tokens[place + 1 : place + 2]


def test_a_copy_goes_on_behind_a_replaced_token() -> None:
    drafter, text = SuffixDrafter(16), list(range(100, 140))
    tokens = [*text, 1, 2, *text[:20]]
    feed(drafter, tokens, 0)
    assert drafter.propose(tokens, 3).ids == text[20:23]
    known = len(tokens) - 1
    tokens += [7]  # in place of text[20]
    feed(drafter, tokens, known)
    assert drafter.peek(tokens) == 0
    assert drafter.propose(tokens, 3).ids == text[21:24]
    known = len(tokens) - 1
    tokens += [text[21]]
    feed(drafter, tokens, known)
    assert drafter.propose(tokens, 3).ids == text[22:25]
    for i in range(8):  # other text: the trail is given up
        known = len(tokens) - 1
        tokens += [50 + i]
        feed(drafter, tokens, known)
        drafter.peek(tokens)
    assert drafter.peek(tokens) is None


def test_a_long_copy_reads_each_token_a_few_times_only() -> None:
    drafter, text = SuffixDrafter(16), list(range(2000))
    tokens = Counted([*text, *text[:3]])
    feed(drafter, tokens, 0)
    for i in range(3, 2000):
        known = len(tokens) - 1
        assert drafter.propose(tokens, 1).ids == [text[i]]
        tokens.append(text[i])
        feed(drafter, tokens, known)
    assert tokens.reads < 8 * 2000
    assert drafter._search(tokens)[1] >= 1990


def test_a_text_of_one_token_again_and_again_is_cheap() -> None:
    drafter, tokens = SuffixDrafter(16), Counted([5] * 3)
    for _ in range(2000):
        known = len(tokens) - 1
        tokens.append(5)
        feed(drafter, tokens, known)
        drafter.peek(tokens)
    assert tokens.reads < 12 * 2000
