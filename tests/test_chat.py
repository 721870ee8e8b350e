"""`agentloop chat` as a person uses it: real processes on the embedded model, on a pipe and on a terminal."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from agentloop.cli import main
from agentloop.cli.commands import COMMANDS, complete
from agentloop.cli.lines import history_path
from agentloop.conversation.saved import read_saved
from tests.terminal import COMMAND, STYLE, UP, Terminal

COST = re.compile(r"\(reused ([\d,]+), new ([\d,]+), recomputed ([\d,]+), generated ([\d,]+)\)")


def talk(*arguments: str, lines: list[str], folder: Path) -> tuple[str, str]:
    """Output and errors of a chat that reads these lines from a pipe."""
    text = "\n".join(lines) + "\n"
    done = subprocess.run(
        [*COMMAND, "chat", "--n-ctx", "4096", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def costs(text: str) -> list[tuple[int, ...]]:
    """(reused, new, recomputed, generated) of each answer."""
    return [tuple(int(n.replace(",", "")) for n in found) for found in COST.findall(text)]


def test_fork_switch_rewind_save(tmp_path: Path) -> None:
    out, err = talk(
        lines=[
            "What is 12 * 7?",
            "/fork sums",
            "What is 20 + 22?",
            "/switch main",
            "What is the weather in Oslo?",
            "/rewind",
            "/save my talk.json",
            "What is 3 + 4?",
            "/usage",
            "/switch",
        ],
        folder=tmp_path,
    )
    assert err == ""
    for part in ("12 * 7 = 84.", "20 + 22 = 42.", "Oslo: snowy, -2 degrees.", "3 + 4 = 7."):
        assert part in out
    assert "sums shares the " in out
    assert "nothing was decoded. /switch main goes back." in out
    assert re.search(r"tokens taken back, [\d,]+ stay: the state came from a checkpoint\.", out)
    assert "It began with: What is the weather in Oslo?" in out
    assert [cost[2] for cost in costs(out)] == [0, 0, 0, 0], "neither forks nor rewinds decode anything again"
    first, sums, weather, last = costs(out)
    stood = first[1] + first[3]
    # Two turns each: the first finds what stood at the fork or behind the rewind, the second that and its own.
    for cost in (sums, weather, last):
        assert 2 * stood <= cost[0] <= 2 * stood + cost[1] + cost[3]
    table = out.split("turn  reused", 1)[1]
    assert "sum: 6 turns" in table
    assert "recomputed 0" in table
    assert "of 4,096 tokens" in table
    assert "* main: 2 questions" in table
    assert "  sums: 2 questions" in table
    saved = read_saved(tmp_path / "my talk.json")
    assert saved["messages"][-1]["content"].strip() == "12 * 7 = 84."
    assert (tmp_path / "my talk.json.state").exists()


def test_resume_in_another_process(tmp_path: Path) -> None:
    talk(lines=["What is 12 * 7?", "/save talk.json", "/quit", "never read"], folder=tmp_path)
    before = read_saved(tmp_path / "talk.json")
    lines = ["What is 20 + 22?", "/rewind 2", "/load talk.json", "/save"]
    out, err = talk("--resume", "talk.json", lines=lines, folder=tmp_path)
    assert err == ""
    assert out.count("talk.json: 1 question, ") == 2
    assert out.count("its live state was restored, nothing was decoded.") == 2
    assert "> What is 12 * 7?\n12 * 7 = 84." in out
    assert [cost[2] for cost in costs(out)] == [0]
    assert costs(out)[0][0] > 400, "the first process's tokens were reused"
    after = read_saved(tmp_path / "talk.json")
    assert [after[key] for key in ("messages", "tokens", "turns")] == [
        before[key] for key in ("messages", "tokens", "turns")
    ]
    (tmp_path / "talk.json.state").unlink()
    out, _ = talk("--resume", "talk.json", lines=["What is 3 + 4?"], folder=tmp_path)
    assert "tokens decoded again." in out
    assert "3 + 4 = 7." in out


def test_small_commands_and_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear model")
    lines = ["/help", "/tools", "/usage", "/fork", "/go", "/rewin", "/save", "/load", "/load letter.txt", "/quit now"]
    lines += [
        "/think xhigh",
        "/think hard",
        "Hello!",
        "/rewind 2",
        "/rewind x",
        "/think none",
        "/fork main",
        "/fork a b",
    ]
    lines += ["/switch moon", "/save .", "/new", "/rewind"]
    out, err = talk(lines=lines, folder=tmp_path)
    for name, command in COMMANDS.items():
        assert re.search(rf"^{re.escape(name)} .*{re.escape(command.about)}$", out, re.MULTILINE)
    assert "calculator(expression)\n    Evaluate an arithmetic expression." in out
    assert "begin now reason with the effort xhigh." in out
    assert "This one goes on with xhigh: it stands at its head." in out
    assert [line.removeprefix("agentloop: ").split(":")[0] for line in err.splitlines()] == [
        *["nothing was said yet"] * 3,
        "there is no /rewin; is it /rewind? /help lists the commands",
        "nothing was said yet",
        "which file? /load FILE",
        "letter.txt",
        "/quit takes nothing behind it",
        "there is no effort 'hard'; use one of none, low, medium, xhigh",
        "2 questions cannot be taken back",
        "'x' is not a whole number of 1 or more",
        "there is a branch main already",
        "the name of a branch has no spaces and only visible characters",
        "there is no branch moon; there are",
        ". is a folder; give the name of a file to save to",
        "nothing was said yet",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--resume", "/no/such/file"], 1, "/no/such/file: there is no such file"),
        (["one.gguf", "--model", "two.gguf"], 2, "the model is given twice"),
        (["--ask", "fly"], 2, "--ask fly: there is no such tool here; there are: calculator, get_weather"),
    ],
)
def test_options_that_cannot_be(arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", *arguments]) == code
    captured = capsys.readouterr()
    assert captured.err.startswith(f"agentloop: {said}")
    assert captured.err.count("\n") == 1


def test_completion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talk.json").write_text("")
    (tmp_path / "talks").mkdir()
    assert list(complete("/re")) == ["/rewind "]
    assert list(complete("/loa")) == ["/load "]
    assert list(complete("/load ta")) == ["/load talk.json", "/load talks/"]
    assert list(complete("/rewind ")) == list(complete("What")) == list(complete("")) == []


# -- on a terminal


def test_a_session_on_a_terminal(tmp_path: Path) -> None:
    """Prompts, lines that go on, completion, the history, Ctrl-C at the prompt and Ctrl-D."""
    with Terminal("chat", env={"XDG_STATE_HOME": str(tmp_path)}) as terminal:
        terminal.expect("/help lists the commands.")
        terminal.expect("> ")
        terminal.press("half a line")
        terminal.expect("half a line")
        terminal.interrupt("Ctrl-D or /quit leaves.")
        terminal.expect("> ")
        terminal.type("What is 12 * 7?\\")
        terminal.expect("… ")
        terminal.type("")
        terminal.expect("12 * 7 = 84.")
        terminal.expect("recomputed 0")
        terminal.expect("> ")
        terminal.type("/rewin\t")
        terminal.expect("tokens taken back")
        terminal.expect("> ")
        terminal.press(UP + UP + "\r")
        terminal.expect("… ")
        terminal.type("")
        terminal.expect("12 * 7 = 84.")
        terminal.expect("> ")
        terminal.type("/fork other")
        terminal.leave("other> ")
        assert "Traceback" not in terminal.written
        assert STYLE.search(terminal.raw), "reasoning is dimmed"
    history = tmp_path / "agentloop" / "chat_history"
    assert history.read_text().splitlines() == ["What is 12 * 7?\\", "/rewind ", "What is 12 * 7?\\", "/fork other"]
    assert history.stat().st_mode & 0o077 == 0
    with Terminal("chat", env={"XDG_STATE_HOME": str(tmp_path)}) as terminal:
        terminal.expect("> ")
        terminal.press(UP + UP + UP + "\r")
        terminal.expect("agentloop: nothing was said yet")
        terminal.leave()


def test_ctrl_c_stops_the_turn_and_go_goes_on(tmp_path: Path) -> None:
    """A tool that would take ten minutes is stopped; the conversation goes on, with nothing decoded again."""
    (tmp_path / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (tmp_path / "test_calc.py").write_text("import time\n\n\ndef test_add():\n    time.sleep(600)\n")
    with Terminal("chat", "--workspace", str(tmp_path), env={"XDG_STATE_HOME": str(tmp_path / "state")}) as terminal:
        terminal.expect("> ")
        terminal.type("The tests fail. Fix the bug in calc.py.")
        terminal.expect("→ run_tests()")
        terminal.interrupt("(stopped) /go goes on, or write something else.")
        terminal.expect("> ")
        (tmp_path / "test_calc.py").write_text("def test_add():\n    assert True\n")
        terminal.type("/go")
        terminal.expect("recomputed 0")
        terminal.expect("> ")
        terminal.type("/usage")
        terminal.expect("recomputed 0")
        terminal.type("/quit")
        assert terminal.end() == 0
        assert "Traceback" not in terminal.written


def test_approvals_are_asked_inline(tmp_path: Path) -> None:
    """No with a reason, yes, always; the arguments are shown; Ctrl-C at the question stops the turn."""
    with Terminal("chat", "--ask", "calculator", env={"XDG_STATE_HOME": str(tmp_path)}) as terminal:
        question = "run it? [y]es, [n]o, [a]lways calculator: "

        def ask(sum_: str) -> str:
            terminal.expect("> ")
            terminal.type(f"What is {sum_}?")
            return terminal.expect(question)

        shown = ask("12 * 7")
        assert "calculator asks first\n  expression: 12 * 7\n" in shown
        terminal.type("perhaps")
        terminal.expect("y runs it, n does not")
        terminal.expect(question)
        terminal.type("n the battery is low")
        terminal.expect("The user denied this call: the battery is low")
        assert "84" not in terminal.expect("recomputed 0")
        ask("20 + 22")
        assert "42" not in terminal.interrupt("(stopped) /go goes on")
        terminal.expect("> ")
        terminal.type("/go")
        terminal.expect("expression: 20 + 22")
        terminal.expect(question)
        terminal.type("y")
        terminal.expect("  42\n")
        terminal.expect("recomputed 0")
        ask("3 + 4")
        terminal.type("a")
        terminal.expect("  7\n")
        terminal.expect("recomputed 0")
        terminal.expect("> ")
        terminal.type("What is 30 + 12?")
        assert question not in terminal.expect("  42\n")
        terminal.leave()
    history = (tmp_path / "agentloop" / "chat_history").read_text()
    assert "What is 3 + 4?" in history
    assert "battery" not in history, "an answer to a question is no message"


def test_run_asks_on_a_terminal_and_refuses_without_one(tmp_path: Path) -> None:
    arguments = ("run", 'Write "hello world" to notes.txt.', "--workspace", str(tmp_path), "--ask", "write_file")
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "agentloop: write_file asks first and there is nobody to ask; run it on a terminal, or allow all with --yes\n"
    )
    assert not (tmp_path / "notes.txt").exists()
    with Terminal(*arguments) as terminal:
        terminal.expect("[a]lways write_file: ")
        terminal.type("y")
        terminal.expect("recomputed 0")
        assert terminal.end() == 0
    assert (tmp_path / "notes.txt").exists()


def test_no_color_sends_no_styles(tmp_path: Path) -> None:
    with Terminal("chat", env={"NO_COLOR": "1", "XDG_STATE_HOME": str(tmp_path)}) as terminal:
        terminal.expect("> ")
        terminal.type("What is 12 * 7?")
        terminal.expect("recomputed 0")
        terminal.leave()
        assert not STYLE.search(terminal.raw)


def test_where_the_history_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert history_path() == tmp_path / "agentloop" / "chat_history"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert history_path() == Path.home() / ".local" / "state" / "agentloop" / "chat_history"


def test_the_page_about_chat_tells_every_command() -> None:
    page = (Path(__file__).resolve().parent.parent / "docs" / "chat.md").read_text(encoding="utf-8")
    told = set(re.findall(r"`(/[a-z]+)(?: \[?[A-Z]+\]?)?`", page.split("## Commands")[1].split("\n\n")[1]))
    assert told == set(COMMANDS)
