"""The process in which templates from model files run; started by `sandbox.py` as a script of its own.

A request and an answer are one line of JSON each. Once it is up it answers {"ok": ""} unasked. The first request
compiles: {"template": text, "memory": bytes}. Each further one renders: {"variables": {...}, "most": characters}.
Answers: {"ok": text} or {"error": kind, "message": text} with the kinds `syntax`, `refused` (the template called
raise_exception), `size`, `memory` and `failed`.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

import jinja2
from jinja2.ext import Extension
from jinja2.nodes import CallBlock, Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

__all__ = ["compile_template", "main", "render"]


class Refused(Exception):
    """The template called raise_exception."""


class TooLarge(Exception):
    """The output went over its bound."""


class _Generation(Extension):
    """`{% generation %}...{% endgeneration %}` marks replies for training; its body is written as it is."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


def _refuse(message: str) -> None:
    raise Refused(message)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def compile_template(text: str) -> jinja2.Template:
    """The template under the settings that transformers uses for chat templates."""
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    env.filters["tojson"] = _tojson
    env.globals["raise_exception"] = _refuse
    env.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return env.from_string(text)


def render(template: jinja2.Template, variables: dict[str, Any], most: int) -> str:
    """The text, at most `most` characters. Raises TooLarge."""
    parts: list[str] = []
    size = 0
    for part in template.generate(**variables):
        size += len(part)
        if size > most:
            raise TooLarge(f"the text has more than {most} characters")
        parts.append(part)
    return "".join(parts)


def _answer(work: Callable[[], str]) -> dict[str, str]:
    try:
        return {"ok": work()}
    except Refused as error:
        return {"error": "refused", "message": str(error)}
    except TooLarge as error:
        return {"error": "size", "message": str(error)}
    except MemoryError:
        return {"error": "memory", "message": "it needs more memory than it may have"}
    except jinja2.TemplateSyntaxError as error:
        return {"error": "syntax", "message": f"line {error.lineno}: {error.message}"}
    except Exception as error:  # whatever a template can provoke
        return {"error": "failed", "message": f"{type(error).__name__}: {error}"[:2000]}


def _bound_memory(limit: int) -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # not every system has this bound; time is kept anyway
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> None:
    """Serve requests until the other side closes."""
    lines, out = sys.stdin.buffer, sys.stdout.buffer
    out.write(b'{"ok": ""}\n')
    out.flush()
    first = json.loads(lines.readline())
    _bound_memory(first["memory"])
    compiled: list[jinja2.Template] = []

    def setup() -> str:
        compiled.append(compile_template(first["template"]))
        return ""

    answer = _answer(setup)
    while True:
        out.write(json.dumps(answer).encode() + b"\n")
        out.flush()
        line = lines.readline()
        if not line or not compiled:
            return
        request = json.loads(line)
        answer = _answer(lambda: render(compiled[0], request["variables"], request["most"]))  # noqa: B023


if __name__ == "__main__":
    main()
