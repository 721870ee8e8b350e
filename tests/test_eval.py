"""The judge of scripts/eval_model.py: a right solution of every kind is solved, one with one other byte is not."""

from __future__ import annotations

import importlib.util
import random
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agentloop import Sampling, Thinking
from agentloop.templates.base import join
from agentloop.testing import ReplyText, ScriptedEngine, call, say, think
from agentloop.tools import workspace_tools
from agentloop.tools.samples import calculator, get_weather
from training import words
from training.episodes import episode, knobs
from training.functions import FUNCTIONS

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


NAMES, WORLD, TASKS, LONG, RUN, TURNS = (
    loaded(f"eval_{name}") for name in ("names", "world", "tasks", "long", "run", "turns")
)
KINDS = sorted({make: kind for kind, make in LONG.KINDS.items()}.values())  # one name for each maker


def task_of(kind: str, number: int) -> Any:
    return LONG.KINDS[kind](random.Random(f"test {kind} {number}"))


def turns_of(task: Any) -> list[Any]:
    """What has to be said in each turn: a list of calls, or an answer."""
    return [turn for step in task.steps for turn in (*step.turns, step.answer)]


def spelled(turn: Any) -> ReplyText:
    if isinstance(turn, str):
        return think("I see.") + say(turn)
    reply = think("I see.")
    for name, arguments in turn:
        reply += call(name, **arguments)
    return reply


def solved(task: Any, turns: list[Any]) -> bool:
    """Whether a model that says this solves the task. Whatever it is asked beyond that, it says nothing new."""
    script = iter([spelled(turn) for turn in turns])
    engine = ScriptedEngine(lambda _: next(script, think("I see.") + say("?")))
    outcomes = RUN.attempt(engine, task, Thinking(), Sampling(), most_tokens=100_000)
    return not any(outcome.wrong for outcome in outcomes)


def other(text: str, at: int) -> str:
    return text[:at] + ("x" if text[at] != "x" else "y") + text[at + 1 :]


