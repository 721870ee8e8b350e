"""The page's structure without a browser: one file, no requests, every text escaped; what is read of which files."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from agentloop.cli import main
from agentloop.conversation import Conversation
from agentloop.exceptions import AgentLoopError, SnapshotError
from agentloop.testing import ScriptedEngine, say
from agentloop.trace import page, read_trace, write_page
from tests.trace.files import HOSTILE, change, timed_body, write_body

VOID = {"meta", "img", "br"}


class Reader(HTMLParser):
    """The elements of a page; `texts` by tag, `open` tags that were not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def data_of(reader: Reader) -> Any:
    return json.loads(reader.texts["script"][0])


def read(tmp_path: Path, body: dict[str, Any]) -> dict[str, Any]:
    return read_trace(write_body(tmp_path / "c.json", body))


def test_structure(tmp_path: Path) -> None:
    data = read(tmp_path, timed_body())
    text = page(data)
    reader = Reader(text)
    assert reader.open == []
    assert text.startswith("<!doctype html>")
    assert data_of(reader) == data
    assert reader.texts["h1"] == ["c.json"]
    assert len(reader.all("tr")) == 1 + len(data["turns"])
    assert [button["data-turn"] for button in reader.all("button") if "data-turn" in button] == ["0", "1", "2"]
    assert {"lanes", "whole", "tip", "detail"} <= {attributes.get("id") for _, attributes in reader.tags}
    tiles = dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", text))
    assert (tiles["turns"], tiles["generated"], tiles["drafts accepted"]) == ("3", "45", "80%")


