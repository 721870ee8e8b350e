"""Which template a model file wants, told by the Jinja text that it carries."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from ..exceptions import TemplateError, TemplateNotFound
from .base import Template
from .gguf import JinjaTemplate
from .lfm2_5 import Lfm25
from .qwen3_6 import Qwen35, Qwen36
from .qwen3_8 import Qwen38

__all__ = ["for_model"]

_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "f", "description": "F.", "parameters": {"type": "object", "properties": {}}},
}


def for_model(chat_template: Any, metadata: Mapping[str, str] | None = None) -> Template:
    """The template for a model: its Jinja text, or an engine-like object with `chat_template` and `metadata` (and
    `vocab`, for the spelling of its special tokens).

    A native template is taken where it writes the same bytes as the file's own text for a set of probes; else that
    text itself runs, sandboxed. Raises TemplateNotFound when the file carries none.
    """
    special: Mapping[int, str] = {}
    if chat_template is not None and not isinstance(chat_template, str):
        metadata = chat_template.metadata
        vocab = getattr(chat_template, "vocab", None)
        special = vocab.special_tokens() if vocab is not None else {}
        chat_template = chat_template.chat_template
    facts = metadata or {}
    if not chat_template:
        name = facts.get("general.name", "the model file")
        raise TemplateNotFound(
            f"{name} carries no chat template; give one (template=Qwen38()), or use a model file made for chat"
        )
    if _digest(chat_template) == _digest(Qwen38.jinja()):
        return Qwen38()
    bos = _token("bos", facts, special) or ("<|startoftext|>" if "<|tool_call_start|>" in chat_template else "")
    jinja = JinjaTemplate(
        chat_template,
        name=facts.get("general.name", "jinja"),
        bos_token=bos,
        eos_token=_token("eos", facts, special),
        special=special.values(),
    )
    for markers, make in _natives(bos):
        if all(marker in chat_template for marker in markers) and _same(make(), jinja):
            jinja.close()
            return make()
    return jinja


def _natives(bos: str) -> list[tuple[tuple[str, ...], Callable[[], Template]]]:
    return [
        (("<function=", "Reasoning effort is set to xhigh."), Qwen38),
        (("<function=", "preserve_thinking"), Qwen36),
        (("<function=", "<tool_response>"), Qwen35),
        (("<|tool_call_start|>", "List of tools: ["), lambda: Lfm25(bos_token=bos)),
    ]


def _token(kind: str, metadata: Mapping[str, str], special: Mapping[int, str]) -> str:
    number = metadata.get(f"tokenizer.ggml.{kind}_token_id", "")
    return special.get(int(number), "") if number.isdigit() else ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.strip().encode("utf-8", "replace")).hexdigest()


def _same(native: Template, jinja: JinjaTemplate) -> bool:
    """Both write the same for every probe."""
    try:
        for messages, tools, prompt, knobs in _probes():
            said = _plain(native, messages)
            if native.render(said, tools, prompt, **knobs) != jinja.render(said, tools, prompt, **knobs):
                return False
    except TemplateError:
        return False
    return True


def _plain(native: Template, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """LFM2's text reads reasoning under another name than messages have it: it is probed without."""
    if not isinstance(native, Lfm25):
        return messages
    for message in messages:
        message.pop("reasoning_content", None)
    return messages


def _probes() -> list[tuple[list[dict[str, Any]], list[dict[str, Any]] | None, bool, dict[str, Any]]]:
    arguments = {"a": "x\n", "b": True, "c": None, "d": 1.0, "e": [1], "f": {"k": "v"}}
    call = {"type": "function", "function": {"name": "f", "arguments": arguments}}

    def talk() -> list[dict[str, Any]]:
        return [
            {"role": "system", "content": "S"},
            {"role": "user", "content": "q1"},
            {"role": "assistant", "content": "a1", "reasoning_content": "r1"},
            {"role": "user", "content": "q2"},
            {"role": "assistant", "content": "", "reasoning_content": "r2", "tool_calls": [call, call]},
            {"role": "tool", "content": "t1"},
            {"role": "tool", "content": "t2"},
        ]

    user: list[dict[str, Any]] = [{"role": "user", "content": "q"}]
    return [
        (talk(), [_TOOL, _TOOL], True, {}),
        (talk(), None, False, {}),
        (talk(), None, True, {"enable_thinking": False}),
        (talk(), None, True, {"reasoning_effort": "low", "preserve_thinking": True}),
        (user, None, True, {}),
        (user, [_TOOL], True, {"reasoning_effort": "medium"}),
    ]
