"""Episodes read back as they were written, and say of errors what the tools themselves say."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentloop.arguments import check_call
from agentloop.calls import Call
from agentloop.templates import Qwen38
from agentloop.templates.base import join
from agentloop.templates.budget import ReasoningBudget
from agentloop.tools import run_calls, workspace_tools
from agentloop.tools.samples import calculator
from training import errors
from training.contents import log, settings
from training.episodes import KINDS, Episode, episode, knobs, segments
from training.words import _ALL

TEMPLATE = Qwen38()
SEEDS = range(60)


def replies(e: Episode) -> list[tuple[dict[str, Any], str]]:
    """Assistant messages of an episode, each with the text behind its generation prompt."""
    found = []
    for i, message in enumerate(e.messages):
        if message["role"] == "assistant":
            before = TEMPLATE.render(e.messages[:i], e.tools, **knobs(e.effort))
            after = TEMPLATE.render(e.messages[: i + 1], e.tools, add_generation_prompt=False, **knobs(e.effort))
            assert after.startswith(before)
            found.append((message, after[len(before) :].removesuffix("\n")))
    return found


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("long", [0.0, 1.0])
def test_replies_of_every_kind_read_back(kind: str, long: float) -> None:
    for number in range(3 if long else 12):
        e = episode(f"{kind} {number}", [kind], long=long)
        assert e.kinds == [kind]
        for message, text in replies(e):
            reply = TEMPLATE.parse(text, e.tools, thinking=e.effort is not None)
            wanted = [call["function"] for call in message.get("tool_calls", [])]
            assert [(c.name, c.arguments) for c in reply.calls] == [(w["name"], w["arguments"]) for w in wanted] or (
                not message["learn"]
            )
            assert reply.content == message["content"]
            if e.effort is not None:
                assert reply.reasoning == message["reasoning_content"]


def test_learnt_calls_are_valid_and_shown_mistakes_are_not() -> None:
    mistakes = 0
    for seed in range(300):
        e = episode(seed)
        for message, result in zip(e.messages, [*e.messages[1:], {}], strict=True):
            for call in message.get("tool_calls", []):
                function = call["function"]
                status = check_call(Call(function["name"], function["arguments"]), e.tools).status
                useless = function["name"] == "edit_file" and result["content"].startswith("Error: old")
                assert (status == "ok" and not useless) == message["learn"]
                mistakes += status != "ok"
    assert mistakes > 3


def test_what_is_declared_is_what_errors_name_and_what_is_called() -> None:
    named = 0
    for seed in range(250):
        e = episode(seed, room=700, shown=seed % 2 == 0)
        declared = [tool["function"]["name"] for tool in e.tools]
        called = {c["function"]["name"] for m in e.messages for c in m.get("tool_calls", []) if m["learn"]}
        assert called <= set(declared)
        assert seed % 2 == 0 or "edit_file" not in declared
        for message in e.messages:
            if message["role"] == "tool" and message["content"].startswith("Error: there is no tool"):
                assert message["content"].endswith(f"declared tools: {', '.join(declared)}")
                named += 1
    assert named > 0


def test_edits_go_by_edit_file_exactly_where_it_is_declared() -> None:
    for seed in range(60):
        e = episode(f"edit {seed}", ["edit"])
        called = {c["function"]["name"] for m in e.messages for c in m.get("tool_calls", [])}
        wanted = "edit_file" if any(t["function"]["name"] == "edit_file" for t in e.tools) else "write_file"
        assert called & {"edit_file", "write_file"} <= {wanted}


def test_settings_have_one_line_for_a_key_and_logs_one_error() -> None:
    r = random.Random(4)
    for count in (2, 5, 30, 150):
        content = settings(r, count)
        assert len(content.values) == count
        assert all(content.lines.count(content.line(name)) == 1 for name in content.values)
        name = content.names()[0]
        changed = content.with_value(name, "something new")
        assert changed == content.text.replace(content.line(name), f"{name}{content.separator}something new")
        text, error = log(r, count)
        assert next(line for line in text.split("\n") if "ERROR" in line).endswith(f"ERROR {error}")
        assert len(text.split("\n")) == count


def test_every_listed_word_is_written_by_some_reply() -> None:
    """A token that no reply holds is never learnt, and a name that needs it is copied wrong."""
    written: set[str] = set()
    for seed in range(1200):
        for message in episode(f"words {seed}", room=1500).messages:
            if message["role"] == "assistant" and message["learn"]:
                calls = [str(call["function"]["arguments"]) for call in message.get("tool_calls", [])]
                written |= set(re.findall(r"[a-z_]+", " ".join([message["content"], *calls]).lower()))
    listed = {word for word in _ALL if re.fullmatch(r"[a-z_]{4,}", word)}
    assert len(listed) > 400
    assert listed - written == set()


def test_a_listing_has_the_files_that_were_read_or_written_there() -> None:
    seen = 0
    for seed in range(600):
        known: set[str] = set()
        messages = episode(f"listings {seed}", room=2048, long=0.1).messages
        calls: list[dict[str, Any]] = []
        for message in messages:
            if message["role"] == "assistant":
                calls = [call["function"] for call in message.get("tool_calls", [])]
            elif message["role"] == "tool":
                made, said = calls.pop(0), message["content"]
                if said == errors.DENIED:
                    continue
                path = made["arguments"].get("path", "")
                if made["name"] in ("read_file", "write_file") and not said.startswith("Error: "):
                    known.add(path)
                if made["name"] == "list_files" and "directory" in made["arguments"]:
                    folder = made["arguments"]["directory"] + "/"
                    there = {p.removeprefix(folder).partition("/")[0] for p in known if p.startswith(folder)}
                    seen += len(there)
                    assert there <= {name.rstrip("/") for name in said.splitlines()}, (seed, folder)
    assert seen > 10


def test_errors_in_logs_end_with_a_path_now_and_then() -> None:
    """Behind `error in FILE.txt` stands `is:` in an answer; an error that ends with a path ends there all the same."""
    r = random.Random(4)
    ends = [log(r, 3)[1].rsplit(" ", 1)[-1] for _ in range(300)]
    assert sum(re.search(r"\.(txt|cfg|md|py|toml|json)$", end) is not None for end in ends) > 25


def test_a_room_is_about_filled_by_one_conversation() -> None:
    sizes = [len(join(segments(episode(seed, room=1000, shown=False), with_system=False))) for seed in range(20)]
    assert min(sizes) > 1500
    assert max(sizes) < 7000


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


def test_files_that_are_copied_stand_in_the_call_byte_for_byte() -> None:
    for seed in range(40):
        e = episode(f"copies {seed}", ["copy"], long=0.3)
        written = [
            call["function"]["arguments"]["content"]
            for message in e.messages
            for call in message.get("tool_calls", [])
            if call["function"]["name"] == "write_file"
        ]
        results = [m["content"] for m in e.messages if m["role"] == "tool"]
        assert all(text in results for text in written)


class Words:
    """The vocabulary of a tokenizer, as a reasoning budget wants it."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.n_tokens = tokenizer.get_vocab_size()

    def decode(self, ids: Sequence[int]) -> bytes:
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=False)
        return text.encode()

    def encode_parts(self, parts: Iterable[tuple[str, bool]]) -> list[int]:
        from training.tokenizer import encode

        return encode(self.tokenizer, parts)

    def token_id(self, text: str) -> int | None:
        found: int | None = self.tokenizer.token_to_id(text)
        return found


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Words:
    pytest.importorskip("tokenizers")
    from training.tokenizer import train_tokenizer

    path: Path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    return Words(train_tokenizer(path, vocabulary=700, episodes=120))


