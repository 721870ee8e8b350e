"""Episodes read back as they were written, and say of errors what the tools themselves say."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentloop.arguments import check_call
from agentloop.calls import Call
from agentloop.templates import Qwen38
from agentloop.templates.base import join
from agentloop.tools import run_calls, workspace_tools
from agentloop.tools.samples import calculator
from training import errors
from training.episodes import KINDS, episode, knobs, segments

TEMPLATE = Qwen38()
SEEDS = range(60)


def replies(seed: int | str, kinds: list[str] | None = None) -> list[tuple[dict[str, Any], str]]:
    """Assistant messages of an episode, each with the text behind its generation prompt."""
    e = episode(seed, kinds)
    found = []
    for i, message in enumerate(e.messages):
        if message["role"] == "assistant":
            before = TEMPLATE.render(e.messages[:i], e.tools, **knobs(e.effort))
            after = TEMPLATE.render(e.messages[: i + 1], e.tools, add_generation_prompt=False, **knobs(e.effort))
            assert after.startswith(before)
            found.append((message, after[len(before) :].removesuffix("\n")))
    return found


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_replies_of_every_kind_read_back(kind: str) -> None:
    for number in range(12):
        tools = episode(f"{kind} {number}", [kind]).tools
        effort = episode(f"{kind} {number}", [kind]).effort
        for message, text in replies(f"{kind} {number}", [kind]):
            reply = TEMPLATE.parse(text, tools, thinking=effort is not None)
            wanted = [call["function"] for call in message.get("tool_calls", [])]
            assert [(c.name, c.arguments) for c in reply.calls] == [(w["name"], w["arguments"]) for w in wanted] or (
                not message["learn"]
            )
            assert reply.content == message["content"]
            if effort is not None:
                assert reply.reasoning == message["reasoning_content"]


def test_learnt_calls_are_valid_and_shown_mistakes_are_not() -> None:
    mistakes = 0
    for seed in range(300):
        e = episode(seed)
        for message in e.messages:
            for call in message.get("tool_calls", []):
                function = call["function"]
                status = check_call(Call(function["name"], function["arguments"]), e.tools).status
                assert (status == "ok") == message["learn"]
                mistakes += status != "ok"
    assert mistakes > 3


def test_a_seed_is_an_episode() -> None:
    assert episode(5) == episode(5)
    assert episode(5) != episode(6)
    assert len({join(segments(episode(seed))) for seed in SEEDS}) == len(SEEDS)


def test_without_the_system_block_the_rest_stays() -> None:
    for seed in range(20):
        e = episode(seed)
        short, whole = join(segments(e, with_system=False)), join(segments(e))
        assert whole.endswith(short)
        assert short.startswith("<|im_start|>user\n")


def said(tools: list[Any], name: str, **arguments: Any) -> str:
    call = check_call(Call(name, arguments), [tool.schema for tool in tools])
    return asyncio.run(run_calls([call], tools))[0].content


def test_errors_are_worded_as_the_tools_word_them(tmp_path: Any) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "config.toml").write_text("port = 80\n")
    tools = [*workspace_tools(tmp_path), calculator]
    names = [tool.name for tool in tools]
    near = "src/config.toml"
    assert said(tools, "read_file", path="config.toml") == errors.file_missing("config.toml", near)
    assert said(tools, "read_file", path="zzzzzz") == errors.file_missing("zzzzzz", None)
    assert said(tools, "list_files", directory="srcs") == errors.directory_missing("srcs", "src")
    assert said(tools, "read_file", path="src") == errors.is_directory("src")
    assert said(tools, "calculator", expression="3 / 0") == errors.failed("division by zero")
    assert said(tools, "read_file", file="a") == errors.bad_call("read_file", {"file": "a"}, names)
    assert said(tools, "open_file", path="a") == errors.bad_call("open_file", {"path": "a"}, names)
    with pytest.raises(ValueError, match="is valid"):
        errors.bad_call("read_file", {"path": "a"}, ["read_file"])
