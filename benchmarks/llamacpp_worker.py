"""llama-cpp-python's own high-level API in a process of its own, driven by JSON lines: `python -m
benchmarks.llamacpp_worker MODEL N_CTX`. A crash of the peer ends its process and not the benchmark.

Requests: {"op": "chat", "messages", "tools", "max_tokens", "cut"}, {"op": "ids", "ids", "max_tokens"}, {"op": "save",
"path"}, {"op": "load", "path"}. Answers: one object a line; `evaluated` counts the rows of the prompt that were given
to `Llama.eval`.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["main"]


class Worker:
    """One `Llama` and its counters."""

    def __init__(self, model: str, n_ctx: int) -> None:
        import llama_cpp

        defaults = llama_cpp.llama_model_default_params

        def parameters() -> Any:
            # Repacked weights are off for every engine here; on some machines they crash (AMX).
            out = defaults()
            out.use_extra_bufts = False
            return out

        llama_cpp.llama_cpp.llama_model_default_params = parameters

        class Counted(llama_cpp.Llama):
            calls: list[int]

            def eval(self, tokens: Sequence[int]) -> None:
                self.calls.append(len(tokens))
                super().eval(tokens)

        Counted.calls = []
        self.llama: Any = Counted(
            model_path=model, n_ctx=n_ctx, n_batch=512, n_threads=1, n_threads_batch=1, verbose=False
        )

    def chat(self, request: dict[str, Any]) -> dict[str, Any]:
        self.llama.calls.clear()
        pieces: list[str] = []
        finish, first, started = "cut", 0.0, time.perf_counter()
        stream = self.llama.create_chat_completion(
            messages=request["messages"],
            tools=request["tools"] or None,
            temperature=0.0,
            max_tokens=request["max_tokens"],
            stream=True,
        )
        for chunk in stream:
            choice = chunk["choices"][0]
            text = choice["delta"].get("content")
            if text:
                first = first or time.perf_counter() - started
                pieces.append(text)
            if choice.get("finish_reason"):
                finish = choice["finish_reason"]
            if request.get("cut") is not None and len(pieces) >= request["cut"]:
                finish = "cut"
                break
        stream.close()
        return {"text": "".join(pieces), "finish": finish, "ttft_s": first, **self._spent(started)}

    def ids(self, request: dict[str, Any]) -> dict[str, Any]:
        """Greedy tokens behind a prompt of ids; seconds from the first one on are those of decoding."""
        self.llama.calls.clear()
        out: list[int] = []
        first, started = 0.0, time.perf_counter()
        for token in self.llama.generate(request["ids"], temp=0.0, repeat_penalty=1.0):
            first = first or time.perf_counter() - started
            out.append(int(token))
            if len(out) >= request["max_tokens"] or int(token) in request["stop"]:
                break
        return {"ids": out, "ttft_s": first, **self._spent(started)}

    def _spent(self, started: float) -> dict[str, Any]:
        calls = self.llama.calls
        wall = time.perf_counter() - started
        return {"wall_s": wall, "evaluated": calls[0] if calls else 0, "generated": max(1, len(calls))}

    def save(self, request: dict[str, Any]) -> dict[str, Any]:
        Path(request["path"]).write_bytes(pickle.dumps(self.llama.save_state()))
        return {}

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        self.llama.load_state(pickle.loads(Path(request["path"]).read_bytes()))
        return {}


def main() -> None:
    """Serve until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    ctypes.CDLL(None).prctl(1, 9)  # ends with its parent (PR_SET_PDEATHSIG)
    worker = Worker(sys.argv[1], int(sys.argv[2]))
    answers.write("{}\n")
    answers.flush()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(worker, request["op"])(request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
