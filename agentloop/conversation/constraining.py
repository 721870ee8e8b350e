"""What a reply may be, token by token: calls in the template's grammar, an answer in that of a JSON schema.

Reasoning stays free. From the token that opens a call on, the grammar of calls holds; from the end of reasoning on, the
one of answers does, up to a call. Both hold to the end of the turn. So a constraint and a reasoning
budget are never in force at the same token, but for a call inside open reasoning, which a budget lets pass.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..engine.constraint import Constraint, Grammar
from ..engine.seam import VocabLike
from ..exceptions import ConstraintError, TemplateError
from ..templates import StrictCalls
from ..templates.answer_constraint import answer_grammar, opening_grammar

if TYPE_CHECKING:
    from .conversation import Conversation

__all__ = ["ReplyConstraints", "ToolChoice", "constraints_for"]

logger = logging.getLogger(__name__)

_START, _END = "<think>", "</think>"


@dataclass(frozen=True)
class ToolChoice:
    """What a reply may call: the tools of `names` (None: all that are known), and whether it must call one of them."""

    required: bool = False
    names: frozenset[str] | None = None

    @classmethod
    def of(cls, value: ToolChoice | str | Collection[str]) -> ToolChoice:
        """Short forms: "auto", "none", "required", or the names of tools of which one must be called."""
        if isinstance(value, ToolChoice):
            return value
        if isinstance(value, str):
            if value not in ("auto", "none", "required"):
                raise ValueError(f"tool_choice must be 'auto', 'none', 'required' or names of tools, not {value!r}")
            return cls(value == "required", frozenset() if value == "none" else None)
        return cls(bool(value), frozenset(value))

    def among(self, tools: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The tools that may be called. ValueError where one must be called and there is none."""
        known = [name for _, name in _named(tools)]
        unknown = sorted(self.names - set(known)) if self.names else []
        if unknown:
            raise ValueError(f"tool_choice names {unknown[0]!r}; the model knows: {', '.join(known) or 'no tool'}")
        allowed = [tool for tool, name in _named(tools) if self.names is None or name in self.names]
        if self.required and not allowed:
            raise ValueError("a call is required, but there is no tool that may be called")
        return allowed


def constraints_for(
    c: Conversation,
    strict: bool | Collection[str],
    output_schema: Mapping[str, Any] | None,
    choice: ToolChoice | None = None,
) -> ReplyConstraints | None:
    """The constraints of the next reply. `strict`: the tools whose calls are held to their schemas (True: all).
    `choice`: the tools that may be called; where not all may, or one must, the form of every call is held too.

    Raises TemplateError when the template has no grammar of calls, ConstraintError when `output_schema` cannot become
    a grammar, ValueError for a choice that cannot be.
    """
    choice = choice or ToolChoice()
    known = c.known_tools
    tools = choice.among(known)
    chosen = choice.required or (choice.names is not None and len(tools) < len(known))
    if not strict and output_schema is None and not chosen:
        return None
    vocab = c.engine.vocab
    calls = answers = None
    if tools and (strict or chosen):
        calls = _call_grammar(c, tools, None if strict is True else frozenset(strict or ()))
    opener = getattr(c.template, "call_opener", "<tool_call>")
    prefix = c.template.reply_prefix(**c.knobs)
    in_content = not prefix.rstrip().endswith(_START)
    gap = None if not prefix else "" if in_content else "\n\n"
    if choice.required:  # the only answer is the beginning of a call
        answers = Grammar(opening_grammar(opener, gap=gap), vocab)
    elif output_schema is not None:
        openers = [tag for tag in ((opener,) if tools else ()) if vocab.token_id(tag) is not None]
        if c.thinking.enabled and not prefix:
            openers += [tag for tag in (_START,) if vocab.token_id(tag) is not None]  # the model itself may reason
        end = c.template.end_of_turn
        text = answer_grammar(
            output_schema,
            gap=gap,
            openers=openers,
            end=end if vocab.token_id(end) in vocab.eog else None,
        )
        answers = Grammar(text, vocab)
    silent = bool(known) and not tools
    if (calls is None and answers is None and not silent) or not getattr(c.engine, "constrains", True):
        return None
    return ReplyConstraints(vocab, calls, answers, opener, in_content=in_content, silent=silent)


