"""Timeline: when a conversation did what, for `agentloop trace`. Saved with it, beside its turns.

Entries are JSON values, in the order in which they ended; `at` is the begin in seconds of the Unix clock:

    {"kind": "turn", "at", "turn": index in `turns` or null, "finish", "reused", "new", "recomputed", "generated",
     "prefill_s", "prompt": text of the new tokens or null, "steps": [...]}
    {"kind": "tool", "at", "seconds", "id", "name", "outcome"}
    {"kind": "mark", "at", "seconds", "what": "rewound" | "compacted" | "rewritten" | "loaded" | "forked", ...}

A step is a list, times in seconds from the turn's begin; the last five are there only where a drafter proposed or
steering forced:

    [begin, seconds, tokens, phase, text, drafter or "forced", drafted, accepted, draft seconds, accepted characters]

Plain steps of one phase are joined, up to 16 tokens. Turns that were taken back keep their figures (`gone` says why)
and lose their text: what is forgotten stays forgotten when the conversation is saved.
"""

from __future__ import annotations

import codecs
import contextlib
import time
from collections.abc import Iterable, Sequence
from typing import Any

from ..engine.seam import SequenceLike, Token, VocabLike
from ..exceptions import EngineError
from ..limits import TurnUsage

__all__ = ["Timeline", "TurnRecorder"]

JOINED = 16
"""Plain tokens of one step at most: how fine the text under the cursor is."""

Entry = dict[str, Any]


