"""Prompts for decoding, by kind of task: for the embedded model, which knows its seven tools, and for a general one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentloop import Engine
from agentloop.bench.decode import TASKS
from agentloop.templates import for_model

from .sessions import has_tools
from .trace import TOOLS

__all__ = ["prompts_for"]

Messages = Sequence[Mapping[str, Any]]

_SETTINGS = '{"port": 8080, "host": "amber", "limit": 30, "mode": "rapid", "level": 7}'
_EMBEDDED: Mapping[str, tuple[Sequence[Messages], str]] = {
    "chat": (TASKS["chat"], "low"),
    "code": (TASKS["fix_a_test"], "low"),
    "edit": (TASKS["edit_a_file"], "low"),
    "copy": (TASKS["copy_a_file"], "low"),
    "json": ([[{"role": "user", "content": f"Write '{_SETTINGS}' to settings.json."}]], "low"),
    "reasoning": ([[{"role": "user", "content": "What is 128 plus 415?"}]], "xhigh"),
}

_FILE = "[server]\nport = 8080\nhost = amber\ntimeout = 30\nretries = 5\nname = quiet\nowner = Paris\nmode = rapid\n"
_GENERAL: Mapping[str, str] = {
    "chat": "What is a good way to learn to play the piano as an adult? Answer in a short paragraph.",
    "code": "Write a Python function that returns the n-th Fibonacci number, with a docstring and a loop.",
    "edit": f"Here is a file:\n\n{_FILE}\nWrite the whole file again with the port set to 9090.",
    "json": "List the planets of the solar system as a JSON array of objects with the keys name and moons.",
    "reasoning": "A shop sells pens at 3 for 4 dollars. How much do 12 pens cost? Think step by step.",
}


def prompts_for(engine: Engine) -> dict[str, list[list[int]]]:
    """Token ids of the prompts by task, with the model's own template."""
    template = for_model(engine)
    if not has_tools(engine.chat_template):
        return {
            task: [engine.vocab.encode_parts(template.segments([{"role": "user", "content": text}]))]
            for task, text in _GENERAL.items()
        }
    return {
        task: [
            engine.vocab.encode_parts(template.segments(messages, TOOLS, reasoning_effort=effort))
            for messages in conversations
        ]
        for task, (conversations, effort) in _EMBEDDED.items()
    }
