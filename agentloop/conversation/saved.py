"""A conversation as a file: JSON, version 1, and the live state beside it where the engine can write one.

    {"agentloop": "conversation", "version": 1, "sha256": hex of the canonical JSON of body, "body": {...}}

Canonical JSON: keys in their own order (that of a schema counts), no white space, ASCII. Reading makes numbers, text
and containers only: a saved conversation cannot run code. The state beside it (`NAME.state`) is a snapshot; it is used
only when its tokens are the conversation's, and never needed: without it the tokens are decoded again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, runtime_checkable

from ..engine.seam import CancelToken, EngineLike, Progress, Sampling, SequenceLike
from ..engine.snapshots import Snapshot
from ..exceptions import ConversationError, SnapshotError
from ..limits import Usage
from .thinking import Thinking
from .timeline import Timeline
from .turns import Turn

if TYPE_CHECKING:
    from ..templates import Template
    from .conversation import Conversation

__all__ = ["load", "read_saved", "save", "state_path"]

VERSION = 1

logger = logging.getLogger(__name__)


@runtime_checkable
class CanSnapshot(Protocol):
    def snapshot(self) -> Snapshot: ...


@runtime_checkable
class CanRestore(Protocol):
    def restore(self, snapshot: Snapshot) -> SequenceLike: ...


@runtime_checkable
class HasFingerprint(Protocol):
    def fingerprint(self) -> Mapping[str, str]: ...


def state_path(path: str | os.PathLike[str]) -> Path:
    """Where the live state of the conversation saved at `path` lies."""
    path = Path(path)
    return path.with_name(path.name + ".state")


def save(conversation: Conversation, path: str | os.PathLike[str], *, state: bool) -> None:
    """See `Conversation.save`."""
    path = Path(path)
    try:
        if path.is_dir():
            raise ConversationError(f"{path} is a folder; give the name of a file to save to")
        folder = path.absolute().parent
        if not folder.is_dir():
            raise ConversationError(f"there is no folder {folder} to save {path.name} in; make it first")
        _save(conversation, path, state)
    except OSError as error:
        raise ConversationError(f"{path} cannot be saved: {error.strerror or error}") from error


def _save(conversation: Conversation, path: Path, state: bool) -> None:
    body = json.dumps(to_body(conversation), ensure_ascii=True, separators=(",", ":"))
    digest = hashlib.sha256(body.encode()).hexdigest()
    text = f'{{"agentloop":"conversation","version":{VERSION},"sha256":"{digest}","body":{body}}}\n'
    sequence = conversation.sequence
    # The state goes first: killed between the two, the old file meets a state with other tokens and decodes its own.
    if state and isinstance(sequence, CanSnapshot):
        snapshot = sequence.snapshot()
        _write(state_path(path), snapshot.write)
    else:
        state_path(path).unlink(missing_ok=True)
    _write(path, lambda file: file.write(text.encode()))


def read_saved(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The body of a saved conversation as plain data (`messages`, `tokens`, `turns`, ...), without an engine.

    Raises SnapshotError: `missing`, `truncated`, `altered`, `version`, or `foreign` for another kind of file.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SnapshotError("missing", f"{path}: there is no such file") from None
    except (UnicodeDecodeError, OSError) as error:
        raise SnapshotError(
            "foreign", f"{path}: this is no saved conversation, as save_to= and /save in chat write it ({error})"
        ) from None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        ours = text.startswith('{"agentloop":"conversation"')
        reason = "truncated" if ours and not text.endswith("}\n") else "altered" if ours else "foreign"
        raise SnapshotError(reason, f"{path}: the file is {reason}; it is no whole saved conversation") from None
    if not isinstance(data, dict) or data.get("agentloop") != "conversation":
        raise SnapshotError("foreign", f"{path}: this is no saved conversation, as save_to= and /save in chat write it")
    if data.get("version") != VERSION:
        raise SnapshotError("version", f"{path}: version {data.get('version')!r} is not {VERSION}, the one read here")
    body = data.get("body")
    canonical = json.dumps(body, ensure_ascii=True, separators=(",", ":"))
    if not isinstance(body, dict) or hashlib.sha256(canonical.encode()).hexdigest() != data.get("sha256"):
        raise SnapshotError("altered", f"{path}: the content does not match its hash; it was changed")
    return body


def load(
    kind: type[Conversation],
    path: str | os.PathLike[str],
    engine: EngineLike,
    *,
    template: Template | None,
    cancel: CancelToken | None,
    progress: Progress | None,
) -> Conversation:
    """See `Conversation.load`."""
    body = read_saved(path)
    found, expected = dict(body["fingerprint"]), _fingerprint(engine)
    if found.get("model") != expected.get("model"):
        raise SnapshotError(
            "foreign",
            f"{path}: the conversation belongs to the model {body.get('model_name')!r}; load that one, or start a new "
            "conversation from the messages of read_saved(path)",
        )
    try:
        conversation = kind(
            engine,
            tools=body["tools"],
            template=template,
            thinking=Thinking(**body["thinking"]),
            sampling=Sampling(**body["sampling"]),
        )
        if conversation.template.name != body["template"]:
            raise SnapshotError(
                "foreign",
                f"{path}: it was made with the template {body['template']!r}, not {conversation.template.name!r}",
            )
        conversation._messages = [dict(message) for message in body["messages"]]
        conversation._turns = [Turn.from_dict(turn) for turn in body["turns"]]
        conversation._mark, conversation._closed = int(body["mark"]), int(body["closed"])
        conversation._ended, conversation._head = body["ended"], int(body["head"])
        conversation._calls, conversation.held = int(body["calls"]), dict(body["held"])
        conversation.usage = Usage.from_dict(body["usage"])
        conversation.timeline = Timeline.from_json(body.get("timeline", []))  # older files have none
        tokens = [int(token) for token in body["tokens"]]
    except (KeyError, TypeError, ValueError) as error:
        raise SnapshotError("altered", f"{path}: the content is not that of a conversation ({error!r})") from error
    began = time.monotonic()
    conversation._sequence = _sequence(conversation._sequence, engine, state_path(path), tokens, cancel, progress)
    conversation.timeline.mark("loaded", time.monotonic() - began)
    return conversation


def to_body(conversation: Conversation) -> dict[str, Any]:
    """Everything of a conversation but its live state, as JSON values."""
    return {
        "fingerprint": dict(_fingerprint(conversation.engine)),
        "model_name": conversation.engine.name,
        "template": conversation.template.name,
        "thinking": asdict(conversation.thinking),
        "sampling": asdict(conversation.sampling),
        "tools": conversation.tools,
        "messages": conversation.messages,
        "turns": [turn.to_dict() for turn in conversation.turns],
        "tokens": list(conversation.tokens),
        "mark": conversation._mark,
        "closed": conversation._closed,
        "ended": conversation._ended,
        "head": conversation._head,
        "calls": conversation._calls,
        "held": conversation.held,
        "usage": conversation.usage.to_dict(),
        "timeline": conversation.timeline.entries,
    }


def _sequence(
    fresh: SequenceLike,
    engine: EngineLike,
    path: Path,
    tokens: list[int],
    cancel: CancelToken | None,
    progress: Progress | None,
) -> SequenceLike:
    if isinstance(engine, CanRestore) and path.exists():
        try:
            with path.open("rb") as file:
                snapshot = Snapshot.read(file)
            if list(snapshot.tokens) == tokens[: len(snapshot.tokens)]:
                restored = engine.restore(snapshot)
                if len(snapshot.tokens) < len(tokens):
                    restored.extend(tokens[len(snapshot.tokens) :], cancel=cancel, progress=progress)
                fresh.close()
                return restored
            logger.info("%s holds other tokens than the conversation; decoding them again", path)
        except (SnapshotError, OSError) as error:
            logger.info("%s cannot be used (%s); decoding the tokens again", path, error)
    fresh.extend(tokens, cancel=cancel, progress=progress)
    return fresh


def _fingerprint(engine: EngineLike) -> Mapping[str, str]:
    return engine.fingerprint() if isinstance(engine, HasFingerprint) else {"model": engine.name}


def _write(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Write a new file beside `path` and put it in its place, on disk before it is seen."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
