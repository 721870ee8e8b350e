"""Tool schemas of the corpus, in OpenAI form."""

from __future__ import annotations

from typing import Any

__all__ = ["ADD", "EMPTY", "GET_WEATHER", "MANY", "NESTED", "READ", "TOOLS", "UNICODE", "WRITE"]


def tool(name: str, description: str, properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    if required is not None:
        parameters["required"] = required
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


GET_WEATHER = tool(
    "get_weather", "Weather of a city.", {"city": {"type": "string", "description": "Its name."}}, ["city"]
)
ADD = tool(
    "add",
    "Add two numbers.",
    {
        "a": {"type": "number", "minimum": -10, "maximum": 10.5},
        "b": {"type": "integer", "default": 0, "exclusiveMinimum": 0.25},
    },
    ["a"],
)
READ = tool("read_file", "Read a file.", {"path": {"type": "string"}}, ["path"])
WRITE = tool(
    "write_file", "Write a file.", {"path": {"type": "string"}, "content": {"type": "string"}}, ["path", "content"]
)
EMPTY = tool("run_tests", "Run the tests.", {})
NESTED = tool(
    "search",
    "Search with filters.",
    {
        "filters": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "field": {"type": "string", "enum": ["name", "size", "a/b"]},
                    "range": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/range"}]},
                },
                "required": ["field"],
                "additionalProperties": False,
            },
        },
        "limit": {"type": ["integer", "null"], "default": None},
        "exact": {"type": "boolean", "default": False, "const": True},
    },
    ["filters"],
)
NESTED["function"]["parameters"]["$defs"] = {"range": {"type": "array", "items": {"type": "number"}, "maxItems": 2}}
UNICODE = tool(
    "översätt",
    'Translate <b>text</b> & "quote" it\'s \\ / 漢字 😀\nTwo lines.',
    {"текст": {"type": "string", "description": "«ok» \u2028 é"}, "a b": {"type": "string"}},
)
MANY = [tool(f"tool_{i}", f"Tool number {i}.", {f"p{j}": {"type": "string"} for j in range(i % 5)}) for i in range(40)]
TOOLS = [GET_WEATHER, ADD, READ, WRITE, EMPTY]
