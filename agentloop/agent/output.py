"""Typed answers: the model is told a JSON schema, its answer is validated, and what is wrong goes back to it."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from ..context import RunContext
from ..exceptions import AgentLoopError, ModelRetry

__all__ = ["OutputSpec", "OutputValidator", "checked"]

OutputValidator = Callable[..., Any]
"""Takes the answer (or the RunContext and the answer) and returns it, changed or not; raises ModelRetry to ask for
another one. Sync or async."""

_FENCED = re.compile(r"\A```[a-zA-Z]*\n(.*?)\n?```\Z", re.DOTALL)


class OutputSpec:
    """What an answer must be: `output_type` is a pydantic model, a dataclass, a list, a union, a bool, ...

    Raises AgentLoopError for a type that has no JSON schema.
    """

    def __init__(self, output_type: Any) -> None:
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(output_type)
            self.schema: dict[str, Any] = self._adapter.json_schema()
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            raise AgentLoopError(
                f"output_type {output_type!r} cannot become a JSON schema ({error.message}); "
                "use a pydantic model, a dataclass or a plain type"
            ) from error

    @property
    def instructions(self) -> str:
        """What the model is told."""
        schema = json.dumps(self.schema, ensure_ascii=False)
        return f"Give your final answer as JSON that fits this schema, without any other text:\n{schema}"

    def read(self, text: str) -> Any:
        """The value that an answer spells; one fence around it is allowed. Raises ModelRetry, which says what is wrong
        and where."""
        text = text.strip()
        fenced = _FENCED.match(text)
        text = fenced.group(1).strip() if fenced else text
        try:
            return self._adapter.validate_json(text)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_input=False)
            if problems and problems[0]["type"] == "json_invalid" and "properties" not in self.schema:
                try:  # a plain word or number, without the quotes that JSON wants
                    return self._adapter.validate_python(text)
                except ValidationError:
                    pass
            raise ModelRetry(_message(problems)) from None


async def checked(value: Any, validators: Sequence[OutputValidator], ctx: RunContext[Any]) -> Any:
    """The value after all validators. Raises what they raise."""
    for validator in validators:
        takes = len(inspect.signature(validator).parameters)
        value = validator(ctx, value) if takes > 1 else validator(value)
        if inspect.isawaitable(value):
            value = await value
    return value


def _message(problems: Sequence[Any]) -> str:
    if problems and problems[0]["type"] == "json_invalid":
        return f"Your answer is not JSON ({problems[0]['msg']}). Give the JSON alone, without any other text."
    lines = [f"{'.'.join(map(str, p['loc'])) or 'the answer'}: {p['msg']}" for p in problems[:8]]
    return "Your answer does not fit the schema. " + "; ".join(lines) + ". Give the whole answer again as JSON."
