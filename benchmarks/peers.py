"""The peers, as their clients use them: llama-server and any other OpenAI-compatible server, and llama-cpp-python."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

from agentloop.models import default_model_path
from agentloop.templates.base import ReplyEnd

from .machine import ROOT
from .server import Server
from .sessions import Counter, Turn
from .trace import INSTRUCTIONS, Step
from .wire import Streamed, get_json, post_json, stream_chat

__all__ = ["Client", "HttpSession", "LlamaCpp", "LlamaCppSession"]

Client = Literal["reasoning kept", "reasoning stripped", "n/a"]


class _Messages:
    """The client's side: messages as they go back to the engine, and what is new for each turn."""

    def __init__(self, counter: Counter) -> None:
        self.counter = counter
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": INSTRUCTIONS}]
        self.ended: ReplyEnd = "complete"

    def appended(self, step: Step) -> tuple[list[dict[str, Any]], int | None]:
        """All messages with those of the step, and how many tokens are new (None: all)."""
        last = self.messages[-1]
        ids = [call["id"] for call in last.get("tool_calls") or ()] if last["role"] == "assistant" else []
        new = self.counter.results(step, ids)
        count = None if step.kind == "first" else self.counter.behind(new, self.ended)
        return [*self.messages, *new], count

    def answered(self, messages: list[dict[str, Any]], reply: dict[str, Any], finish: str, thought: bool) -> None:
        """The reply goes into the history; `finish` says whether it is whole."""
        self.messages = [*messages, reply]
        if finish in ("stop", "tool_calls"):
            self.ended = "complete"
        else:
            self.ended = "truncated" if reply["content"] or not thought else "in_reasoning"


class HttpSession(_Messages):
    """A server that speaks OpenAI's chat completions; `server` is the process where it is ours."""

    def __init__(
        self, engine: str, client: Client, counter: Counter, base: str, *, server: Server | None, folder: Path
    ) -> None:
        super().__init__(counter)
        self.engine = engine
        self.client: str = client
        self.base, self.server, self.folder = base, server, folder
        self.model = "default" if server is not None else _served_model(base)

    def take(self, step: Step) -> Turn:
        messages, new = self.appended(step)
        body: dict[str, Any] = {"messages": messages, "temperature": 0, "max_tokens": self.counter.max_tokens}
        body |= {"model": self.model, "tools": self.counter.tools} if self.counter.tools else {"model": self.model}
        if self.server is not None:
            body |= {"chat_template_kwargs": {"reasoning_effort": "low"}, "timings_per_token": step.cut is not None}
        got = stream_chat(self.base, body, cut=step.cut)
        if step.kind != "side":
            reply = got.message(keep_reasoning=self.client != "reasoning stripped")
            self.answered(messages, reply, got.finish or "", bool(got.reasoning))
        evaluated, generated = _evaluated(got), int(got.timings.get("predicted_n") or got.chunks)
        whole = int(got.usage.get("prompt_tokens") or evaluated or 0)
        return Turn(whole if new is None else new, evaluated, generated, got.ttft_s, got.wall_s, got.finish or "")

    def restart(self) -> None:
        """With the slot that served last saved and restored, where the server can."""
        if self.server is None:
            return
        slots = get_json(f"{self.server.address}/slots")
        slot = max(slots, key=lambda s: s.get("id_task", -1))["id"]
        kept = False
        try:
            post_json(f"{self.server.address}/slots/{slot}?action=save", {"filename": "session.bin"})
            kept = True
        except OSError:
            pass
        self.server.restart()
        self.base = self.server.address
        if kept:
            post_json(f"{self.base}/slots/0?action=restore", {"filename": "session.bin"})

    def close(self) -> None:
        if self.server is not None:
            self.server.stop()


def _served_model(base: str) -> str:
    root = base if base.rstrip("/").endswith("/v1") else base.rstrip("/") + "/v1"
    return str(get_json(f"{root.rstrip('/')}/models")["data"][0]["id"])


def _evaluated(got: Streamed) -> int | None:
    if "prompt_n" in got.timings:
        return int(got.timings["prompt_n"])
    cached = (got.usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    return None if cached is None else int(got.usage["prompt_tokens"]) - int(cached)


class LlamaCpp:
    """The worker process."""

    def __init__(self, model: str | None, n_ctx: int) -> None:
        path = str(default_model_path()) if model is None else model
        command = [sys.executable, "-m", "benchmarks.llamacpp_worker", path, str(n_ctx)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, text=True
        )
        self._read()

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"llama-cpp-python's process ended with code {self._process.wait(20)}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"llama-cpp-python: {answer['error']}")
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(20)
        self._process.stdout.close()


class LlamaCppSession(_Messages):
    """`Llama.create_chat_completion`, which returns the reply's text; the client reads reasoning and calls out of it,
    with agentloop's reader. Saved with `save_state`."""

    engine = "llama-cpp-python"

    def __init__(self, model: str | None, client: Client, counter: Counter, *, n_ctx: int, folder: Path) -> None:
        super().__init__(counter)
        self.client: str = client
        self.model, self.n_ctx, self.folder = model, n_ctx, folder
        self.worker = LlamaCpp(model, n_ctx)
        self._calls = 0

    def take(self, step: Step) -> Turn:
        messages, new = self.appended(step)
        got = self.worker.ask(
            op="chat",
            messages=messages,
            tools=self.counter.tools,
            max_tokens=self.counter.max_tokens,
            cut=step.cut,
        )
        if step.kind != "side":
            reply, thought = self._reply(got["text"])
            self.answered(messages, reply, got["finish"], thought)
        evaluated = int(got["evaluated"])
        new = evaluated if new is None else new
        return Turn(new, evaluated, got["generated"], got["ttft_s"] or got["wall_s"], got["wall_s"], got["finish"])

    def _reply(self, text: str) -> tuple[dict[str, Any], bool]:
        if not self.counter.tools:
            return {"role": "assistant", "content": text}, False
        reply = self.counter.template.parse(text, self.counter.tools)
        message: dict[str, Any] = {"role": "assistant", "content": reply.content}
        if reply.reasoning and self.client != "reasoning stripped":
            message["reasoning_content"] = reply.reasoning
        calls = [call for call in reply.calls if call.status == "ok"]
        if calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{self._calls + i}",
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for i, call in enumerate(calls)
            ]
            self._calls += len(calls)
        return message, bool(reply.reasoning)

    def restart(self) -> None:
        path = str(self.folder / "state.bin")
        self.worker.ask(op="save", path=path)
        self.worker.close()
        self.worker = LlamaCpp(self.model, self.n_ctx)
        self.worker.ask(op="load", path=path)

    def close(self) -> None:
        self.worker.close()
