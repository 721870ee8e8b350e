"""Which template a model file wants, told by the Jinja text that it carries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..exceptions import TemplateNotFound
from .base import Template
from .qwen3_8 import Qwen38

__all__ = ["for_model"]


def for_model(chat_template: Any, metadata: Mapping[str, str] | None = None) -> Template:
    """The template for a model: its Jinja text (or an engine-like object with `chat_template` and `metadata`).

    Raises TemplateNotFound when the file carries none.
    """
    if chat_template is not None and not isinstance(chat_template, str):
        metadata = chat_template.metadata
        chat_template = chat_template.chat_template
    if not chat_template:
        name = (metadata or {}).get("general.name", "the model file")
        raise TemplateNotFound(
            f"{name} carries no chat template; give one (template=Qwen38()), or use a model file made for chat"
        )
    if "Reasoning effort is set to xhigh." in chat_template and "<function=" in chat_template:
        return Qwen38()
    raise TemplateNotFound("this chat template is not known")
