"""`agentloop inspect FILE` for a saved conversation: who said how much, what it cost, and where its live state lies."""

from __future__ import annotations

import json as _json
from collections import Counter
from pathlib import Path
from typing import Any

from ..conversation.saved import read_saved, state_path
from ..limits import Usage

__all__ = ["describe_talk", "inspect_talk", "is_talk"]


def is_talk(path: Path) -> bool:
    """True for a file that begins as a saved conversation does."""
    try:
        with path.open("rb") as file:
            return file.read(27) == b'{"agentloop":"conversation"'
    except OSError:
        return False


def describe_talk(path: Path) -> dict[str, Any]:
    """The JSON form: messages by role, tokens, what its turns cost, and the file of its live state, or null. Raises
    SnapshotError for a file that was cut or changed."""
    body = read_saved(path)
    usage = Usage.from_dict(body["usage"])
    state = state_path(path)
    return {
        "conversation": str(path),
        "file_bytes": path.stat().st_size,
        "model": body["model_name"],
        "template": body["template"],
        "messages": dict(Counter(message["role"] for message in body["messages"])),
        "tools": [tool["function"]["name"] for tool in body["tools"]],
        "turns": len(body["turns"]),
        "tokens": len(body["tokens"]),
        "usage": {name: getattr(usage, name) for name in ("reused", "new", "recomputed", "generated")},
        "state": str(state) if state.exists() else None,
        "state_bytes": state.stat().st_size if state.exists() else 0,
    }


def inspect_talk(path: Path, *, json: bool) -> int:
    """Print it, as lines for people or as one JSON object."""
    facts = describe_talk(path)
    if json:
        print(_json.dumps(facts))
        return 0
    state = "none: its tokens are decoded again when it is loaded"
    if facts["state"]:
        state = f"{facts['state']} ({facts['state_bytes']:,} bytes); agentloop inspect shows it too"
    rows = {
        "conversation": facts["conversation"],
        "file": f"{facts['file_bytes']:,} bytes, whole and unaltered",
        "model": facts["model"],
        "template": facts["template"],
        "messages": ", ".join(f"{n} {role}" for role, n in facts["messages"].items()) or "none",
        "tools": ", ".join(facts["tools"]) or "none",
        "turns": f"{facts['turns']:,}",
        "tokens": f"{facts['tokens']:,}",
        "cost": ", ".join(f"{name} {n:,}" for name, n in facts["usage"].items()),
        "live state": state,
        "go on": f"agentloop chat --resume {facts['conversation']}",
    }
    for key, value in rows.items():
        print(f"{key:16} {value}")
    return 0
