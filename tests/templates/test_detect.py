"""Which template a model file gets."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from agentloop.exceptions import TemplateNotFound
from agentloop.templates import JinjaTemplate, Lfm25, Qwen35, Qwen36, Qwen38, for_model
from tests.parity.oracle import official_text

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' }}"
    "{{ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@pytest.mark.parametrize(
    ("family", "expected"),
    [("qwen3_8", Qwen38), ("qwen3_6", Qwen36), ("qwen3_5_think", Qwen35), ("lfm2_2_5", Lfm25)],
)
def test_official_templates_get_their_native_one(family: str, expected: type) -> None:
    text = official_text(family)
    if text is None:
        pytest.skip(f"the official template {family} is not to be had here")
    assert type(for_model(text, {})) is expected


def test_our_own_text_needs_no_probe() -> None:
    assert type(for_model(Qwen38.jinja(), {})) is Qwen38
    assert type(for_model(Qwen38.jinja() + "\n", {})) is Qwen38


def test_a_changed_text_is_run_as_it_is() -> None:
    changed = Qwen38.jinja().replace("Keep your thinking brief", "Keep it brief")
    template = for_model(changed, {})
    assert isinstance(template, JinjaTemplate)
    text = template.render([{"role": "user", "content": "x"}], reasoning_effort="low")
    assert "Keep it brief and focused" in text


def test_an_engine_tells_its_special_tokens() -> None:
    vocab = SimpleNamespace(special_tokens=lambda: {1: "<s>", 2: "</s>", 7: "~end~"})
    metadata = {"tokenizer.ggml.bos_token_id": "1", "tokenizer.ggml.eos_token_id": "2", "general.name": "Tiny"}
    text = "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
    template = for_model(SimpleNamespace(chat_template=text, metadata=metadata, vocab=vocab))
    assert template.name == "Tiny"
    messages = [{"role": "user", "content": "a ~end~ b"}]
    assert template.render(messages) == "<s>a ~end~ b</s>"
    data = [s.text for s in template.segments(messages) if not s.is_scaffold]
    assert data == ["~", "~"]
    assert template.end_of_turn == "</s>"


@pytest.mark.parametrize("nothing", [None, ""])
def test_no_template_is_a_typed_error(nothing: str | None) -> None:
    with pytest.raises(TemplateNotFound, match="Tiny carries no chat template"):
        for_model(nothing, {"general.name": "Tiny"})


def test_a_broken_template_fails_when_it_is_used() -> None:
    template = for_model("{% for %}", {})
    with pytest.raises(Exception, match="is no valid Jinja"):
        template.render([{"role": "user", "content": "x"}])
