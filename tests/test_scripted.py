"""ScriptedEngine keeps the token semantics of the real engine."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentloop.engine.bytevocab import ByteVocab
from agentloop.engine.scripted import ScriptedEngine, ScriptedReply, ScriptedSequence
from agentloop.engine.seam import CancelToken, EngineLike, Force, Steering, Stop, Token
from agentloop.exceptions import ClosedError, ContextFull, DecodeCancelled, DecodeError

VOCAB = ByteVocab()


def ids(text: str) -> list[int]:
    return VOCAB.encode(text, special=True)


def whole(seq: ScriptedSequence) -> str:
    return VOCAB.decode(seq.tokens).decode()


def test_it_is_an_engine() -> None:
    assert isinstance(ScriptedEngine(), EngineLike)


@given(st.text(), st.sampled_from([*VOCAB.special_tokens().values(), ""]), st.text())
def test_data_never_becomes_a_special_token(before: str, special: str, after: str) -> None:
    text = before + special + after
    plain = VOCAB.encode(text)
    assert not set(plain) & set(VOCAB.special_tokens())
    assert VOCAB.decode(plain) == text.encode("utf-8", "replace")
    assert VOCAB.encode_parts([(text, False), (special, True)])[len(plain) :] == ids(special)


def test_the_last_token_waits_and_goes_in_with_the_next_batch() -> None:
    seq = ScriptedEngine(["Hi"]).sequence()
    seq.extend(ids("<|im_start|>user\n"))
    out = list(seq.generate(100))
    assert [t.id for t in out] == [*ids("Hi"), VOCAB.end_of_turn]
    assert seq.decoded == seq.tokens[:-1]
    before = seq.stats
    seq.extend(ids("\n"))
    assert seq.decoded == seq.tokens
    assert (seq.stats - before).evaluated == 2
    assert seq.stats.recomputed == 0


def test_length_stop_and_context_end_a_generation() -> None:
    engine = ScriptedEngine(["Hello", "Hello", "Hello", ScriptedReply("Hello", end=False)], n_ctx=20)
    seq = engine.sequence()
    seq.extend(ids("0123456789"))
    cut = seq.generate(3)
    assert len(list(cut)) == 3
    assert cut.finish_reason == "length"

    class StopAtFirst:
        def accept(self, token: Token) -> Stop | Force | None:
            return Stop("enough")

        def allowed(self) -> None:
            return None

        def room(self) -> None:
            return None

    steering: Steering = StopAtFirst()
    stopped = seq.generate(5, steering=steering)
    assert len(list(stopped)) == 1
    assert (stopped.finish_reason, stopped.stop_reason) == ("stopped", "enough")
    full = seq.generate(50)
    assert len(list(full)) == 6
    assert full.finish_reason == "end"
    rest = seq.generate(50)
    assert len(list(rest)) == 0
    assert rest.finish_reason == "context"
    with pytest.raises(ContextFull) as caught:
        seq.extend(ids("x"))
    assert (caught.value.needed, caught.value.available, caught.value.n_ctx) == (1, 0, 20)
    assert len(seq) == 20


def test_a_forced_text_replaces_the_scripted_one() -> None:
    class CloseAfterTwo:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def accept(self, token: Token) -> Stop | Force | None:
            self.seen.append(token.id)
            return Force(tuple(ids("!\n</think>\n\n")), "budget") if len(self.seen) == 2 else None

        def allowed(self) -> None:
            return None

        def room(self) -> int | None:
            return None

    steering = CloseAfterTwo()
    seq = ScriptedEngine(["long thoughts\n</think>\n\nAnswer"]).sequence()
    out = list(seq.generate(100, steering=steering))
    assert VOCAB.decode([t.id for t in out]) == b"lo!\n</think>\n\nAnswer<|im_end|>"
    assert steering.seen == [t.id for t in out]
    assert [t.drafted_by for t in out][1:4] == [None, "forced", "forced"]
    assert seq.decoded == seq.tokens[:-1]


def test_a_mask_drops_what_it_forbids() -> None:
    class NoVowels:
        def accept(self, token: Token) -> None:
            return None

        def allowed(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
            mask = np.ones(VOCAB.n_tokens, np.bool_)
            mask[ids("aeiou")] = False
            return mask

        def room(self) -> None:
            return None

    seq = ScriptedEngine(["education"]).sequence()
    out = seq.generate(50, steering=NoVowels())
    assert VOCAB.decode([t.id for t in out]) == b"dctn<|im_end|>"


def test_errors_come_where_the_script_says() -> None:
    failure = DecodeError(-3, 4, "broken")
    engine = ScriptedEngine([failure, ScriptedReply("ab", error=failure), "ok"])
    seq = engine.sequence()
    with pytest.raises(DecodeError):
        list(seq.generate(10))
    assert seq.tokens == ()
    with pytest.raises(DecodeError):
        list(seq.generate(10))
    assert whole(seq) == "ab"
    list(seq.generate(10))
    assert whole(seq) == "abok<|im_end|>"
    engine.assert_complete()


def test_functions_see_the_prompt_and_route() -> None:
    engine = ScriptedEngine(lambda prompt: "one" if prompt.endswith("1") else [65, 66])
    for text, answer in (("say 1", "one<|im_end|>"), ("say 2", "AB<|im_end|>")):
        seq = engine.sequence()
        seq.extend(ids(text))
        assert VOCAB.decode([t.id for t in seq.generate(10)]).decode() == answer
    assert engine.prompts == ["say 1", "say 2"]


def test_an_unused_reply_and_a_missing_one_are_errors() -> None:
    engine = ScriptedEngine(["a"])
    with pytest.raises(AssertionError, match="1 scripted replies were not used"):
        engine.assert_complete()
    seq = engine.sequence()
    list(seq.generate(5))
    with pytest.raises(AssertionError, match="no reply number 2"):
        list(seq.generate(5))


def test_a_cancel_ends_a_wait_and_keeps_what_was_decoded() -> None:
    engine = ScriptedEngine([ScriptedReply("abc", delay=60)], n_batch=4, prefill_delay=60)
    seq = engine.sequence()
    cancel = CancelToken()
    timer = threading.Timer(0.05, cancel.cancel)
    timer.start()
    with pytest.raises(DecodeCancelled):
        seq.extend(ids("0123456789"), cancel=cancel)
    timer.join()
    assert seq.decoded == seq.tokens == ()
    engine.prefill_delay = 0.0
    seen: list[tuple[int, int]] = []

    def stop_after_one(done: int, total: int) -> None:
        seen.append((done, total))
        second.cancel()

    second = CancelToken()
    with pytest.raises(DecodeCancelled):
        seq.extend(ids("0123456789"), cancel=second, progress=stop_after_one)
    assert whole(seq) == "0123"
    assert seen == [(4, 10)]
    third = CancelToken()
    timer = threading.Timer(0.05, third.cancel)
    timer.start()
    with pytest.raises(DecodeCancelled):
        list(seq.generate(5, cancel=third))
    timer.join()
    assert whole(seq) == "0123"


def test_closed_things_say_so() -> None:
    engine = ScriptedEngine(["a"])
    seq = engine.sequence()
    seq.close()
    with pytest.raises(ClosedError):
        seq.extend([1])
    engine.close()
    with pytest.raises(ClosedError):
        engine.sequence()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["extend", "generate", "truncate", "fork", "checkpoint"]), st.integers(0, 30)),
        max_size=12,
    )
)
def test_the_state_always_stands_behind_the_tokens(program: list[tuple[str, int]]) -> None:
    """Invariants 1 and 2: at most one waiting token, and the logits of a cold sequence."""
    engine = ScriptedEngine(lambda prompt: f"reply {len(prompt)}")
    seq = engine.sequence()
    for action, n in program:
        if action == "extend":
            seq.extend(ids("x" * n))
        elif action == "generate":
            list(seq.generate(n))
        elif action == "truncate":
            seq.truncate(min(n, len(seq)))
        elif action == "checkpoint":
            seq.checkpoint()
        else:
            seq = seq.fork()
        assert seq.decoded in (seq.tokens, seq.tokens[:-1])
    if seq.tokens:
        cold = engine.sequence()
        cold.extend(seq.tokens)
        assert np.array_equal(cold.logits(), seq.logits())


def test_truncate_counts_what_it_decodes_again() -> None:
    seq = ScriptedEngine().sequence()
    seq.extend(ids("0123"))
    seq.checkpoint(label="here")
    seq.extend(ids("456789"))
    assert seq.truncate(10) == "none"
    assert seq.truncate(7) == "checkpoint"
    assert seq.stats.recomputed == 3
    assert seq.truncate(2) == "start"
    assert seq.stats.recomputed == 5
    assert whole(seq) == "01"
