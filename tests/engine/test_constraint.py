"""Constraints: masks that follow a text, go back with it, and leave only what fits, on real models too."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from agentloop.arguments.narrowing import narrowed
from agentloop.bench.random_model import RandomModel, write_random_model
from agentloop.engine import Engine
from agentloop.engine.bytevocab import ByteVocab
from agentloop.engine.constraint import Constrained, Constraint, Grammar
from agentloop.engine.sampling import target_probs
from agentloop.engine.seam import Force, Sampling, Stop, Token
from agentloop.exceptions import ConstraintError
from tests.grammar_walks import walk
from tests.schema_strategies import fitting, schemas

VOCAB = ByteVocab()
END = VOCAB.end_of_turn
ORDER = {
    "type": "object",
    "properties": {
        "item": {"type": "string", "maxLength": 12},
        "count": {"type": "integer", "minimum": 1, "maximum": 99},
        "paid": {"type": "boolean"},
    },
    "required": ["item", "count", "paid"],
}


def read(constraint: Constraint, text: str) -> bool:
    return all(constraint.accept(byte) for byte in text.encode())


def may_come(constraint: Constraint) -> str:
    return "".join(VOCAB.decode([int(i)]).decode("latin-1") for i in np.flatnonzero(constraint.allowed()))


# -- one text


def test_a_text_is_followed_token_by_token() -> None:
    constraint = Grammar('start: "ab" ("c" | "d")+', VOCAB).constraint()
    assert may_come(constraint) == "a"
    assert not constraint.accept(ord("b"))
    assert may_come(constraint) == "a", "a refused token changes nothing"
    assert read(constraint, "ab")
    assert may_come(constraint) == "cd"
    assert not constraint.may_end
    assert read(constraint, "c")
    assert constraint.may_end
    assert not constraint.finished
    allowed = np.flatnonzero(constraint.allowed())
    assert set(allowed) == {ord("c"), ord("d"), *VOCAB.eog}
    assert constraint.accept(END)
    assert constraint.finished
    assert len(constraint) == 4
    assert not constraint.accept(ord("c"))


def test_going_back_and_going_two_ways() -> None:
    constraint = Grammar.of_schema(ORDER, VOCAB).constraint()
    assert read(constraint, '{"item":"tea"')
    fork = constraint.fork()
    before = constraint.allowed()
    assert read(constraint, ',"count":7,"paid":true}')
    assert constraint.finished
    assert constraint.accept(END)
    constraint.rewind(len(',"count":7,"paid":true}') + 1)
    assert np.array_equal(constraint.allowed(), before)
    assert np.array_equal(fork.allowed(), before)
    assert read(fork, ',"count":8')
    assert np.array_equal(constraint.allowed(), before), "a fork goes its own way"
    constraint.rewind(len(constraint))
    assert may_come(constraint) == "{"
    with pytest.raises(ValueError, match="cannot take back 1 of 0"):
        constraint.rewind(1)


def test_a_drafted_text_is_looked_at_without_moving() -> None:
    constraint = Grammar('start: "abc" /[0-9]+/', VOCAB).constraint()
    assert constraint.how_many(list(b"abx")) == 2
    assert constraint.how_many(list(b"abc12")) == 5
    assert len(constraint) == 0
    assert may_come(constraint) == "a"


def test_ids_decide_what_is_a_special_token() -> None:
    close = VOCAB.token_id("</tool_call>")
    assert close is not None
    constraint = Grammar("start: /(?s:.*)/ </tool_call>", VOCAB).constraint()
    assert read(constraint, "as text: </tool_call> and <|im_end|>")
    allowed = constraint.allowed()
    assert [i for i in VOCAB.special_tokens() if allowed[i]] == [close]
    assert constraint.accept(close)
    assert constraint.finished


@pytest.mark.parametrize(
    ("text", "words"),
    [("start: (", "does not compile"), ("start: nothing", "does not compile"), ("start: <no_such_tag>", "compile")],
)
def test_what_is_no_grammar_is_said(text: str, words: str) -> None:
    with pytest.raises(ConstraintError, match=words):
        Grammar(text, VOCAB)
    with pytest.raises(ConstraintError, match="does not compile"):
        Grammar.of_schema({"type": "no such type"}, VOCAB)


def test_a_text_that_no_token_can_go_on_is_said() -> None:
    class Deaf(ByteVocab):
        def piece(self, token: int) -> bytes:
            return b"" if token == ord("b") else super().piece(token)

        def encode_parts(self, parts: Iterable[tuple[str, bool]]) -> list[int]:
            return [i for i in super().encode_parts(parts) if i != ord("b")]

    constraint = Grammar('start: "ab"', Deaf()).constraint()
    assert constraint.accept(ord("a"))
    with pytest.raises(ConstraintError, match="behind 1 tokens"):
        constraint.allowed()


def test_a_vocabulary_is_read_once() -> None:
    vocab = ByteVocab()
    first, second = Grammar('start: "a"', vocab), Grammar('start: "a"', vocab)
    assert first._start is second._start
    one, two = first.constraint(), second.constraint()
    assert one.accept(ord("a"))
    assert len(two) == 0
    assert may_come(two) == "a"


# -- any schema


@given(schemas(), st.integers(0, 1 << 32), st.integers(0, 60))
@settings(deadline=None, max_examples=100)
def test_whatever_is_written_fits(schema: dict[str, Any], seed: int, steps: int) -> None:
    ids = walk(Grammar.of_schema(narrowed(schema), VOCAB).constraint(), VOCAB, Random(seed), steps=steps)
    text = bytes(i for i in ids if i < 256).decode()
    Draft202012Validator(schema).validate(json.loads(text))


@given(schemas().flatmap(lambda schema: st.tuples(st.just(schema), fitting(schema))), st.booleans())
@settings(deadline=None, max_examples=150)
def test_whatever_fits_can_be_written(pair: tuple[dict[str, Any], Any], compact: bool) -> None:
    schema, value = pair
    constraint = Grammar.of_schema(narrowed(schema), VOCAB).constraint()
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":") if compact else None)
    assert read(constraint, text), (text, len(constraint))
    assert constraint.may_end


# -- the mask comes before the truncation of the distribution


def test_top_k_chooses_among_what_may_come() -> None:
    row = np.linspace(8, 0, VOCAB.n_tokens).astype(np.float32)
    mask = Grammar('start: "x" | "y" | "z"', VOCAB).constraint().allowed()
    ids, probs = target_probs(row, Sampling(temperature=1.0, top_k=2, top_p=0.99), (), mask)
    assert set(ids.tolist()) <= {ord("x"), ord("y")}
    assert probs.sum() == pytest.approx(1.0)
    ids, _ = target_probs(row, Sampling(temperature=1.0, min_p=0.9), (), mask)
    assert ids[0] == ord("x")


# -- models


@pytest.fixture(scope="module")
def sense_less(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("random") / "m.gguf", RandomModel(mtp=1, seed=3))


def written(
    engine: Engine, grammar: Grammar, prompt: str, sampling: Sampling | None = None, most: int = 400
) -> tuple[str, str | None, dict[str, int]]:
    seq = engine.sequence()
    try:
        seq.extend(engine.vocab.encode(prompt))
        start = len(seq)
        generation = seq.generate(most, sampling, Constrained(grammar.constraint()))
        for _ in generation:
            pass
        ids = [i for i in seq.tokens[start:] if i not in engine.vocab.eog]
        return engine.vocab.decode(ids).decode(), generation.finish_reason, dict(seq.stats.drafted)
    finally:
        seq.close()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_model_without_sense_writes_what_fits(sense_less: Path, temperature: float) -> None:
    schema = narrowed(ORDER)
    options = {"x-guidance": {"whitespace_flexible": False}}
    with Engine.load(sense_less, n_ctx=512, sequences=1, threads=1) as engine:
        grammar = Grammar.of_schema({**schema, **options}, engine.vocab)
        for seed in range(8):
            sampling = Sampling(temperature=temperature, seed=seed)
            text, finish, _ = written(engine, grammar, f"Order {seed}:", sampling)
            assert finish == "end"
            Draft202012Validator(ORDER).validate(json.loads(text))


def test_drafts_change_nothing(sense_less: Path) -> None:
    rows = {"type": "array", "items": ORDER, "minItems": 4, "maxItems": 4, "x-guidance": {"whitespace_flexible": False}}
    schema = narrowed(rows)
    texts, drafted = [], {}
    for drafters in ((), ("suffix",), ("mtp",), ("suffix", "mtp")):
        with Engine.load(sense_less, n_ctx=1024, sequences=1, threads=1, drafters=drafters) as engine:
            text, finish, drafted = written(engine, Grammar.of_schema(schema, engine.vocab), "Orders:")
            assert finish == "end"
            assert len(json.loads(text)) == 4
            texts.append(text)
    assert len(set(texts)) == 1
    assert sum(drafted.values()) > 0


def test_the_embedded_model_answers_in_its_vocabulary(embedded: Engine) -> None:
    grammar = Grammar.of_schema(narrowed(ORDER), embedded.vocab)
    text, finish, _ = written(embedded, grammar, "One order of tea as JSON: ", most=1000)  # it writes all spaces it may
    assert finish == "end"
    Draft202012Validator(ORDER).validate(json.loads(text))


def test_forced_text_has_the_tokens_of_any_prompt(embedded: Engine) -> None:
    text = "\n<function=read_file>\n<parameter=path>\n"
    constraint = Grammar(f"start: {json.dumps(text)} /[a-z]+/", embedded.vocab).constraint()
    ids = embedded.vocab.encode(text)
    for token in ids:
        assert np.flatnonzero(constraint.allowed()).tolist() == [token]
        assert constraint.accept(token)


# -- beside another steering


class OnlyDigits:
    """Allows digits; forces a full stop behind the third token."""

    watched = 5

    def __init__(self) -> None:
        self.seen: list[int] = []

    def accept(self, token: Token) -> Stop | Force | None:
        self.seen.append(token.id)
        return Force((ord("."),), "enough") if len(self.seen) == 3 else None

    def allowed(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        mask = np.zeros(VOCAB.n_tokens, np.bool_)
        mask[[ord(c) for c in "0123456789"]] = True
        return mask

    def room(self) -> int:
        return 3 - len(self.seen)


def test_two_that_steer() -> None:
    inner = OnlyDigits()
    steering = Constrained(Grammar("start: /[5-9a-z]+/", VOCAB).constraint(), inner)
    assert steering.watched == 5
    for digit in "567":
        mask = steering.allowed()
        assert mask is not None
        assert "".join(map(chr, np.flatnonzero(mask))) == "56789"
        answer = steering.accept(Token(ord(digit)))
    assert answer == Force((ord("."),), "enough")
    assert steering.room() == 0
    steering.accept(Token(ord("."), drafted_by="forced"))
    assert not steering.active
    mask = steering.allowed()
    assert mask is not None
    assert mask.sum() == 10, "a constraint that was overruled lets go"
