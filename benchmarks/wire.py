"""The wire: JSON over HTTP, and streamed chat completions with the time of their first token."""

from __future__ import annotations

import http.client
import json
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

__all__ = ["Streamed", "get_json", "post_json", "stream_chat"]


def get_json(url: str, *, timeout: float = 60) -> Any:
    """GET; OSError where that fails."""
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        return json.load(answer)


def post_json(url: str, body: Mapping[str, Any], *, timeout: float = 600) -> Any:
    """POST; OSError where that fails, with the server's words."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise OSError(f"{url}: {error.code} {error.read()[:500].decode('utf-8', 'replace')}") from error


@dataclass
class Streamed:
    """A chat completion as its client saw it. Seconds are from sending the request; `timings` and `usage` are what the
    server said last. `chunks` counts pieces of text."""

    content: str = ""
    reasoning: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    finish: str | None = None
    ttft_s: float = 0.0
    wall_s: float = 0.0
    chunks: int = 0
    timings: dict[str, Any] = field(default_factory=dict[str, Any])
    usage: dict[str, Any] = field(default_factory=dict[str, Any])

    def message(self, *, keep_reasoning: bool) -> dict[str, Any]:
        """The assistant message that a client sends back; a call that was cut is left out, as servers refuse it."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if keep_reasoning and self.reasoning:
            message["reasoning_content"] = self.reasoning
        calls = [call for call in self.calls if _is_json(call["function"]["arguments"])]
        if calls:
            message["tool_calls"] = calls
        return message


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def stream_chat(base: str, body: Mapping[str, Any], *, cut: int | None = None, timeout: float = 600) -> Streamed:
    """POST to BASE/v1/chat/completions and read the stream; after `cut` pieces of text the connection is closed, as a
    person does who interrupts."""
    parts = urlsplit(base)
    maker = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = maker(parts.netloc, timeout=timeout)
    out = Streamed()
    path = parts.path.rstrip("/")
    path = f"{path}/chat/completions" if path.endswith("/v1") else f"{path}/v1/chat/completions"
    request = {**body, "stream": True, "stream_options": {"include_usage": True}}
    started = time.perf_counter()
    try:
        connection.request("POST", path, json.dumps(request), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError(f"{base}: {answer.status} {answer.read()[:500].decode('utf-8', 'replace')}")
        for chunk in _events(answer):
            _take(out, chunk, started)
            if cut is not None and out.chunks >= cut:
                out.finish = "cut"
                break
        out.wall_s = time.perf_counter() - started
    finally:
        connection.close()
    return out


def _events(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    for line in answer:
        if line.startswith(b"data:"):
            data = line[5:].strip()
            if data == b"[DONE]":
                return
            chunk = json.loads(data)
            if "error" in chunk:
                raise OSError(f"the server ended the stream: {chunk['error']}")
            yield chunk


def _take(out: Streamed, chunk: dict[str, Any], started: float) -> None:
    out.timings = chunk.get("timings") or out.timings
    out.usage = chunk.get("usage") or out.usage
    for choice in chunk.get("choices") or ():
        delta = choice.get("delta") or {}
        text, thought = delta.get("content") or "", delta.get("reasoning_content") or delta.get("reasoning") or ""
        if text or thought or delta.get("tool_calls"):
            out.chunks += 1
            if out.chunks == 1:
                out.ttft_s = time.perf_counter() - started
        out.content += text
        out.reasoning += thought
        for piece in delta.get("tool_calls") or ():
            _take_call(out.calls, piece)
        out.finish = choice.get("finish_reason") or out.finish


def _take_call(calls: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    at = piece.get("index", 0)
    while len(calls) <= at:
        calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
    call, function = calls[at], piece.get("function") or {}
    call["id"] = piece.get("id") or call["id"]
    call["function"]["name"] += function.get("name") or ""
    call["function"]["arguments"] += function.get("arguments") or ""