def mistakes(task: Any, r: random.Random) -> list[list[Any]]:
    """The right turns with one other byte in an answer or an argument, or with a call left out or made twice."""
    right = turns_of(task)
    wrong: list[list[Any]] = []
    counts: list[list[Any]] = []
    for i, turn in enumerate(right):
        if isinstance(turn, str):
            wrong.append([*right[:i], other(turn, r.randrange(len(turn))), *right[i + 1 :]])
            continue
        counts.append([*right[:i], *right[i + 1 :]])
        counts.append([*right[:i], turn, *right[i:]])
        counts.append([*right[:i], (*turn, turn[0]), *right[i + 1 :]])
        if len(turn) > 1:
            counts.append([*right[:i], *((one,) for one in turn), *right[i + 1 :]])
        for j, (name, arguments) in enumerate(turn):
            for key, value in arguments.items():
                changed = {**arguments, key: other(value, r.randrange(len(value)))}
                wrong.append([*right[:i], (*turn[:j], (name, changed), *turn[j + 1 :]), *right[i + 1 :]])
    return [*r.sample(wrong, min(3, len(wrong))), *r.sample(counts, min(2, len(counts)))]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_right_is_solved_and_another_byte_is_not(kind: str) -> None:
    task = task_of(kind, 1)
    assert solved(task, turns_of(task))
    for wrong in mistakes(task, random.Random(kind)):
        assert not solved(task, wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_is_a_task(kind: str) -> None:
    assert task_of(kind, 1) == task_of(kind, 1)
    assert task_of(kind, 1) != task_of(kind, 2)


def test_another_order_within_a_turn_is_right() -> None:
    for kind in ("read_two", "write_two", "weather_three", "add_files"):
        task = task_of(kind, 1)
        assert solved(task, [turn if isinstance(turn, str) else turn[::-1] for turn in turns_of(task)])


def test_an_edit_may_be_worded_in_any_way_that_does_it() -> None:
    task = task_of("edit_file", 1)
    path, text = next(iter(task.world.files.items()))
    ((_, edit),) = task.steps[0].turns[1]
    assert text.count(edit["old"]) == 1
    whole = {"path": path, "old": text.rstrip("\n"), "new": task.after[path].rstrip("\n")}
    read, _, answer = turns_of(task)
    assert solved(task, [read, (("edit_file", whole),), answer])
    assert not solved(task, [read, (("write_file", {"path": path, "content": task.after[path]}),), answer])


def test_the_tools_are_those_of_agentloop(tmp_path: Path) -> None:
    real = {tool.name: tool.schema for tool in [*workspace_tools(tmp_path), calculator, get_weather]}
    tools = WORLD.Desk(tmp_path, edits=True).tools()
    assert {tool.name: tool.schema for tool in tools} == {tool.name: real[tool.name] for tool in tools}
    assert "edit_file" not in [tool.name for tool in WORLD.Desk(tmp_path, edits=False).tools()]


def test_a_wrong_path_is_answered_with_the_right_one() -> None:
    for number in range(12):
        task = task_of("retry", number)
        asked, meant = (turn[0][1]["path"] for turn in task.steps[0].turns)
        script = iter(map(spelled, turns_of(task)))
        (outcome,) = RUN.attempt(ScriptedEngine(lambda _: next(script)), task, Thinking(), Sampling())  # noqa: B023
        said = next(message["content"] for message in outcome.messages if message["role"] == "tool")
        assert said == f"Error: file not found: {asked}. Did you mean {meant}?"


def test_a_conversation_counts_every_request_until_it_is_full() -> None:
    tasks = LONG.talk(random.Random("talk"))
    assert len(tasks) == 40
    turns = [turn for task in tasks for turn in turns_of(task)]
    script = iter(map(spelled, turns))
    outcomes = RUN.converse(ScriptedEngine(lambda _: next(script)), tasks, Thinking(), Sampling(), most_tokens=100_000)
    assert len(outcomes) >= 12
    assert outcomes[0].at == 0 < outcomes[1].at < 8_000
    assert not any(outcome.wrong and outcome.wrong != "not asked" for outcome in outcomes)
    assert sum(not outcome.wrong for outcome in outcomes) >= 3


def test_a_mistake_in_a_conversation_is_one_wrong_request() -> None:
    tasks = [task_of(kind, 1) for kind in ("write", "follow_up", "weather", "list")]
    turns = [turn for task in tasks for turn in turns_of(task)]
    at = turns.index(tasks[1].steps[0].answer)
    turns[at] = other(turns[at], 5)
    script = iter(map(spelled, turns))
    outcomes = RUN.converse(ScriptedEngine(lambda _: next(script)), tasks, Thinking(), Sampling())
    assert [not outcome.wrong for outcome in outcomes] == [True, False, True, True, True]


def test_reasoning_is_asked_for_by_kind() -> None:
    r = random.Random(1)
    assert not RUN.thinking_of("off", r).enabled
    assert {RUN.thinking_of("budget", r).budget for _ in range(60)} == {0, 4, 16, 40}
    assert {RUN.thinking_of("write", r).effort for _ in range(60)} == {"low", "medium", "xhigh"}


def test_novel_names_are_in_no_list() -> None:
    r = random.Random(1)
    known = {*words.STEMS, *words.KEYS, *words.WORDS, *words.CITIES}
    draws = (NAMES.NOVEL.stem, NAMES.NOVEL.key, NAMES.NOVEL.value, NAMES.NOVEL.word, NAMES.NOVEL.city)
    for _ in range(400):
        drawn = {draw(r) for draw in draws}
        assert not {part for text in drawn for part in re.split(r"[-_./]", text)} & known


def test_other_names_are_in_no_list() -> None:
    lists = (words._ALL, words.FOLDERS, words.SKIES, words._ODD_FILES, words._ODD_FOLDERS, FUNCTIONS)
    known = {part.lower() for listed in lists for word in listed for part in (word, *re.split(r"[-_./]", word))}
    for held in (NAMES.STEMS, NAMES.FOLDERS, NAMES.KEYS, NAMES.WORDS, NAMES.CITIES):
        assert not {word.lower() for word in held.others} & known


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def half(x):\n    return x / 2", "1 passed"),
        ("def half(x):\n    return x * 2", "FAILED test_m.py::test_half - assert 6 == 1.5\n1 failed"),
        ("", "FAILED test_m.py::test_half - TypeError: 'NoneType' object is not callable\n1 failed"),
        ("def half(x)", "ERROR test_m.py - SyntaxError\n1 error"),
        ("exit()", "ERROR test_m.py - SystemExit\n1 error"),
        ("print('1')\ndef half(x):\n    return x / 2", "1 passed"),
    ],
)
def test_what_a_model_wrote_runs_outside(source: str, said: str) -> None:
    assert WORLD.test_report(source, WORLD.World(module="m.py", functions=("half",))) == said


def test_long_files_are_long_and_fit() -> None:
    for kind, fewest, most in (
        ("copy_long", 10, 60),
        ("look_up_long", 20, 181),
        ("edit_long", 20, 181),
        ("log_long", 20, 181),
    ):
        for number in range(20):
            (text,) = task_of(kind, number).world.files.values()
            assert fewest <= len(text.splitlines()) <= most
            assert len(text) <= (1_800 if kind == "copy_long" else 4_000)


def test_prompts_of_single_turns_are_what_the_template_writes() -> None:
    template, cut = TURNS.TEMPLATE, 0
    for seed in range(40):
        e = episode(f"turns {seed}")
        turns = [i for i, message in enumerate(e.messages) if message["role"] == "assistant"]
        for turn in turns:
            own = join(TURNS.before(e, turn))
            assert own.endswith("<|im_start|>assistant\n" + template.reply_prefix(**knobs(e.effort)))
            if any("cut" in message for message in e.messages[:turn]):
                cut += 1
            else:
                assert own == join(template.segments(e.messages[:turn], e.tools, **knobs(e.effort)))
    assert cut > 3
