"""A saved conversation as what the page draws: turns, tools and marks on one axis of time, long waits cut out.

Files without a timeline, or with one that begins late (written by older versions), are drawn from the sums of their
turns, one behind the other; `notes` say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from ..conversation import read_saved
from ..exceptions import SnapshotError

__all__ = ["WAIT", "read_trace"]

WAIT = 1.0
"""Seconds: a longer time in which nothing happened is drawn as this long, or as a twentieth of the busy time."""

_STATE = b"ALSNAP"


def read_trace(path: str | PathLike[str]) -> dict[str, Any]:
    """JSON values for the page. Times `t` are seconds on its axis, `at` those of the Unix clock.

    Raises SnapshotError: `missing`, `truncated`, `altered`, `version`, or `foreign` for another kind of file.
    """
    path = Path(path)
    _refuse_state(path)
    body = read_saved(path)
    try:
        return _data(path.name, body)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise SnapshotError("altered", f"{path}: the content is not that of a conversation ({error!r})") from error


def _refuse_state(path: Path) -> None:
    try:
        with path.open("rb") as file:
            begin = file.read(len(_STATE))
    except OSError:
        return  # read_saved says what is wrong
    if begin == _STATE:
        named = f": {path.with_suffix('')}" if path.suffix == ".state" else ""
        raise SnapshotError(
            "foreign",
            f"{path}: this is the live state of a conversation; give the file that was saved beside it{named}",
        )


def _data(name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    entries = [dict(entry) for entry in body.get("timeline") or []]
    notes: list[str] = []
    turns = [_turn(e) for e in entries if e["kind"] == "turn"]
    known = {turn["n"] for turn in turns}
    older = [i for i in range(len(body["turns"])) if i not in known]
    if older:
        what = "holds no timeline" if not turns else f"has no timeline of {len(older)} of its turns"
        notes.append(
            f"This file {what}: it was begun by a version that kept none. These turns are drawn one behind the other "
            "from their sums; when they and their tools ran is not recorded."
        )
    tools = [_tool(e) for e in entries if e["kind"] == "tool"]
    marks = [_mark(e) for e in entries if e["kind"] == "mark"]
    old = [_old_turn(i, body) for i in older]
    _place(old, min((e["at"] for e in (*turns, *tools, *marks)), default=0.0))
    turns = old + turns
    gaps, length = _axis([*turns, *tools, *marks])
    for lane, tool in zip(_lanes(tools), tools, strict=True):
        tool["lane"] = lane
    _say_calls(tools, body["messages"])
    if any(turn["gone"] and turn["prompt"] is None for turn in turns):
        notes.append("Turns that were taken back keep their figures; their text is forgotten.")
    usage = body["usage"]
    sums = ("reused", "new", "recomputed", "generated", "reasoning", "prefill_s", "draft_s", "decode_s")
    return {
        "file": name,
        "model": str(body["model_name"]),
        "template": str(body["template"]),
        "notes": notes,
        "timed": bool(entries),
        "usage": {name: _number(usage[name]) for name in sums},
        "turns": turns,
        "tools": tools,
        "marks": marks,
        "gaps": gaps,
        "length": length,
    }


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e15:
        raise ValueError(f"{value!r} is not a number")
    return value


def _turn(e: Mapping[str, Any]) -> dict[str, Any]:
    counts = {name: int(_number(e[name])) for name in ("reused", "new", "recomputed", "generated")}
    steps = [_step(step) for step in e["steps"]]
    prefill = max(0.0, _number(e["prefill_s"]))
    end = max([prefill, *(step[0] + step[1] for step in steps)])
    return {
        "at": float(_number(e["at"])),
        "d": end,
        "n": None if e["turn"] is None else int(e["turn"]),
        "finish": str(e["finish"]),
        "gone": e.get("gone"),
        "prefill": prefill,
        "prompt": _text(e["prompt"]),
        "steps": steps,
        **counts,
    }


def _step(step: list[Any]) -> list[Any]:
    """As the timeline has it: the last five are there only where something was drafted or forced."""
    times = [max(0.0, float(_number(v))) for v in step[:2]]
    out = [*times, int(step[2]), str(step[3]), _text(step[4])]
    if len(step) > 5:
        name = "" if step[5] is None else str(step[5])
        out += [name, int(step[6]), int(step[7]), max(0.0, float(_number(step[8]))), int(step[9])]
    return out


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _tool(e: Mapping[str, Any]) -> dict[str, Any]:
    at, seconds = float(_number(e["at"])), max(0.0, float(_number(e["seconds"])))
    return {"at": at, "d": seconds, "id": str(e["id"]), "name": str(e["name"]), "outcome": str(e["outcome"])}


def _mark(e: Mapping[str, Any]) -> dict[str, Any]:
    at, seconds = float(_number(e["at"])), max(0.0, float(_number(e["seconds"])))
    facts = {name: e[name] for name in ("turn", "before", "after") if isinstance(e.get(name), int)}
    return {"at": at, "d": seconds, "what": str(e["what"]), **facts}


def _old_turn(i: int, body: Mapping[str, Any]) -> dict[str, Any]:
    """A turn that has no entry, from its sums: all that was decoded is one step."""
    turn = body["turns"][i]
    usage, messages = turn["usage"], body["messages"]
    said = messages[turn["reply"]] if turn["reply"] < len(messages) else {}
    text = "\n\n".join(str(said[key]) for key in ("reasoning_content", "content") if said.get(key))
    prompt = "\n\n".join(str(m["content"]) for m in messages[turn["first"] : turn["reply"]])
    prefill, seconds = _number(usage["prefill_s"]), _number(usage["decode_s"])
    drafted, accepted = sum(usage["drafted"].values()), sum(usage["accepted"].values())
    step = [prefill, seconds, usage["generated"], "content", text]
    if drafted:
        step += [", ".join(usage["drafted"]), drafted, accepted, _number(usage["draft_s"]), 0]
    entry = {
        **{name: usage[name] for name in ("reused", "new", "recomputed", "generated")},
        "at": 0.0,
        "turn": i,
        "finish": turn["finish"],
        "prefill_s": prefill,
        "prompt": prompt,
        "steps": [step],
    }
    return {**_turn(entry), "old": True}


def _place(turns: list[dict[str, Any]], end: float) -> None:
    at = end - sum(turn["d"] for turn in turns)
    for turn in turns:
        turn["at"] = at
        at += turn["d"]


def _axis(items: list[dict[str, Any]]) -> tuple[list[list[float]], float]:
    """Put `t` into the items: seconds from the first, with long waits cut. Returns the cuts, [t, seconds that were left
    out], and the axis's length."""
    order = sorted(items, key=lambda item: item["at"])
    busy, reached = 0.0, None
    for item in order:
        end = item["at"] + item["d"]
        busy += max(0.0, end - max(item["at"], item["at"] if reached is None else reached))
        reached = end if reached is None else max(reached, end)
    shown = max(WAIT, busy / 20)
    gaps: list[list[float]] = []
    reached, cut = (order[0]["at"] if order else 0.0), 0.0
    start = reached
    for item in order:
        wait = item["at"] - reached
        if wait > shown:
            gaps.append([round(reached - start - cut + shown / 2, 6), round(wait - shown, 6)])
            cut += wait - shown
        item["t"] = round(item["at"] - start - cut, 6)
        reached = max(reached, item["at"] + item["d"])
    return gaps, round(reached - start - cut, 6)


def _lanes(tools: list[dict[str, Any]]) -> Iterable[int]:
    """A row for each tool, so that no two of one row overlap."""
    ends: list[float] = []
    rows = [0] * len(tools)
    for i in sorted(range(len(tools)), key=lambda i: tools[i]["t"]):
        row = next((r for r, end in enumerate(ends) if end <= tools[i]["t"]), len(ends))
        ends[row : row + 1] = [tools[i]["t"] + tools[i]["d"]]
        rows[i] = row
    return rows


def _say_calls(tools: list[dict[str, Any]], messages: list[Mapping[str, Any]]) -> None:
    """Arguments and results, where the conversation still has them."""
    asked: dict[str, Any] = {}
    told: dict[str, str] = {}
    for message in messages:
        asked.update({call["id"]: call["function"]["arguments"] for call in message.get("tool_calls") or ()})
        if message["role"] == "tool" and message.get("tool_call_id") is not None:
            told[message["tool_call_id"]] = str(message["content"])
    for tool in tools:
        tool["arguments"] = asked.get(tool["id"])
        tool["result"] = told.get(tool["id"])
