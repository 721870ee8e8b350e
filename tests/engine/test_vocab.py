"""Text to ids and back, and the promise that data never becomes a special token."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentloop.engine import Engine

TAGS = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "<|im_end|>",
    "<|im_start|>",
    "<",
    "|>",
    "\n",
]
pieces = st.lists(st.one_of(st.sampled_from(TAGS), st.text(max_size=12)), max_size=12).map("".join)


@pytest.mark.parametrize("tag", TAGS[:7])
def test_a_tag_in_data_is_spelled_out(embedded: Engine, tag: str) -> None:
    vocab = embedded.vocab
    ids = vocab.encode(f"a {tag} b")
    assert not set(ids) & set(vocab.special_tokens())
    assert vocab.decode(ids).decode() == f"a {tag} b"
    assert vocab.token_id(tag) in vocab.encode(f"a {tag} b", special=True)


@given(text=pieces)
@settings(max_examples=300, deadline=None)
def test_data_keeps_its_bytes_and_never_becomes_special(embedded: Engine, text: str) -> None:
    vocab = embedded.vocab
    ids = vocab.encode(text)
    assert vocab.special_tokens().keys().isdisjoint(ids)
    assert vocab.decode(ids) == text.encode("utf-8", "replace")


@given(parts=st.lists(st.tuples(pieces, st.booleans()), max_size=6))
@settings(max_examples=300, deadline=None)
def test_parts_join_to_their_text(embedded: Engine, parts: list[tuple[str, bool]]) -> None:
    vocab = embedded.vocab
    ids = vocab.encode_parts(parts)
    assert vocab.decode(ids) == "".join(text for text, _ in parts).encode("utf-8", "replace")
    scaffold = "".join(text for text, is_scaffold in parts if is_scaffold)
    if not any(tag in scaffold for tag in TAGS[:7]):
        assert vocab.special_tokens().keys().isdisjoint(ids)


def test_parts_encode_as_the_whole_would_be(embedded: Engine) -> None:
    """Data ends in a full stop and scaffold begins with a newline: the tokenizer joins them, and so do we."""
    vocab = embedded.vocab
    parts = [("<|im_start|>user\n", True), ("Read a.txt.", False), ("\n<tool_response>\nok.\n</tool_response>", True)]
    whole = "".join(text for text, _ in parts)
    assert vocab.encode_parts(parts) == vocab.encode(whole, special=True)
    with embedded.lock:
        assert vocab.encode_parts(parts) == embedded.model.tokenize(whole.encode(), True)


def test_a_tag_over_the_seam_of_data_and_scaffold(embedded: Engine) -> None:
    vocab = embedded.vocab
    for parts in ([("<thi", False), ("nk>", True)], [("</tool", True), ("_call>", False)]):
        assert vocab.special_tokens().keys().isdisjoint(vocab.encode_parts(parts))


def test_ids_outside_the_vocabulary_are_refused(embedded: Engine) -> None:
    for bad in (-1, embedded.vocab.n_tokens):
        with pytest.raises(ValueError, match="outside the vocabulary"):
            embedded.vocab.decode([bad])
        with pytest.raises(ValueError, match="outside the vocabulary"):
            embedded.sequence().extend([1, bad])


def test_end_tokens(embedded: Engine) -> None:
    assert embedded.vocab.token_id("<|im_end|>") in embedded.vocab.eog
    assert embedded.vocab.token_id("<|nothing|>") is None
