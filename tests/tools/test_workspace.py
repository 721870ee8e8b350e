"""The workspace tools, called as a model calls them: their words, their limits, their schemas."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentloop.calls import Call
from agentloop.exceptions import ToolDefinitionError
from agentloop.tools import ToolResult, Workspace, run_calls, workspace_tools
from agentloop.tools.testreport import condense_report


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    (root / "calc.py").write_text("def add(a, b):\n    return a - b\n\n\ndef double(x):\n    return 2 * x\n")
    (root / "test_calc.py").write_text(
        "from calc import add, double\n\n\ndef test_add():\n    assert add(2, 3) == 5\n\n\n"
        "def test_double():\n    assert double(4) == 8\n"
    )
    return root


def call(folder: Path, tool: str, /, **arguments: Any) -> str:
    return result(folder, tool, **arguments).content


def result(folder: Path, tool: str, /, **arguments: Any) -> ToolResult:
    async def main() -> list[ToolResult]:
        return await run_calls([Call(tool, arguments)], workspace_tools(folder, approve_commands=False, run_timeout=60))

    return anyio.run(main)[0]


def declared(name: str, description: str, **properties: str) -> str:
    """The text that the embedded model was trained on."""
    return json.dumps(
        {
            "type": "function",
            "function": {
                "name": name,
                "description": description,
                "parameters": {
                    "type": "object",
                    "properties": {key: {"type": "string", "description": text} for key, text in properties.items()},
                    "required": list(properties),
                },
            },
        }
    )


def test_schemas_are_those_that_the_embedded_model_knows(folder: Path) -> None:
    schemas = {tool.name: json.dumps(tool.schema) for tool in workspace_tools(folder)}
    assert list(schemas) == [
        "list_files",
        "read_file",
        "write_file",
        "edit_file",
        "search_files",
        "run_command",
        "run_tests",
    ]
    assert schemas["list_files"] == declared(
        "list_files", "List the files in a directory.", directory="Directory to list."
    )
    assert schemas["read_file"] == declared(
        "read_file", "Read a text file and return its content.", path="Path of the file to read."
    )
    assert schemas["write_file"] == declared(
        "write_file",
        "Write text to a file, replacing what it held.",
        path="Path of the file to write.",
        content="The new content.",
    )
    assert schemas["run_tests"] == declared("run_tests", "Run the test suite and return its report.")


def test_only_what_is_allowed(folder: Path) -> None:
    tools = workspace_tools(folder, allow=["read_file", "run_command"])
    assert [(tool.name, tool.requires_approval) for tool in tools] == [("read_file", False), ("run_command", True)]
    with pytest.raises(ToolDefinitionError, match="there are list_files, read_file"):
        workspace_tools(folder, allow=["delete_everything"])


def test_listing(folder: Path) -> None:
    (folder / "docs").mkdir()
    (folder / ".git").mkdir()
    (folder / "__pycache__").mkdir()
    assert call(folder, "list_files", directory=".") == "calc.py\ndocs/\ntest_calc.py"
    assert call(folder, "list_files", directory="docs/") == "The directory is empty."
    assert call(folder, "list_files", directory="dcs") == "Error: directory not found: dcs. Did you mean docs?"
    assert call(folder, "list_files", directory="calc.py") == "Error: calc.py cannot be opened: not a directory."


def test_reading_and_writing(folder: Path) -> None:
    assert call(folder, "read_file", path="calc.py") == (folder / "calc.py").read_text()
    assert call(folder, "read_file", path="clc.py") == "Error: file not found: clc.py. Did you mean calc.py?"
    spaced = "Error: file not found: ' calc.py' begins or ends with a space. Did you mean calc.py?"
    assert call(folder, "read_file", path=" calc.py") == spaced
    assert call(folder, "write_file", path="a/b.txt", content="two words") == "Wrote 9 bytes to a/b.txt."
    assert (folder / "a/b.txt").read_text() == "two words"
    outside = result(folder, "write_file", path="../x", content="")
    assert (outside.outcome, outside.content) == (
        "failed",
        "Error: path '../x' leaves the workspace; use a path relative to the workspace folder",
    )


def test_editing(folder: Path) -> None:
    assert call(folder, "edit_file", path="calc.py", old="a - b", new="a + b") == "Edited calc.py at line 2."
    assert (folder / "calc.py").read_text().startswith("def add(a, b):\n    return a + b\n\n\n")


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ("return", "old occurs 2 times in calc.py (lines 2, 6); include the lines around it"),
        ("return a * b", "old is not in calc.py. Read the file and copy the text exactly"),
        ("def add(a, b):\n  return a - b", "the same words are there with other white space"),
        ("def add(a, b):\n    pass", "its first line is at line 1, but what follows differs"),
        ("", "old is empty"),
    ],
)
def test_edits_that_do_not_match_change_nothing(folder: Path, old: str, said: str) -> None:
    before = (folder / "calc.py").read_bytes()
    assert said in call(folder, "edit_file", path="calc.py", old=old, new="x")
    assert (folder / "calc.py").read_bytes() == before


def test_an_edit_keeps_the_line_ends_of_the_file(folder: Path) -> None:
    (folder / "dos.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    assert call(folder, "edit_file", path="dos.txt", old="one\ntwo", new="1\n2") == "Edited dos.txt at line 1."
    assert (folder / "dos.txt").read_bytes() == b"1\r\n2\r\nthree\r\n"


def test_edits_of_one_file_at_once_are_all_kept(folder: Path) -> None:
    (folder / "list.txt").write_text("".join(f"<{n}>\n" for n in range(20)))
    calls = [Call("edit_file", {"path": "list.txt", "old": f"<{n}>", "new": f"[{n}]"}) for n in range(20)]

    async def main() -> None:
        await run_calls(calls, workspace_tools(folder))

    anyio.run(main)
    assert (folder / "list.txt").read_text() == "".join(f"[{n}]\n" for n in range(20))


def test_searching(folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "calc.txt").write_text("nothing\n  def add here\n")
    (folder / "src" / "binary").write_bytes(b"def add\0")
    (folder / "src" / "link").symlink_to(folder.parent)
    (folder.parent / "outside.py").write_text("def add")
    assert call(folder, "search_files", pattern=r"def add\b") == (
        "calc.py:1: def add(a, b):\nsrc/calc.txt:2: def add here"
    )
    assert call(folder, "search_files", pattern="def add", glob="*.txt") == "src/calc.txt:2: def add here"
    assert call(folder, "search_files", pattern="add", directory="src") == "src/calc.txt:2: def add here"
    assert call(folder, "search_files", pattern="nowhere") == "No matches."
    assert "is no regular expression" in call(folder, "search_files", pattern="(")
    assert "leaves the workspace" in call(folder, "search_files", pattern="a", directory="src/link")


def test_a_search_stops_at_its_limit(folder: Path) -> None:
    (folder / "many.txt").write_text("match\n" * 500)
    lines = call(folder, "search_files", pattern="match").splitlines()
    assert len(lines) == 101
    assert lines[-1].startswith("[stopped after 100 matches")


def test_a_runaway_expression_is_stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentloop.tools.workspace._SEARCH_SECONDS", 0.5)
    (folder / "trap.txt").write_text("a" * 60 + "!")
    assert call(folder, "search_files", pattern="(a+)+$") == (
        "Error: the search took longer than 0.5 s; use a simpler pattern"
    )


def test_commands(folder: Path) -> None:
    assert call(folder, "run_command", command="ls; exit 2") == "calc.py\ntest_calc.py\n[exit code 2]"
    assert call(folder, "run_command", command="true") == "The command printed nothing."
    assert call(folder, "run_command", command="kill -9 $$") == "[ended by signal 9]"
    workspace = Workspace(folder, run_timeout=0.3)
    assert asyncio.run(workspace.run_command("echo begun; sleep 300")) == "begun\n[stopped after 0.3 s]"


def test_the_test_report_is_condensed(folder: Path) -> None:
    assert call(folder, "run_tests") == "FAILED test_calc.py::test_add - assert -1 == 5\n1 failed, 1 passed"
    call(folder, "edit_file", path="calc.py", old="a - b", new="a + b")
    assert call(folder, "run_tests") == "2 passed"
    assert sorted(path.name for path in folder.iterdir()) == ["calc.py", "test_calc.py"]


def test_a_test_file_that_cannot_be_imported(folder: Path) -> None:
    (folder / "test_calc.py").write_text("import calcc\n")
    assert call(folder, "run_tests") == ("ERROR test_calc.py - ModuleNotFoundError: No module named 'calcc'\n1 error")
    (folder / "test_calc.py").write_text("def test_x(:\n")
    assert call(folder, "run_tests").startswith("ERROR test_calc.py - ")
    (folder / "test_calc.py").unlink()
    assert call(folder, "run_tests") == "no tests ran"


@pytest.mark.parametrize("options", ["-q -ra", "-vv --tb=long -rA", "--durations=3 --color=yes"])
def test_the_projects_own_pytest_options_do_not_hide_the_report(folder: Path, options: str) -> None:
    (folder / "pytest.ini").write_text(f"[pytest]\naddopts = {options}\n")
    assert call(folder, "run_tests") == "FAILED test_calc.py::test_add - assert -1 == 5\n1 failed, 1 passed"


def test_a_project_around_the_folder_has_no_say(folder: Path) -> None:
    (folder.parent / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\ntestpaths = elsewhere\n")
    (folder.parent / "conftest.py").write_text("raise SystemExit('not here')\n")
    assert call(folder, "run_tests") == "FAILED test_calc.py::test_add - assert -1 == 5\n1 failed, 1 passed"


def test_details_add_the_traceback(folder: Path) -> None:
    report = asyncio.run(Workspace(folder, test_details=True).run_tests())
    assert "E   assert -1 == 5" in report
    assert report.endswith("FAILED test_calc.py::test_add - assert -1 == 5\n1 failed, 1 passed")


def test_tests_that_hang_are_stopped(folder: Path) -> None:
    (folder / "test_calc.py").write_text("import time\n\n\ndef test_hang():\n    time.sleep(300)\n")

    async def main() -> list[ToolResult]:
        return await run_calls([Call("run_tests", {})], workspace_tools(folder, run_timeout=3))

    assert anyio.run(main)[0].content == "Error: the tests did not finish within 3 s and were stopped"


RUNNER = str(Path(sys.modules[Workspace.__module__].__file__ or "").with_name("_plain_tests.py"))


def plain(folder: Path) -> str:
    return asyncio.run(Workspace(folder, test_command=[sys.executable, RUNNER]).run_tests())


def test_without_pytest_the_report_is_the_same(folder: Path) -> None:
    assert plain(folder) == call(folder, "run_tests")
    call(folder, "edit_file", path="calc.py", old="a - b", new="a + b")
    assert plain(folder) == call(folder, "run_tests") == "2 passed"
    (folder / "test_calc.py").unlink()
    assert plain(folder) == "no tests ran"


def test_without_pytest_other_forms_of_tests(folder: Path) -> None:
    (folder / "test_calc.py").write_text(
        "import unittest\nimport calc\n\n"
        "class Sums(unittest.TestCase):\n"
        "    def test_equal(self):\n        self.assertEqual(calc.add(2, 3), 5)\n"
        "    def test_error(self):\n        raise KeyError('k')\n"
        "    @unittest.skip('later')\n    def test_skip(self):\n        pass\n"
        "class TestPlain:\n"
        "    def test_method(self):\n        assert 'ab' not in 'abc', 'found it'\n"
        "async def test_async():\n    assert calc.double(2) > 4\n"
        "def test_once():\n    values = iter([1, 2])\n    assert next(values) == 1\n    assert next(values) == 2\n"
    )
    (folder / "test_broken.py").write_text("import calcc\n")
    assert plain(folder).splitlines() == [
        "ERROR test_broken.py - ModuleNotFoundError: No module named 'calcc'",
        "FAILED test_calc.py::Sums::test_equal - assert -1 == 5",
        "FAILED test_calc.py::Sums::test_error - KeyError: 'k'",
        "FAILED test_calc.py::TestPlain::test_method - AssertionError: found it",
        "FAILED test_calc.py::test_async - assert 4 > 4",
        "4 failed, 1 passed, 1 skipped, 1 error",
    ]


def test_a_test_command_of_ones_own(folder: Path) -> None:
    workspace = Workspace(folder, test_command="sh -c 'echo all good'")
    assert asyncio.run(workspace.run_tests()) == "all good"
    workspace = Workspace(folder, test_command=["sh", "-c", "echo went wrong; exit 4"])
    assert asyncio.run(workspace.run_tests()) == "went wrong\n[exit code 4]"
    missing = Workspace(folder, test_command="no-such-program").tools(["run_tests"])

    async def main() -> list[ToolResult]:
        return await run_calls([Call("run_tests", {})], missing)

    assert anyio.run(main)[0].content.startswith("Error: no-such-program cannot be started: ")


@pytest.mark.parametrize(
    ("output", "report"),
    [
        ("...\n3 passed in 0.01s\n", "3 passed"),
        ("==== 1 failed, 2 passed, 3 warnings in 61.20s (0:01:01) ====", "1 failed, 2 passed"),
        ("1 passed, 1 warning in 0.5s", "1 passed"),
        ("noise\nno tests ran in 0.00s", "no tests ran"),
        ("5 passed", "5 passed"),
        ("it printed: 5 passed in time", None),
        ("", None),
    ],
)
def test_condensing(output: str, report: str | None) -> None:
    assert condense_report(output) == report


def test_many_failures_are_counted_not_listed() -> None:
    lines = [f"FAILED test_a.py::test_{n} - assert 0" for n in range(50)]
    report = condense_report("\n".join(["short test summary info", *lines, "50 failed in 1.0s"]))
    assert report is not None
    assert report.splitlines()[-2:] == ["[... 30 more ...]", "50 failed"]
    assert len(report.splitlines()) == 22
