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
