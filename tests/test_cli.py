"""The command line: what it prints, how it exits, and that nothing ends in a traceback."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentloop.cli import main
from agentloop.cli.transcript import Transcript, make_console
from agentloop.demo import PROMPT, copy_sample, sample_passes
from agentloop.events import Event, TurnStarted
from agentloop.models import default_model_path
from tests.model_files import TEMPLATE_KEY, copy_of_model, cut_model

COMMAND = [sys.executable, "-m", "agentloop"]


def run(*arguments: str, text: str = "", timeout: float = 300) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], input=text, capture_output=True, text=True, timeout=timeout, check=False
    )


def one_line(text: str) -> str:
    lines = text.splitlines()
    assert len(lines) == 1, text
    assert lines[0].startswith("agentloop: ")
    return lines[0]


# -- usage


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("dance",),
        ("run", "task"),
        ("demo", "--n-ctx", "0"),
        ("demo", "--threads", "many"),
        ("chat", "--effort", "x"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: agentloop" in capsys.readouterr().err


def test_unknown_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "nothing"]) == 2
    assert "overhead" in one_line(capsys.readouterr().err)


def test_a_draft_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "state", "--draft", "x.gguf"]) == 2
    assert "--draft" in one_line(capsys.readouterr().err)
    missing = str(tmp_path / "missing.gguf")
    for command in (["bench", "decode"], ["run", "x", "--workspace", str(tmp_path)]):
        assert main([*command, "--draft", missing]) == 1
        assert "missing.gguf" in one_line(capsys.readouterr().err)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("agentloop 0.")


# -- inspect


def test_inspect_the_embedded_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    # Two attention layers with two KV heads of 64 + 64 values of two bytes; see the card for the shape.
    plane = 4 * 4 * (3 * (128 + 2 * 2 * 64) + 64 * 128)
    expected = {
        "architecture": "qwen35",
        "layers": 6,
        "attention_layers": 2,
        "recurrent_layers": 4,
        "mtp_layers": 1,
        "vocabulary": 2048,
        "context": 32768,
        "kv_bytes_per_token": 2 * 2 * (64 + 64) * 2,
        "recurrent_plane_bytes": plane,
        "license": "apache-2.0",
        "template": {"found": True, "recognised": "qwen3.8"},
        "file_bytes": default_model_path().stat().st_size,
    }
    assert {key: facts[key] for key in expected} == expected


def test_inspect_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(default_model_path())]) == 0
    text = capsys.readouterr().out
    assert "6 (2 attention, 4 recurrent)" in text
    assert "recognised as qwen3.8" in text


def test_inspect_without_and_with_an_unknown_template(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = copy_of_model(tmp_path / "plain.gguf", drop=(TEMPLATE_KEY,))
    assert main(["inspect", str(plain), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["template"] == {"found": False, "recognised": None}
    own = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    other = copy_of_model(tmp_path / "other.gguf", texts={TEMPLATE_KEY: own})
    assert main(["inspect", str(other), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["template"] == {"found": True, "recognised": None}


# -- bad input: one line on stderr, exit code 1


def bad_models(folder: Path) -> dict[str, Path]:
    text = folder / "letter.txt"
    text.write_text("Dear model, " * 100)
    return {
        "no such file": folder / "missing.gguf",
        "not a GGUF file": text,
        "cut": cut_model(folder / "cut.gguf", 50_000),
        "behind the end of the file": cut_model(folder / "half.gguf", 7_000_000),
        "vocabulary and no weights": copy_of_model(folder / "vocab.gguf", tensors=False),
    }


@pytest.mark.parametrize("command", ["inspect", "chat", "run"])
def test_bad_models_are_one_line(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for said, path in bad_models(tmp_path).items():
        arguments = [command, str(path)]
        if command == "run":
            arguments = ["run", "Say hello.", "--workspace", str(tmp_path), "--model", str(path)]
        assert main(arguments) == 1
        captured = capsys.readouterr()
        line = one_line(captured.err)
        assert str(path) in line
        assert said in line or said == "cut"
        assert captured.out == ""


def test_a_model_without_template_cannot_chat(tmp_path: Path) -> None:
    plain = copy_of_model(tmp_path / "plain.gguf", drop=(TEMPLATE_KEY,))
    done = run("run", "Say hello.", "--workspace", str(tmp_path), "--model", str(plain))
    assert done.returncode == 1
    assert "template" in one_line(done.stderr)


def test_a_task_longer_than_the_context(tmp_path: Path) -> None:
    done = run("run", "word " * 3000, "--workspace", str(tmp_path), "--n-ctx", "1024")
    assert done.returncode == 1
    assert "do not fit" in one_line(done.stderr)


def test_a_missing_workspace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "Say hello.", "--workspace", "/no/such/folder"]) == 1
    assert "/no/such/folder" in one_line(capsys.readouterr().err)


def test_a_workspace_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["run", "Say hello.", "--workspace", str(tmp_path / "file")]) == 1
    assert "not a directory" in one_line(capsys.readouterr().err)


# -- demo and run


def test_demo_json_is_one_object() -> None:
    done = run("demo", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    report = json.loads(done.stdout)
    assert list(report) == ["passed", "model", "turns", "seconds"]
    assert report["passed"] is True
    names = ["reused", "new", "recomputed", "generated", "prefill_s", "decode_s"]
    assert len(report["turns"]) >= 4
    standing = 0
    for turn in report["turns"]:
        assert list(turn) == names
        assert turn["recomputed"] == 0
        assert turn["reused"] == standing, "everything before this turn was reused"
        standing += turn["new"] + turn["generated"]


def test_demo_for_people() -> None:
    done = run("demo")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout, "no colours where nobody sees them"
    for part in ("→ run_tests()", "FAILED test_calc.py::test_add", "→ write_file(path=", "3 passed", "recomputed 0"):
        assert part in done.stdout


def test_run_in_a_workspace(tmp_path: Path) -> None:
    copy_sample(tmp_path)
    done = run("run", PROMPT, "--workspace", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["finish_reason"] == "end"
    assert report["tool_calls"] >= 4
    assert sum(turn["recomputed"] for turn in report["turns"]) == 0
    assert sample_passes(tmp_path)


# -- chat


def test_chat_goes_on_in_one_conversation() -> None:
    done = run("chat", text="What is 12 * 7?\nWhat is 20 + 22?\n/usage\n/new\nHello!\n/quit\nnever read\n")
    assert done.returncode == 0, done.stderr
    assert "12 * 7 = 84." in done.stdout
    assert "20 + 22 = 42." in done.stdout
    assert "recomputed 0" in done.stdout
    assert "A new conversation." in done.stdout
    assert "never read" not in done.stdout
    assert done.stderr == ""


def test_chat_survives_a_message_that_does_not_fit() -> None:
    done = run("chat", "--n-ctx", "1024", text="word " * 3000 + "\nWhat is 12 * 7?\n")
    assert done.returncode == 0
    assert "do not fit" in one_line(done.stderr)
    assert "12 * 7 = 84." in done.stdout


def test_ctrl_c_stops_the_reply_and_not_the_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A real signal, sent when the first turn has begun; its prompt takes long to read."""
    show = Transcript.show
    sent: list[object] = []

    def show_and_interrupt(self: Transcript, event: Event) -> None:
        show(self, event)
        if isinstance(event, TurnStarted) and not sent:
            sent.append(event)
            os.kill(os.getpid(), signal.SIGINT)

    story = "Write a story about " + ", ".join(["a river and a forest"] * 1500) + "."
    monkeypatch.setattr(Transcript, "show", show_and_interrupt)
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{story}\nWhat is 12 * 7?\n/quit\n"))
    assert main(["chat", "--n-ctx", "32768"]) == 0
    captured = capsys.readouterr()
    assert "(stopped)" in captured.out
    assert "recomputed 0" in captured.out.split("(stopped)")[1], "the next message was answered"
    assert captured.err == ""


# -- the terminal


def test_a_reader_that_leaves_is_no_error() -> None:
    for arguments in (("inspect",), ("demo",)):
        with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
            assert command.stdout is not None
            assert command.stderr is not None
            command.stdout.close()
            err = command.stderr.read()
            command.wait(timeout=300)
        assert err == b""


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert make_console().color_system is not None
    monkeypatch.setenv("NO_COLOR", "1")
    assert make_console().no_color