def test_nothing_is_requested(tmp_path: Path) -> None:
    """No address in it, no attribute that loads or runs, and a policy that names the script and the style by hash."""
    text = page(read(tmp_path, timed_body()))
    reader = Reader(text)
    assert not re.search(r"https?:|url\(|@import|\bsrc=|\bhref=|\bon\w+=", text)
    assert {tag for tag, _ in reader.tags}.isdisjoint({"link", "img", "iframe", "object", "embed", "base", "form"})
    assert not any("style" in attributes for _, attributes in reader.tags)
    (policy,) = [m["content"] for m in reader.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    for kind, body in (("style", reader.texts["style"][0]), ("script", reader.texts["script"][1])):
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_hostile_texts(tmp_path: Path) -> None:
    body = timed_body()
    body["model_name"] = body["template"] = HOSTILE
    for message in body["messages"]:
        message["content"] = HOSTILE
    for entry in body["timeline"]:
        entry.update({"finish": HOSTILE, "gone": HOSTILE, "prompt": HOSTILE} if entry["kind"] == "turn" else {})
        entry.update({"name": HOSTILE, "outcome": HOSTILE} if entry["kind"] == "tool" else {})
    path = write_body(tmp_path / "<script>alert(1)<!--.json", body)
    reader = Reader(page(read_trace(path)))
    assert reader.open == []
    assert len(reader.all("script")) == 2
    assert reader.all("img") == []
    assert data_of(reader)["turns"][0]["prompt"] == HOSTILE
    assert "".join(reader.texts["h1"]) == path.name
    assert "".join(reader.texts["td"]).count(HOSTILE) == 6


def test_waits_are_cut(tmp_path: Path) -> None:
    body = timed_body()
    for entry in body["timeline"][2:]:
        entry["at"] += 3600
    data = read(tmp_path, body)
    ((at, cut),) = data["gaps"]
    assert (at, cut) == (pytest.approx(1.6), pytest.approx(3599))
    assert data["turns"][1]["t"] == pytest.approx(2.1)
    assert data["length"] == pytest.approx(4.3)
    assert read(tmp_path, timed_body())["gaps"] == []


def test_parallel_tools_get_rows_of_their_own(tmp_path: Path) -> None:
    body = timed_body(turns=1)
    (tool,) = [entry for entry in body["timeline"] if entry["kind"] == "tool"]
    body["timeline"] += [{**tool, "at": tool["at"] + by, "id": f"x{by}"} for by in (0.1, 0.2, 0.31)]
    tools = read(tmp_path, body)["tools"]
    assert [tool["lane"] for tool in tools] == [0, 1, 2, 0]
    assert (tools[0]["arguments"], tools[0]["result"]) == ({"a": 0}, "result 0")
    assert (tools[1]["arguments"], tools[1]["result"]) == (None, None)


@pytest.mark.parametrize("kept", [0, 2, 4])
def test_turns_without_a_timeline(tmp_path: Path, kept: int) -> None:
    """Of an old file, or one that an old version began: drawn from their sums, before the rest, with a note."""
    body = timed_body()
    body["timeline"] = body["timeline"][len(body["timeline"]) - kept :]
    data = read(tmp_path, body)
    assert [turn["n"] for turn in data["turns"]] == [0, 1, 2]
    old = [turn for turn in data["turns"] if turn.get("old")]
    assert len(old) == 3 - kept // 2
    (note,) = data["notes"]
    assert "not recorded" in note
    first = data["turns"][0]
    assert (first["prompt"], first["steps"][0][4]) == ("question 0", "answer 0")
    assert first["steps"][0][5:9] == ["suffix", 5, 4, 0.01]
    starts = [turn["t"] for turn in data["turns"]]
    assert starts == sorted(starts)
    assert starts[0] == 0
    Reader(page(data))


def test_a_real_run(tmp_path: Path) -> None:
    conversation = Conversation(ScriptedEngine([say("one"), say("two")]))
    for question in "ab":
        conversation.user(question)
        conversation.reply()
    conversation.rewind(-1)
    conversation.save(tmp_path / "run.json")
    path = write_page(tmp_path / "run.json")
    assert path == tmp_path / "run.html"
    data = data_of(Reader(path.read_text()))
    assert [turn["gone"] for turn in data["turns"]] == [None, "rewound"]
    assert any("taken back" in note for note in data["notes"])


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("none.json", None, "missing"),
        ("broken.json", '{"agentloop":"conversation","version":1,"sha', "truncated"),
        ("other.json", '{"hello": 1}', "foreign"),
        ("text.txt", "hello", "foreign"),
        ("bytes", b"\xff\xfe\x00", "foreign"),
        ("run.json.state", b"ALSNAP\x00\x01", "foreign"),
        ("new.json", '{"agentloop":"conversation","version":99,"body":{}}', "version"),
        ("changed.json", '{"agentloop":"conversation","version":1,"sha256":"0","body":{}}\n', "altered"),
    ],
)
def test_wrong_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str | bytes | None, reason: str
) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SnapshotError) as caught:
        write_page(path)
    assert caught.value.reason == reason
    assert main(["trace", str(path)]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert str(path) in said.err
    if name.endswith(".state"):
        assert said.err.rstrip().endswith("run.json")
    assert list(tmp_path.glob("*.html")) == []


@pytest.mark.parametrize(
    "edit",
    [
        lambda body: body.pop("messages"),
        lambda body: body["timeline"][0].pop("at"),
        lambda body: body["timeline"][0].update(at="now"),
        lambda body: body["timeline"][0].update(at=1e300),
        lambda body: body["timeline"][0].update(steps=[[1]]),
        lambda body: body["timeline"][0].update(prompt={"a": 1}),
        lambda body: body.update(timeline=[1]),
        lambda body: body.update(turns=3),
        lambda body: body["usage"].update(new="many"),
    ],
)
def test_bodies_that_are_none(tmp_path: Path, edit: Any) -> None:
    path = write_body(tmp_path / "c.json", timed_body())
    change(path, edit)
    with pytest.raises(SnapshotError) as caught:
        read_trace(path)
    assert caught.value.reason == "altered"


def test_where_it_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = write_body(tmp_path / "c.json", timed_body())
    for out, said in ((tmp_path / "no" / "x.html", "make it first"), (tmp_path, "folder"), (saved, "itself")):
        with pytest.raises(AgentLoopError, match=said):
            write_page(saved, out)
        assert main(["trace", str(saved), "-o", str(out)]) == 1
        assert said in capsys.readouterr().err
    assert main(["trace", str(saved)]) == 0
    assert capsys.readouterr().out == f"written to {tmp_path / 'c.html'}\n"
    assert main(["trace", str(saved), "-o", str(tmp_path / "x.html")]) == 0
    assert (tmp_path / "x.html").read_text() == (tmp_path / "c.html").read_text()
    assert main(["trace", str(saved), "-o", str(tmp_path / "x.html")]) == 0  # again, over the old one
    read_trace(saved)
