"""Constraints on generation: a grammar or a JSON schema becomes, token by token, a mask over the vocabulary.

Nothing here knows a tool or a template: a `Grammar` is made of a text and a vocabulary. The text is in the Lark dialect
of llguidance (docs/syntax.md of that project): JSON schemas inline with `%json`, special tokens by their spelling, such
as `</tool_call>` outside quotes. A special token may come where the grammar names it and nowhere else, whatever
characters its spelling has, because ids decide.

Where one text alone can follow, the mask allows the tokens that the vocabulary itself makes of it and no others, so
that forced text looks as in any prompt.

The mask comes first: `target_probs` gives ids that are not allowed probability 0 before top-k, top-p, min-p and
temperature look at the distribution, so truncation chooses among what may come. In drafts the mask of each row is the
one behind the tokens before it, so a drafted token that is not allowed is never accepted.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ConstraintError
from .seam import Force, Steering, Stop, Token, VocabLike

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

__all__ = ["Constrained", "Constraint", "Grammar"]

_KEPT = 64  # compiled grammars kept for each vocabulary
_FUEL = 4_000_000  # expressions that one mask may make of its regular expressions, some 70 ns each and once only


class Grammar:
    """A compiled grammar, for any number of generations; safe to use from any thread.

    `text`: a grammar whose rule `start` is what may be generated. At its end, only end-of-generation tokens may come.
    Compiling takes a few milliseconds; a vocabulary is read once, at 250,000 tokens in a second or two. The same text
    and vocabulary are compiled once.

    Raises ConstraintError when the text is no grammar, names a token that the vocabulary lacks, or is too large.
    """

    def __init__(self, text: str, vocab: VocabLike) -> None:
        self.text = text
        self._n, self._eog = vocab.n_tokens, vocab.eog
        self._start = _compiled(text, vocab)

    @classmethod
    def of_schema(cls, schema: Mapping[str, Any], vocab: VocabLike) -> Grammar:
        """The grammar of the JSON texts that fit `schema`. Properties come in the schema's order; keywords that no
        grammar can hold (`not`, `uniqueItems`, ...) are left to whoever validates the text. White space between the
        parts is free, but never goes on without end; `x-guidance` in the schema sets it, as llguidance says."""
        options = {"lenient": True, **schema.get("x-guidance", {"whitespace_pattern": r"[ \n]{1,40}"})}
        return cls(f"start: %json {json.dumps({**schema, 'x-guidance': options})}", vocab)

    def constraint(self) -> Constraint:
        """The state at the beginning of a text."""
        return Constraint(self._start.deep_copy(), self._n, self._eog)


class Constraint:
    """Where a text stands in a grammar: moves on token by token, can go back, and can be forked. One thread at a time
    may use it."""

    def __init__(self, matcher: LLMatcher, n_tokens: int, eog: frozenset[int]) -> None:
        self._matcher = matcher
        self._n, self._eog = n_tokens, eog
        self._accepted = 0
        self._ended = False  # behind the matcher's last token stands an end that it was not told of

    def __len__(self) -> int:
        """How many tokens were accepted."""
        return self._accepted

    @property
    def may_end(self) -> bool:
        """The text so far is a whole one."""
        return self._matcher.is_accepting()

    @property
    def finished(self) -> bool:
        """The text is a whole one, and nothing but its end may come."""
        return self._matcher.is_stopped() and not self._matcher.is_error()

    def allowed(self) -> NDArray[np.bool_]:
        """Bool [n_vocab] of the ids that may come next; end-of-generation ids are among them where the text may end.

        Raises ConstraintError when none may: the grammar wants bytes that no token has, or it got too complex.
        """
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        mask = np.unpackbits(bits, count=self._n, bitorder="little").view(np.bool_)
        if self._matcher.is_error() or not mask.any():
            reason = self._matcher.get_error() or "no token of the vocabulary goes on here"
            raise ConstraintError(f"the grammar cannot go on behind {self._accepted} tokens: {_first_line(reason)}")
        return mask

    def accept(self, token: int) -> bool:
        """Move on by one token. False, and nothing is changed, when it may not come here."""
        if self._ended:
            return False
        if token not in self._eog:
            accepted = self._matcher.try_consume_tokens([token]) == 1
        elif self.finished:
            accepted = self._ended = True
        else:
            accepted = bool(self.allowed()[token]) and self._matcher.consume_token(token)
        self._accepted += accepted
        return accepted

    def how_many(self, tokens: Sequence[int]) -> int:
        """How many of these tokens, from the first on, may come next, as far as none of them ends the generation;
        nothing is changed."""
        return self._matcher.validate_tokens(list(tokens))

    def rewind(self, n: int) -> None:
        """Take back the last `n` tokens. ValueError when fewer were accepted."""
        if not 0 <= n <= self._accepted:
            raise ValueError(f"cannot take back {n} of {self._accepted} tokens")
        if not n:
            return
        inner = n - self._ended
        self._ended = False
        if inner and not self._matcher.rollback(inner):
            raise ConstraintError(f"the grammar cannot go back: {_first_line(self._matcher.get_error())}")
        self._accepted -= n

    def fork(self) -> Constraint:
        """A second state at the same point; both go on independently."""
        copy = Constraint(self._matcher.deep_copy(), self._n, self._eog)
        copy._accepted, copy._ended = self._accepted, self._ended
        return copy


class Constrained:
    """Steering that lets a constraint decide, beside another steering if there is one: an id may come when both allow
    it. A token that was forced against the constraint ends it (`active` is False then)."""

    def __init__(self, constraint: Constraint, inner: Steering | None = None) -> None:
        self.constraint = constraint
        self.active = True
        self._inner = inner

    @property
    def watched(self) -> int | None:
        """The id that the other steering watches."""
        return getattr(self._inner, "watched", None)

    def accept(self, token: Token) -> Stop | Force | None:
        self.active = self.active and self.constraint.accept(token.id)
        return None if self._inner is None else self._inner.accept(token)

    def allowed(self) -> NDArray[np.bool_] | None:
        inner = None if self._inner is None else self._inner.allowed()
        if not self.active:
            return inner
        mask = self.constraint.allowed()
        return mask if inner is None else mask & inner

    def room(self) -> int | None:
        return None if self._inner is None else self._inner.room()


class _Known:
    """What is kept for one vocabulary."""

    def __init__(self, vocab: VocabLike) -> None:
        self.tokenizer = _tokenizer(vocab)
        self.grammars: OrderedDict[str, LLMatcher] = OrderedDict()


_known: WeakKeyDictionary[VocabLike, _Known] = WeakKeyDictionary()
_lock = threading.Lock()


def _compiled(text: str, vocab: VocabLike) -> LLMatcher:
    with _lock:
        known = _known.get(vocab)
        if known is None:
            known = _known[vocab] = _Known(vocab)
        matcher = known.grammars.get(text)
        if matcher is None:
            from llguidance import LLMatcher, LLParserLimits

            matcher = LLMatcher(known.tokenizer, text, log_level=0, limits=LLParserLimits(step_lexer_fuel=_FUEL))
            if matcher.is_error():
                raise ConstraintError(f"the grammar does not compile: {_first_line(matcher.get_error())}")
            known.grammars[text] = matcher
            if len(known.grammars) > _KEPT:
                known.grammars.popitem(last=False)
        known.grammars.move_to_end(text)
        return matcher


def _tokenizer(vocab: VocabLike) -> LLTokenizer:
    try:
        from llguidance import LLTokenizer, TokenizerWrapper
    except ImportError:
        raise ConstraintError("constraints need the package llguidance; install it, or go on without them") from None
    ends = sorted(vocab.eog)
    if not ends:
        raise ConstraintError("the vocabulary has no end-of-generation token, so no constrained text could end")
    return LLTokenizer(TokenizerWrapper(_Tokens(vocab)), n_vocab=vocab.n_tokens, eos_token=ends)


class _Tokens:
    """A vocabulary as llguidance asks for it."""

    bos_token_id = None

    def __init__(self, vocab: VocabLike) -> None:
        self.eos_token_id = min(vocab.eog)
        self.special_token_ids = sorted(vocab.special_tokens())
        self.tokens = [vocab.decode((i,)) for i in range(vocab.n_tokens)]
        self._encode = vocab.encode

    def __call__(self, text: str | bytes) -> list[int]:
        return self._encode(text if isinstance(text, str) else text.decode("utf-8", "replace"))


def _first_line(message: str) -> str:
    return next((line.strip() for line in message.splitlines() if line.strip()), "unknown reason")
