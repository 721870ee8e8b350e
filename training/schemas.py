"""The schemas of the tools that the model learns, as agentloop itself makes them."""

from __future__ import annotations

import random
import tempfile
from functools import lru_cache
from typing import Any

from agentloop.tools import workspace_tools
from agentloop.tools.samples import calculator, get_weather

__all__ = ["CORE", "OTHERS", "USUAL", "schema_of", "shuffled"]

CORE = ("read_file", "write_file", "list_files", "run_tests", "calculator", "get_weather")
"""The tools that episodes call; `edit_file` as well, where it is declared."""

OTHERS = ("search_files", "run_command")
"""Declared now and then beside the core, and left alone."""

USUAL = (
    "list_files",
    "read_file",
    "write_file",
    "edit_file",
    "search_files",
    "run_command",
    "run_tests",
    "calculator",
    "get_weather",
)
"""The order in which agentloop hands them out."""


@lru_cache(maxsize=1)
def _schemas() -> dict[str, dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        return {tool.name: tool.schema for tool in [*workspace_tools(folder), calculator, get_weather]}


def schema_of(name: str) -> dict[str, Any]:
    """`{"type": "function", "function": {...}}` of a built-in tool. Raises KeyError for another name."""
    return _schemas()[name]


def shuffled(r: random.Random, schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema; now and then its keys in another order, or the descriptions of its parameters left out."""
    function = dict(schema["function"])
    parameters = dict(function["parameters"])
    if r.random() < 0.15:
        parameters["properties"] = {
            name: {key: value for key, value in rule.items() if key != "description"}
            for name, rule in parameters["properties"].items()
        }
    if r.random() < 0.2:
        parameters["additionalProperties"] = False
    if r.random() < 0.15:
        parameters = {key: parameters[key] for key in r.sample(list(parameters), len(parameters))}
    return {"type": "function", "function": {**function, "parameters": parameters}}
