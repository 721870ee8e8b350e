"""From a signature to the JSON schema of its parameters, and from JSON arguments back to the call.

pydantic gives the types. The schema is written the way models know it: `type`, `properties`, `required`, then `$defs`
where nested models need them; in every property `type` and `description` first; no `title` anywhere.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import sys
import typing
import warnings
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import PydanticJsonSchemaWarning

from agentloop.exceptions import ArgumentsError, ToolDefinitionError
from agentloop.tools.docstrings import read_docstring

__all__ = ["FunctionSchema", "tidy_schema"]

_FIRST = ("$ref", "type", "description", "enum", "const", "anyOf", "oneOf", "allOf")
_LAST = ("default", "required", "additionalProperties", "$defs")
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_CONTEXT = re.compile(r"(?:\w+\.)*RunContext(?:\[.*\])?", re.DOTALL)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class FunctionSchema:
    """The parameters of one callable.

    `parameters` is their JSON schema, `description` what the docstring says of the callable, `takes_context` whether
    the first parameter is a `RunContext` (it is not in the schema). `bind` validates JSON arguments and returns what to
    call with. Raises `ToolDefinitionError` for a signature that cannot become a schema.
    """

    def __init__(
        self, function: Callable[..., Any], name: str, *, takes_context: bool | None = None, strict: bool = False
    ) -> None:
        self.name = name
        self.strict = strict
        self._scope = _Scope(function, name)
        fixed = _bound_keywords(function)
        try:
            parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in fixed]
        except (TypeError, ValueError) as exc:
            raise ToolDefinitionError(name, f"its signature cannot be read ({exc}); wrap it in a function") from None
        self.takes_context = self._is_context(parameters) if takes_context is None else takes_context
        if self.takes_context:
            if not parameters or parameters[0].kind not in _POSITIONAL:
                raise ToolDefinitionError(name, "it takes a RunContext, so its first parameter must be positional")
            parameters = parameters[1:]
        self._parameters = parameters
        doc = read_docstring(_docstring(function), [p.name for p in parameters])
        self.description = doc.description
        self._extra: TypeAdapter[Any] | None = None
        self._model = self._build_model(doc.parameters)
        self.parameters = self._build_schema()

    def bind(self, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments for the callable (without the context), typed by pydantic.

        Raises `ArgumentsError` that names the first argument that does not fit.
        """
        known = self.parameters["properties"]
        extra = {name: value for name, value in arguments.items() if name not in known}
        if extra and self._extra is None:
            name = next(iter(extra))
            declared = ", ".join(known) or "none"
            message = f'unknown parameter "{name}"; declared parameters: {declared}'
            raise ArgumentsError(name, "additionalProperties", extra[name], message)
        try:
            model = self._model.model_validate_json(json.dumps(dict(arguments)), strict=self.strict or None)
            rest = {name: self._validate_extra(name, value) for name, value in extra.items()}
        except ValidationError as exc:
            raise _arguments_error(exc) from None
        except (TypeError, ValueError, RecursionError) as exc:
            raise ArgumentsError("", "json", dict(arguments), f"the arguments are no JSON values: {exc}") from None
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for index, parameter in enumerate(self._parameters):
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                kwargs.update(rest)
                continue
            field = f"p{index}"
            given = field in model.model_fields_set or isinstance(parameter.default, FieldInfo)
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                args.append(getattr(model, field) if given else parameter.default)
            elif given:
                kwargs[parameter.name] = getattr(model, field)
        return args, kwargs

    def _validate_extra(self, name: str, value: Any) -> Any:
        assert self._extra is not None
        try:
            return self._extra.validate_json(json.dumps(value), strict=self.strict or None)
        except ValidationError as exc:
            raise _arguments_error(exc, name) from None

    def _is_context(self, parameters: list[inspect.Parameter]) -> bool:
        if not parameters or parameters[0].annotation is inspect.Parameter.empty:
            return False
        annotation = parameters[0].annotation
        if isinstance(annotation, str):
            if _CONTEXT.fullmatch(annotation.strip("\"' ")):  # by name: it may be imported for type checkers only
                return True
            try:
                annotation = self._scope.resolve(parameters[0])
            except ToolDefinitionError:
                return False
        origin = typing.get_origin(annotation) or annotation
        return getattr(origin, "__name__", "") == "RunContext" and origin.__module__ == "agentloop.context"

    def _build_model(self, descriptions: Mapping[str, str]) -> type[BaseModel]:
        # Own field names with aliases: a parameter may be called `copy` or `_x`. The names and the refusal of others
        # stay out of the model's config, which stdlib dataclasses inside it would inherit.
        fields: dict[str, Any] = {}
        for index, parameter in enumerate(self._parameters):
            where = parameter.name
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                raise self._error(where, f"*{where} has no name in a JSON object; take a list parameter instead")
            if parameter.annotation is inspect.Parameter.empty:
                if index == 0 and where in ("self", "cls"):
                    raise self._error(where, "a method needs its object; make the tool of the bound method, Tool(x.f)")
                raise self._error(where, f"it has no type; annotate it, for example `{where}: str`")
            annotation = self._scope.resolve(parameter)
            self._check_type(where, annotation)
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                self._extra = TypeAdapter(annotation)
                continue
            described = None if _described(annotation) else descriptions.get(where) or _annotated_text(annotation)
            own = Field(alias=where, description=described) if described else Field(alias=where)
            default = ... if parameter.default is inspect.Parameter.empty else parameter.default
            fields[f"p{index}"] = (Annotated[annotation, own], default)
        try:
            return create_model("Arguments", **fields)
        except (PydanticUserError, TypeError, ValueError) as exc:
            raise self._error(None, f"pydantic refuses its parameters: {_first_sentence(exc)}") from None

    def _check_type(self, where: str, annotation: Any) -> None:
        """Each parameter on its own, so that the error names it."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PydanticJsonSchemaWarning)
                TypeAdapter(annotation).json_schema()
        except (PydanticUserError, TypeError, ValueError, AttributeError) as exc:
            shown = getattr(annotation, "__name__", None) or str(annotation)
            raise self._error(
                where,
                f"the type {shown} has no JSON schema ({_first_sentence(exc)}); use str, int, float, bool, lists, "
                "dicts, enums, dataclasses, TypedDicts or pydantic models",
            ) from None

    def _build_schema(self) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PydanticJsonSchemaWarning)  # a default without a JSON form is left out
            schema = self._model.model_json_schema(by_alias=True)
            extra = None if self._extra is None else self._extra.json_schema()
        schema.pop("description", None)
        schema.setdefault("properties", {})
        schema.setdefault("required", [])
        if extra is not None:
            definitions = extra.pop("$defs", {})
            schema["additionalProperties"] = extra or True
            if definitions:
                schema["$defs"] = {**schema.get("$defs", {}), **definitions}
        elif self.strict:
            schema["additionalProperties"] = False
        tidy: dict[str, Any] = tidy_schema(schema)
        return tidy

    def _error(self, parameter: str | None, message: str) -> ToolDefinitionError:
        return ToolDefinitionError(self.name, message, parameter)


class _Scope:
    """Where the annotations of a function get their names from."""

    def __init__(self, function: Callable[..., Any], tool: str) -> None:
        inner: Any = function
        while isinstance(inner, functools.partial):
            inner = inner.func
        inner = inspect.unwrap(inner)
        if not inspect.isroutine(inner):  # a class, or an object that can be called
            method = "__init__" if inspect.isclass(inner) else "__call__"
            inner = getattr(inner, method)
        inner = getattr(inner, "__func__", inner)
        self.tool = tool
        self.globals: dict[str, Any] = dict(getattr(inner, "__globals__", {}))

    def resolve(self, parameter: inspect.Parameter) -> Any:
        if not isinstance(parameter.annotation, str):
            return parameter.annotation
        holder = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
        failure: Exception | None = None
        for names in (self.globals, {**_caller_locals(), **self.globals}):
            try:
                return typing.get_type_hints(holder, names, {}, include_extras=True)[parameter.name]
            except (NameError, SyntaxError, TypeError, AttributeError) as exc:
                failure = failure or exc
        raise ToolDefinitionError(
            self.tool,
            f"its annotation {parameter.annotation!r} cannot be resolved ({failure}); import the type at run time",
            parameter.name,
        )


def _caller_locals() -> dict[str, Any]:
    """Local names of the frame that defines the tool: annotations that are strings may use them."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("agentloop."):
        frame = frame.f_back
    return dict(frame.f_locals)


