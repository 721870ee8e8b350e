"""`agentloop inspect FILE` for a saved state: what a snapshot holds. Its hash is checked; no engine is needed."""

from __future__ import annotations

import json as _json
from pathlib import Path
from typing import Any

from ..engine.snapshots import Snapshot

__all__ = ["describe_state", "inspect_state", "is_state"]


def is_state(path: Path) -> bool:
    """True for a file that begins as a snapshot does."""
    try:
        with path.open("rb") as file:
            return file.read(6) == b"ALSNAP"
    except OSError:
        return False


def describe_state(path: Path) -> dict[str, Any]:
    """The JSON form: tokens, bytes, checkpoints, and what the state belongs to. Raises SnapshotError for a bad file."""
    with path.open("rb") as file:
        snapshot = Snapshot.read(file)
    return {
        "state": str(path),
        "file_bytes": path.stat().st_size,
        "tokens": len(snapshot.tokens),
        "decoded": snapshot.n_decoded,
        "state_bytes": len(snapshot.state),
        "logits": snapshot.row is not None,
        "checkpoints": [
            {"position": c.position, "label": c.label, "pinned": c.pinned, "bytes": c.n_bytes}
            for c in snapshot.checkpoints
        ],
        "drafters": {name: len(data) for name, data in snapshot.drafters.items()},
        "extra": {name: len(data) for name, data in snapshot.extra.items()},
        "fingerprint": dict(snapshot.fingerprint),
    }


def inspect_state(path: Path, *, json: bool) -> int:
    """Print it, as lines for people or as one JSON object."""
    facts = describe_state(path)
    if json:
        print(_json.dumps(facts))
        return 0
    rows: dict[str, object] = {
        "state": facts["state"],
        "file": f"{facts['file_bytes']:,} bytes, whole and unaltered",
        "tokens": f"{facts['tokens']:,}, {facts['decoded']:,} of them decoded",
        "model state": f"{facts['state_bytes']:,} bytes",
        "logits": "kept" if facts["logits"] else "not kept",
    }
    for c in facts["checkpoints"]:
        pinned = ", pinned" if c["pinned"] else ""
        rows[f"checkpoint {c['position']}"] = f"{c['label'] or 'unnamed'}{pinned}, {c['bytes']:,} bytes"
    for name, size in {**facts["drafters"], **facts["extra"]}.items():
        rows[name] = f"{size:,} bytes"
    rows["library"] = f"llama-cpp-python {facts['fingerprint'].get('library', 'unknown')}"
    rows["model hash"] = facts["fingerprint"].get("model", "unknown")
    for key, value in rows.items():
        print(f"{key:16} {value}")
    return 0
