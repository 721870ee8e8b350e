"""The sample tools: arithmetic without eval, and the weather of a table."""

from __future__ import annotations

import json

import anyio
import pytest

from agentloop.exceptions import ToolFailed
from agentloop.tools.samples import calculator, get_weather


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("2 + 3", "5"),
        ("547 - 1000", "-453"),
        ("12 * 34", "408"),
        ("7 / 2", "3.5"),
        ("8 / 2", "4"),
        ("7 // 2", "3"),
        ("-2 ** 2", "-4"),
        ("2 ^ 10", "1024"),
        ("(1 + 2) * (3 - 4) % 5", "2"),
        ("2 ** -1", "0.5"),
        ("1e3 + 0.5", "1000.5"),
        ("3 × 4 ÷ 6", "2"),
        (" 1_000 ", "1000"),
    ],
)
def test_arithmetic(expression: str, result: str) -> None:
    assert anyio.run(calculator.call, {"expression": expression}) == result


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("1 / 0", "division by zero"),
        ("1 % 0", "division by zero"),
        ("9 ** 9 ** 9", "too large"),
        ("2 ** 4000 * 2 ** 4000", "too large"),
        ("1e308 * 10", "no finite real number"),
        ("(-8) ** 0.5", "no finite real number"),
        ("10.0 ** 400", "too large"),
        ("__import__('os')", "only numbers"),
        ("a + 1", "only numbers"),
        ("'a' * 3", "only numbers"),
        ("True + 1", "only numbers"),
        ("2 +", "no arithmetic expression"),
        ("", "no arithmetic expression"),
        ("(" * 300, "no arithmetic expression"),
        ("1" + "+1" * 400, "more than 500"),
        ("1 << 5", "only numbers"),
    ],
)
def test_what_is_no_arithmetic(expression: str, said: str) -> None:
    with pytest.raises(ToolFailed, match=said):
        calculator(expression)


def test_weather() -> None:
    assert get_weather(" Paris ") == get_weather("paris") == "sunny, 21 degrees"
    assert get_weather("Atlantis") == get_weather("Atlantis")
    with pytest.raises(ToolFailed):
        get_weather("  ")


def test_schemas_are_those_that_the_embedded_model_knows() -> None:
    assert json.dumps(calculator.schema["function"]["parameters"]["properties"]) == (
        '{"expression": {"type": "string", "description": "The expression, for example 2 + 3."}}'
    )
    assert calculator.description == "Evaluate an arithmetic expression."
    assert get_weather.description == "Return the current weather in a city."
    assert json.dumps(get_weather.parameters["properties"]) == (
        '{"city": {"type": "string", "description": "Name of the city."}}'
    )