def _bound_keywords(function: Callable[..., Any]) -> frozenset[str]:
    """Keywords that a partial has fixed: they are no longer the model's to give."""
    return frozenset(function.keywords) if isinstance(function, functools.partial) else frozenset()


def _docstring(function: Callable[..., Any]) -> str | None:
    while isinstance(function, functools.partial):
        function = function.func
    own = inspect.getdoc(function)
    if inspect.isroutine(function) or inspect.isclass(function):
        return own
    return inspect.getdoc(type(function).__call__) or own


def _described(annotation: Any) -> bool:
    return any(isinstance(extra, FieldInfo) and extra.description for extra in getattr(annotation, "__metadata__", ()))


def _annotated_text(annotation: Any) -> str | None:
    """The description in `Annotated[int, "How many."]`."""
    return next((extra for extra in getattr(annotation, "__metadata__", ()) if isinstance(extra, str)), None)


def _arguments_error(error: ValidationError, path: str = "") -> ArgumentsError:
    first = error.errors(include_url=False, include_context=False)[0]
    for step in first["loc"]:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    where = f"{path}: " if path else ""
    more = f" ({error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return ArgumentsError(path, first["type"], first["input"], f"{where}{first['msg']}{more}")


def _first_sentence(error: BaseException) -> str:
    """The first sentence of what pydantic says; the second is advice about pydantic's own settings."""
    lines = str(error).strip().splitlines()
    return lines[0].split(". ")[0] if lines else type(error).__name__


def tidy_schema(schema: Any) -> Any:
    """A copy without `title`, keys in the order that models know; names of properties are not touched."""
    if not isinstance(schema, Mapping):
        return schema
    ordered = [key for key in _FIRST if key in schema]
    ordered += [key for key in schema if key not in _FIRST and key not in _LAST and key != "title"]
    ordered += [key for key in _LAST if key in schema]
    result: dict[str, Any] = {}
    for key in ordered:
        value = schema[key]
        if key in _MAPS and isinstance(value, Mapping):
            value = {name: tidy_schema(sub) for name, sub in value.items()}
        elif key in _LISTS and isinstance(value, list):
            value = [tidy_schema(sub) for sub in value]
        elif key in _SINGLE:
            value = tidy_schema(value)
        result[key] = value
    return result