class Timeline:
    """`entries` grow while the conversation is used; they are never changed in place, so forks may share them."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries: list[Entry] = list(entries)

    def copy(self) -> Timeline:
        """The same entries, to go on with separately."""
        return Timeline(self.entries)

    def clear(self) -> None:
        """Forget all of it."""
        self.entries = []

    def turn(self, entry: Entry) -> None:
        """A model turn ended, or was cut."""
        self.entries.append(entry)

    def tool(self, call_id: str, name: str, began: float | None, outcome: str) -> None:
        """A call ended now; its tool began at `began` of the Unix clock, None if it never did."""
        now = time.time()
        at = now if began is None else began
        times = {"at": round(at, 6), "seconds": round(max(0.0, now - at), 6)}
        self.entries.append({"kind": "tool", **times, "id": call_id, "name": name, "outcome": outcome})

    def mark(self, what: str, seconds: float = 0.0, **facts: Any) -> None:
        """Something else happened, and ended now."""
        began = round(time.time() - seconds, 6)
        self.entries.append({"kind": "mark", "at": began, "seconds": round(seconds, 6), "what": what, **facts})

    def take_back(self, first: int, why: str, *, keep_text: bool = False) -> None:
        """The turns from index `first` on, and those that were cut behind them, are no part of the conversation."""
        turns = [i for i, e in enumerate(self.entries) if e["kind"] == "turn" and "gone" not in e]
        begin = next((i for i in turns if (self.entries[i]["turn"] or -1) >= first), None)
        if first == 0:
            begin = turns[0] if turns else None
        if begin is not None:
            mine = {i for i in turns if i >= begin}
            self.entries = [_gone(e, why, keep_text) if i in mine else e for i, e in enumerate(self.entries)]

    @classmethod
    def from_json(cls, entries: Any) -> Timeline:
        """Read what was saved; raises TypeError for anything but a list of entries."""
        if not isinstance(entries, list) or not all(isinstance(e, dict) and "kind" in e for e in entries):
            raise TypeError("a timeline is a list of entries")
        return cls(entries)


def _gone(entry: Entry, why: str, keep_text: bool) -> Entry:
    entry = {**entry, "turn": None, "gone": why}
    if not keep_text:
        entry["prompt"] = None
        entry["steps"] = [[*step[:4], None, *step[5:]] for step in entry["steps"]]
    return entry


class TurnRecorder:
    """Times one model turn. `saw` is called with every token, behind the step that made it: all tokens of that step are
    in the sequence by then, so a new length is a new step."""

    def __init__(self, sequence: SequenceLike) -> None:
        self._sequence = sequence
        self._at = time.time()
        self._began = self._last = time.perf_counter()
        self._prefill_s = 0.0
        self._start = self._seen = len(sequence)
        self._stats = sequence.stats
        self._draft_s: float = getattr(sequence, "drafting_s", 0.0)
        self._steps: list[list[Any]] = []
        self._joined = False  # the last step may be joined
        self._phase: str | None = None

    def prefilled(self) -> None:
        """The prompt is decoded; what comes now is the reply."""
        self._last = time.perf_counter()
        self._prefill_s = self._last - self._began
        self._start = self._seen = len(self._sequence)
        self._stats = self._sequence.stats

    def saw(self, token: Token, phase: str) -> None:
        """`token` was made, and the reply is in `phase` behind its step."""
        length = len(self._sequence)
        if length == self._seen:
            return
        before, self._phase = self._phase, phase
        if before == "call" or (before == "reasoning" and phase == "content"):
            phase = before  # what ends a call or the reasoning belongs to it
        count, self._seen = length - self._seen, length
        began, self._last = self._last, time.perf_counter()
        draft_s: float = getattr(self._sequence, "drafting_s", 0.0)
        if draft_s != self._draft_s or token.drafted_by is not None:
            self._drafted(began, count, phase, token, draft_s)
        elif self._joined and self._steps[-1][2] < JOINED and self._steps[-1][3] == phase:
            step = self._steps[-1]
            step[1] = self._last - self._began - step[0]
            step[2] += count
        else:
            self._steps.append([began - self._began, self._last - began, count, phase, None])
            self._joined = True

    def _drafted(self, began: float, count: int, phase: str, token: Token, draft_s: float) -> None:
        stats = self._sequence.stats
        spent, self._stats = stats - self._stats, stats
        spent_s, self._draft_s = draft_s - self._draft_s, draft_s
        name = next((n for n, k in spent.drafted.items() if k), token.drafted_by)
        drafted, accepted = sum(spent.drafted.values()), sum(spent.accepted.values())
        times = [began - self._began, self._last - began]
        self._steps.append([*times, count, phase, None, name, drafted, min(accepted, count), spent_s, 0])
        self._joined = False

    def entry(self, vocab: VocabLike, usage: TurnUsage, prompt: Sequence[int], turn: int | None) -> Entry:
        """The entry of the turn, which has ended: `prompt` are its new tokens."""
        if not self._prefill_s:
            self._prefill_s = time.perf_counter() - self._began
        text: str | None = None
        with contextlib.suppress(EngineError):  # an engine that was closed spells nothing; the figures stay
            self._spell(vocab)
            text = vocab.decode(prompt).decode("utf-8", "replace")
        return {
            "kind": "turn",
            "at": round(self._at, 6),
            "turn": turn,
            "finish": usage.finish_reason,
            "reused": usage.reused,
            "new": usage.new,
            "recomputed": usage.recomputed,
            "generated": usage.generated,
            "prefill_s": round(self._prefill_s, 6),
            "prompt": text,
            "steps": [[round(v, 6) if isinstance(v, float) else v for v in step] for step in self._steps],
        }

    def _spell(self, vocab: VocabLike) -> None:
        """Put the text into the steps; a character that spans two of them goes to the second."""
        ids = self._sequence.tokens[self._start : self._seen]
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        at = 0
        for step in self._steps:
            mine = ids[at : at + step[2]]
            at += step[2]
            accepted = step[7] if len(step) > 7 else 0
            text = decoder.decode(vocab.decode(mine[:accepted])) if accepted else ""
            if accepted:
                step[9] = len(text)
            step[4] = text + decoder.decode(vocab.decode(mine[accepted:]))
        if self._steps:
            self._steps[-1][4] += decoder.decode(b"", final=True)
