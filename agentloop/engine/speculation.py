"""Draft, verify, accept, roll back: one step of generation that may yield several tokens.

The sequence's last token waits. A step decodes it together with k drafted tokens, all rows with logits. Row i gives
the distribution of the token behind row i; the token chosen there is kept, and while it equals the drafted one the next
row is valid too. The rows behind the first difference are rolled back through the ring, in O(1): the anchor, row 0,
always stays, so the rollback is one that the ring holds.

Choosing from `target_probs` and comparing is the exact acceptance rule for drafts that are single guesses: a guess x is
accepted with probability p(x), and otherwise the token has the distribution of p without x, renormalised (Leviathan et
al. 2023, Chen et al. 2023, for a draft distribution that is a point mass). Since the random number of a position is a
function of (seed, position), the text is the one that plain decoding gives, as far as logits are equal.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from .drafters import Draft, Drafter
from .sampling import Sampler, logprob
from .seam import Force, Steering, Stop, Token

if TYPE_CHECKING:
    from .sequence import Sequence

__all__ = ["Speculator", "make_token"]

_T = TypeVar("_T")


def make_token(
    row: NDArray[np.float32], chosen: int, sampler: Sampler, steering: Steering | None, drafted_by: str | None = None
) -> Token:
    """The token that was chosen from `row`, with what the sampling and the steering want to know of that row."""
    log = logprob(row, chosen) if sampler.sampling.logprobs else None
    watched: int | None = getattr(steering, "watched", None)
    gap = None if watched is None else float(row.max() - row[watched])
    return Token(chosen, log, drafted_by, gap)


class Speculator:
    """Steps of one generation over one sequence."""

    def __init__(self, sequence: Sequence, sampler: Sampler, steering: Steering | None) -> None:
        self._seq = sequence
        self._sampler = sampler
        self._steering = steering

    def step(self, left: int) -> tuple[list[Token], Stop | Force | None]:
        """At least one and at most `left` new tokens, appended to the sequence, and steering's answer to the last one.

        The engine's lock is held throughout: steering must not call the engine from inside `accept` or `allowed`.
        """
        seq = self._seq
        engine = seq._engine
        with engine.lock:
            engine.activate(seq)
            seq._decode_to_locked(len(seq._tokens) - 1)
            if seq._state.n == len(seq._tokens):  # nothing waits: the logits are there already
                token, answer = self._accept(seq._behind(), None)
                return [token], answer
            draft, drafter, draft_s = self._draft(left)
            if drafter is None:
                return self._plain()
            return self._verify(draft, drafter, draft_s)

    def _plain(self) -> tuple[list[Token], Stop | Force | None]:
        """One row. What a step costs without a draft is what every draft is weighed against, so it is timed too."""
        started = time.perf_counter()
        token, answer = self._accept(self._seq._next_row(), None)
        self._seq._engine.policy.timed(1, time.perf_counter() - started)
        return [token], answer

    def _draft(self, left: int) -> tuple[Draft, Drafter | None, float]:
        """The best draft by the policy, or an empty one."""
        seq, policy = self._seq, self._seq._engine.policy
        room = None if self._steering is None else self._steering.room()
        cap = min(left - 1, seq.n_ctx - len(seq._tokens), policy.max_draft)
        cap = cap if room is None else min(cap, room)
        if cap < 1:
            return Draft([]), None, 0.0
        candidates: list[tuple[str, int, int]] = []
        drafters: list[Drafter] = []
        for drafter in seq._drafters:
            evidence = self._tried(drafter, lambda d: d.peek(seq._tokens))
            if evidence is not None:
                candidates.append((drafter.name, evidence, min(cap, drafter.depth)))
                drafters.append(drafter)
        choice = policy.choose(candidates)
        if choice.k < 1:
            return Draft([]), None, 0.0
        drafter = drafters[choice.index]
        started = time.perf_counter()
        draft = self._tried(drafter, lambda d: d.propose(seq._tokens, choice.k))
        spent = time.perf_counter() - started
        seq._counters.draft_s += spent
        seq._counters.decode_s -= spent  # the step as a whole is timed by the generation
        if draft is None:
            return Draft([]), None, 0.0
        n_vocab = seq._engine.vocab.n_tokens
        ids = draft.ids[: choice.k]
        for i, token in enumerate(ids):  # a drafter with a foreign token costs speed, not the turn
            if not 0 <= token < n_vocab:
                ids = ids[:i]
                break
        # What a drafter had to catch up on would have been due anyway: it is no part of what a draft costs.
        return Draft(ids, draft.evidence), drafter if ids else None, spent - getattr(drafter, "caught_up_s", 0.0)

    def _verify(self, draft: Draft, drafter: Drafter, draft_s: float) -> tuple[list[Token], Stop | Force | None]:
        seq = self._seq
        engine, ctx, k = seq._engine, seq._engine.context, len(draft.ids)
        before = seq._state.n
        batch = [seq._tokens[-1], *draft.ids]
        started = time.perf_counter()
        seq._decode(batch, all_outputs=True, observe=False)
        tokens: list[Token] = []
        answer: Stop | Force | None = None
        rows = 0  # rows that stay
        try:
            while True:
                guess = draft.ids[rows] if rows < k else None
                token, answer = self._accept(ctx.row(rows), drafter.name, guess)
                tokens.append(token)
                rows += 1
                if token.id != guess or answer is not None or token.id in engine.vocab.eog:
                    break
        finally:
            # Also when steering raised: its token was appended before, and waits like any other.
            rows = max(1, len(seq._tokens) - 1 - before)
            seq._keep_rows(before + rows, rows - 1)
            seq._observe(batch, before, rows)
            spent = time.perf_counter() - started  # with choosing, rolling back and what drafters do to keep up
            engine.policy.timed(k + 1, spent, drafter.name, k, draft_s)
            accepted = rows - 1 + (rows <= k and bool(tokens) and tokens[-1].id == draft.ids[rows - 1])
            seq._counters.drafted[drafter.name] = seq._counters.drafted.get(drafter.name, 0) + k
            seq._counters.accepted[drafter.name] = seq._counters.accepted.get(drafter.name, 0) + accepted
            engine.policy.learn(drafter.name, draft.evidence, k, accepted)
        return tokens, answer

    def _accept(
        self, row: NDArray[np.float32], drafted_by: str | None, guess: int | None = None
    ) -> tuple[Token, Stop | Force | None]:
        """Choose from `row`, append, and ask steering."""
        seq, steering = self._seq, self._steering
        allowed = None if steering is None else steering.allowed()
        chosen = self._sampler.choose(row, seq._tokens, allowed)
        token = make_token(row, chosen, self._sampler, steering, drafted_by if chosen == guess else None)
        seq._tokens.append(chosen)
        seq._counters.generated += 1
        return token, None if steering is None else steering.accept(token)

    def _tried(self, drafter: Drafter, call: Callable[[Drafter], _T]) -> _T | None:
        """What `call` gives, or None when the drafter fails; it is then left out for the rest of the sequence."""
        try:
            return call(drafter)
        except Exception as error:
            self._seq._lose_drafter(drafter, error)
            return None
