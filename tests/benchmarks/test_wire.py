"""Streamed chat completions, read from a server of the test's own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from benchmarks.wire import get_json, post_json, stream_chat

CALL = {"index": 0, "id": "c1", "function": {"name": "read_file", "arguments": '{"path"'}}
CHUNKS: list[dict[str, Any]] = [
    {"choices": [{"delta": {"role": "assistant"}}]},
    {"choices": [{"delta": {"reasoning_content": "I read "}}]},
    {"choices": [{"delta": {"reasoning_content": "it."}}]},
    {"choices": [{"delta": {"content": "Reading."}}]},
    {"choices": [{"delta": {"tool_calls": [CALL]}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": ': "a.txt"}'}}]}}]},
    {"choices": [{"delta": {}, "finish_reason": "tool_calls"}], "timings": {"prompt_n": 7}},
    {"choices": [], "usage": {"prompt_tokens": 9}},
]


class Handler(BaseHTTPRequestHandler):
    bodies: list[dict[str, Any]]

    def do_GET(self) -> None:
        self._answer(200, json.dumps({"status": "ok"}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.bodies.append(body)
        if body.get("model") == "missing":
            self._answer(404, "no such model")
        elif body.get("stream"):
            chunks = [*CHUNKS[:3], {"error": "out of memory"}] if body.get("model") == "broken" else CHUNKS
            self._answer(200, "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n")
        else:
            self._answer(200, json.dumps(body))

    def _answer(self, code: int, text: str) -> None:
        data = text.encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def base() -> Iterator[str]:
    Handler.bodies = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_stream_becomes_a_message(base: str) -> None:
    got = stream_chat(base, {"messages": []})
    assert (got.reasoning, got.content, got.finish, got.chunks) == ("I read it.", "Reading.", "tool_calls", 5)
    assert (got.timings, got.usage) == ({"prompt_n": 7}, {"prompt_tokens": 9})
    assert 0 < got.ttft_s <= got.wall_s
    function = {"name": "read_file", "arguments": '{"path": "a.txt"}'}
    call = {"id": "c1", "type": "function", "function": function}
    assert got.message(keep_reasoning=True) == {
        "role": "assistant",
        "content": "Reading.",
        "reasoning_content": "I read it.",
        "tool_calls": [call],
    }
    assert "reasoning_content" not in got.message(keep_reasoning=False)
    assert Handler.bodies[0]["stream"] is True


def test_a_client_that_goes_away_keeps_what_it_has(base: str) -> None:
    got = stream_chat(f"{base}/v1", {"messages": []}, cut=4)
    assert (got.finish, got.content) == ("cut", "Reading.")
    assert got.message(keep_reasoning=True).keys() == {"role", "content", "reasoning_content"}  # half a call is none


def test_errors_say_what_the_server_said(base: str) -> None:
    with pytest.raises(OSError, match="404 no such model"):
        stream_chat(base, {"model": "missing"})
    with pytest.raises(OSError, match="out of memory"):
        stream_chat(base, {"model": "broken"})
    with pytest.raises(OSError, match="404 no such model"):
        post_json(base, {"model": "missing"})
    assert get_json(base) == {"status": "ok"}
    assert post_json(base, {"a": 1}) == {"a": 1}
