"""Finished spans of one test, by name and as a tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk (extra `test`)")

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from agentloop.agent import InstrumentationSettings


class Spans:
    """A provider of its own for one test, and the finished spans by name."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def settings(self, *, include_content: bool = False) -> InstrumentationSettings:
        return InstrumentationSettings(tracer_provider=self.provider, include_content=include_content)

    @property
    def all(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span

    def tree(self) -> list[str]:
        """Names, indented by depth, in the order in which they began."""
        ordered = sorted(self.all, key=lambda s: s.start_time or 0)

        def below(parent: int | None, depth: int) -> Iterator[str]:
            for span in ordered:
                if (span.parent.span_id if span.parent else None) == parent:
                    yield "  " * depth + span.name
                    yield from below(span.context.span_id, depth + 1)

        return list(below(None, 0))

    def text(self) -> str:
        return "\n".join(span.to_json() for span in self.all)


@pytest.fixture
def spans() -> Spans:
    return Spans()


def error_of(span: ReadableSpan) -> Any:
    """error.type, checked against the status."""
    kind = dict(span.attributes or {}).get("error.type")
    assert (span.status.status_code is StatusCode.ERROR) == (kind is not None)
    return kind