def by_budget(cut: Any, words: Words) -> list[int]:
    """The ids of a reply's reasoning and of what closes it, as a budget makes them out of what was thought so far."""
    kept = words.encode_parts([(cut.kept, False)]) if cut.kept else []
    closing = words.encode_parts([(cut.closing, False), ("\n</think>\n\n", True)])
    end = words.token_id("</think>")
    assert end is not None
    budget = ReasoningBudget(0 if cut.bare else len(kept) + closing.index(end), words, close=cut.close, soft=0)
    forced = budget.begin()
    for token in kept:
        assert forced is None
        forced = budget.accept(token, words.decode([token]), "reasoning")
    assert forced is not None
    return [*kept, *forced.ids]


def test_reasoning_that_was_cut_is_what_a_budget_leaves_and_is_not_learnt(words: Words) -> None:
    from training.samples import encoded

    forms = set()
    for seed in range(400):
        e = episode(seed)
        ids, weights = encoded(words.tokenizer, e, with_system=False)
        at = 0
        for message in e.messages:
            cut = message.get("cut")
            if cut is None:
                continue
            wanted = words.encode_parts([("<|im_start|>assistant\n<think>\n", True)]) + by_budget(cut, words)
            at = next(i for i in range(at, len(ids)) if ids[i : i + len(wanted)] == wanted)
            at += len(wanted)
            assert not any(weights[at - len(wanted) : at])
            assert weights[at] == float(message["learn"])
            forms.add((cut.bare, bool(cut.close), bool(cut.kept)))
    assert {(True, False, False), (False, False, True), (False, True, True), (False, True, False)} <= forms


def test_special_tokens_in_plain_text_are_text(words: Words) -> None:
    parts = [("a <think> b <|im_end|> c ", False), ("<think>\n", True), ("</think>", False)]
    ids = words.encode_parts(parts)
    assert ids.count(words.token_id("<think>")) == 1
    assert words.decode(ids).decode() == "".join(text for text, _ in parts)


def test_the_ids_of_an_episode_are_its_text(words: Words) -> None:
    from training.samples import encoded

    for seed in range(20):
        e = episode(seed, room=600, shown=seed % 2 == 0, long=0.2)
        ids, _ = encoded(words.tokenizer, e, with_system=seed % 2 == 0)
        assert words.decode(ids).decode() == join(segments(e, with_system=seed % 2 == 0))


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


def test_errors_of_edits_and_tests_are_worded_as_the_tools_word_them(tmp_path: Path) -> None:
    text = "port = 80\nmax_port = 80\nhost = oslo\n"
    tools = [*workspace_tools(tmp_path, run_timeout=0.2, test_command="sleep 5")]
    for old in ("port = 80", "port=80", "host  = oslo", "host = oslo", "host = oslo\nmode = x"):
        (tmp_path / "a.toml").write_text(text)
        assert said(tools, "edit_file", path="a.toml", old=old, new="x") == errors.edited("a.toml", text, old)
    assert said(tools, "run_tests") == errors.stopped(0.2)
    bad = {"path": "a.toml"}
    assert said(tools, "write_file", **bad) == errors.bad_call("write_file", bad, [tool.name for tool in tools])
    call = check_call(Call("run_command", {"command": "ls"}), [tool.schema for tool in tools])
    assert asyncio.run(run_calls([call], tools, approve=lambda _: False))[0].content == errors.DENIED