class ReplyConstraints:
    """The constraint in force, if any, at each token of one reply. `silent`: no call may begin anywhere."""

    def __init__(
        self,
        vocab: VocabLike,
        calls: Grammar | None,
        answers: Grammar | None,
        opener: str,
        *,
        in_content: bool,
        silent: bool = False,
    ) -> None:
        self._calls, self._answers = calls, answers
        self._opener, self._end = vocab.token_id(opener), vocab.token_id(_END)
        self._now: Constraint | None = None
        self._owed: NDArray[np.bool_] | None = None
        if answers is not None:  # a reply that owes an answer does not end inside its reasoning
            self._owed = np.ones(vocab.n_tokens, np.bool_)
            self._owed[list(vocab.eog)] = False
        self._silent: NDArray[np.bool_] | None = None
        if silent and self._opener is not None:
            self._silent = np.ones(vocab.n_tokens, np.bool_)
            self._silent[self._opener] = False
        self._calls_began = self._let_loose = False
        if answers is not None and in_content:
            self._now = answers.constraint()

    @property
    def hold_calls(self) -> bool:
        """The calls so far were held to their grammar."""
        return self._calls_began and not self._let_loose

    def accept(self, token: int, phase: str) -> None:
        """One more token, and the phase of the reply behind it. A token that may not come was forced, or comes from an
        engine that takes no masks: then the constraint lets go, and the validation has the last word."""
        if self._now is not None:
            if not self._now.accept(token):
                self._let_go()
            elif self._now.finished:
                self._now = None
        if self._now is not None:
            return
        if token == self._opener and self._calls is not None:
            self._now = self._calls.constraint()
            self._calls_began = True
            self._owed = None
        elif token == self._end and phase == "content" and self._answers is not None:
            self._now = self._answers.constraint()
        elif phase != "reasoning":
            self._owed = None

    def allowed(self) -> NDArray[np.bool_] | None:
        """Bool [n_vocab] of the ids that may come next, or None for all. A grammar that gets too complex lets go."""
        if self._now is None:
            if self._owed is None or self._silent is None:
                return self._silent if self._owed is None else self._owed
            return self._owed & self._silent
        try:
            return self._now.allowed()
        except ConstraintError as error:
            logger.warning("a constraint was given up in the middle of a reply: %s", error)
            self._let_go()
            return None

    def _let_go(self) -> None:
        self._now = self._owed = None
        self._let_loose = True


def _call_grammar(c: Conversation, tools: Sequence[Mapping[str, Any]], names: frozenset[str] | None) -> Grammar:
    template, vocab = c.template, c.engine.vocab
    if not isinstance(template, StrictCalls):
        raise TemplateError(
            f"the template {template.name} has no grammar of calls, so tools cannot be strict; use strict=False, and "
            "calls are validated when they are written"
        )
    for tag in (template.call_opener, template.call_closer, template.end_of_turn):
        if vocab.token_id(tag) is None:
            raise TemplateError(f"this model has no token {tag}, so its calls cannot be held to a grammar")
    written = json.dumps(tools)
    for patterns in (True, False):
        try:
            return Grammar(_call_text(template, written, names, patterns), vocab)
        except ConstraintError as error:
            logger.info("tool schemas are left to the validation in part: %s", error)
    free = [name for tool, name in _named(tools) if not _can_be_held(template, tool, vocab)]
    logger.warning("no grammar can hold the schemas of %s; their calls are only validated", ", ".join(free))
    rest = frozenset(name for _, name in _named(tools) if name not in free and (names is None or name in names))
    return Grammar(_call_text(template, written, rest, False), vocab)


def _named(tools: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], str]]:
    return [(tool, str(tool.get("function", tool)["name"])) for tool in tools]


def _can_be_held(template: StrictCalls, tool: Mapping[str, Any], vocab: VocabLike) -> bool:
    try:
        Grammar(template.call_grammar([tool], patterns=False), vocab)
    except ConstraintError:
        return False
    return True


@lru_cache(maxsize=64)
def _call_text(template: StrictCalls, tools: str, names: frozenset[str] | None, patterns: bool) -> str:
    return template.call_grammar(json.loads(tools), names, patterns=patterns)
