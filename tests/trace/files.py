"""Saved conversations for tests of the trace page."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def change(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Edit the body of a saved conversation and sign it again, as a file of another version would be."""
    data = json.loads(path.read_text())
    edit(data["body"])
    body = json.dumps(data["body"], ensure_ascii=True, separators=(",", ":"))
    data["sha256"] = hashlib.sha256(body.encode()).hexdigest()
    path.write_text(json.dumps(data, ensure_ascii=True, separators=(",", ":")) + "\n")


HOSTILE = (
    '</script></pre><script>window.pwned = 1</script><img src=x onerror="window.pwned = 2">&lt;b&gt; ]]> \u2028 <!--'
)


def timed_body(turns: int = 3, steps: int = 6) -> dict[str, Any]:
    """The body of a saved conversation with a timeline that is known to the last digit: each turn has a prefill of 0.2
    s, `steps` steps of 0.1 s, the second of them drafted, and a tool of 0.3 s."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Help."}]
    rows: list[dict[str, Any]] = []
    entries: list[dict[str, Any]] = []
    at = 1_700_000_000.0
    usage = {"new": 10, "recomputed": 0, "generated": 2 * steps + 3, "reasoning": 0, "prefill_s": 0.2, "draft_s": 0.01}
    more = {"decode_s": 0.1 * steps, "drafted": {"suffix": 5}, "accepted": {"suffix": 4}, "finish_reason": "end"}
    for n in range(turns):
        first = len(messages)
        call = {"id": f"call_{n}", "type": "function", "function": {"name": "add", "arguments": {"a": n}}}
        messages.append({"role": "user", "content": f"question {n}"})
        messages.append({"role": "assistant", "content": f"answer {n}", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{n}", "name": "add", "content": f"result {n}"})
        own = {"reused": 15 * n, **usage, **more}
        rows.append({"first": first, "reply": first + 1, "start": 0, "prompt_end": 10, "end": 25, "finish": "end"})
        rows[-1] |= {"ended": "complete", "usage": own}
        made: list[list[Any]] = [[0.2 + 0.1 * i, 0.1, 2, "content", f"word{n}.{i} "] for i in range(steps)]
        made[1] = [0.3, 0.1, 5, "content", f"drafted{n} own{n} ", "suffix", 5, 4, 0.01, len(f"drafted{n} ")]
        entries.append({"kind": "turn", "at": at, "turn": n, "finish": "end", "reused": 15 * n, "new": 10})
        entries[-1] |= {"recomputed": 0, "generated": own["generated"], "prefill_s": 0.2, "prompt": f"question {n}"}
        entries[-1]["steps"] = made
        at += 0.2 + 0.1 * steps
        entries.append({"kind": "tool", "at": at, "seconds": 0.3, "id": f"call_{n}", "name": "add", "outcome": "ok"})
        at += 0.3
    sums = {name: sum(row["usage"][name] for row in rows) for name in ("reused", *usage, "decode_s")}
    return {
        "model_name": "a model",
        "template": "qwen3.8",
        "messages": messages,
        "turns": rows,
        "usage": sums,
        "timeline": entries,
    }


def write_body(path: Path, body: dict[str, Any]) -> Path:
    """Sign a body as a saved conversation."""
    path.write_text(json.dumps({"agentloop": "conversation", "version": 1, "sha256": "", "body": body}))
    change(path, lambda _: None)
    return path
