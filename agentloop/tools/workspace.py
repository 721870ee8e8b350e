"""Ready-made tools over one folder: list, read, write, edit, search, run a command, run the tests.

File tools cannot leave the folder (see `agentloop.tools.paths`). `run_command` and `run_tests` start real programs with
the rights of this process: the folder is where they start, not a fence; what fences them is the time limit, the bounded
environment, and that `run_command` asks a person first.
"""

from __future__ import annotations

import re
import shlex
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentloop.exceptions import ToolDefinitionError, ToolFailed
from agentloop.tools.paths import HIDDEN, Root
from agentloop.tools.processes import Finished, bounded_environment, run_process
from agentloop.tools.testreport import condense_report, pick_test_command
from agentloop.tools.tool import Tool

__all__ = ["Workspace", "workspace_tools"]

_SEARCH = Path(__file__).with_name("_search.py")
_SEARCH_LIMIT = 100  # matches
_SEARCH_SECONDS = 10.0
_WIDE = "400"  # columns: pytest shortens its summary to the terminal


def workspace_tools(
    root: str | Path,
    *,
    allow: Iterable[str] | None = None,
    run_timeout: float = 60,
    test_command: str | Sequence[str] | None = None,
    test_details: bool = False,
    env: Mapping[str, str] | None = None,
    approve_commands: bool = True,
) -> list[Tool]:
    """Tools over the folder `root`: list_files, read_file, write_file, edit_file, search_files, run_command, run_tests.

    `allow` names the ones to hand out (None: all). `run_timeout`: seconds that a command or a test run may take.
    `test_command`: how tests are run (None: pytest, or a small runner where it is not installed); `test_details` adds
    tracebacks to the report. `env`: variables for programs beside the bounded environment. `approve_commands`: a
    person decides on each `run_command`. Raises `ToolDefinitionError` for a missing folder or an unknown name.
    """
    workspace = Workspace(root, run_timeout=run_timeout, test_command=test_command, test_details=test_details, env=env)
    return workspace.tools(allow, approve_commands=approve_commands)


class Workspace:
    """The functions behind `workspace_tools`, for use without a model as well; every error is one for the model."""

    def __init__(
        self,
        root: str | Path,
        *,
        run_timeout: float = 60,
        test_command: str | Sequence[str] | None = None,
        test_details: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.root = Root(root)
        self.run_timeout = run_timeout
        self.test_command = shlex.split(test_command) if isinstance(test_command, str) else test_command
        self.test_details = test_details
        self.env = dict(env or {})
        self._writing = threading.Lock()

    def tools(self, allow: Iterable[str] | None = None, *, approve_commands: bool = True) -> list[Tool]:
        """The functions as tools, in a fixed order; `allow` names some of them."""
        functions: list[Callable[..., Any]] = [
            self.list_files,
            self.read_file,
            self.write_file,
            self.edit_file,
            self.search_files,
            self.run_command,
            self.run_tests,
        ]
        names = [function.__name__ for function in functions]
        wanted = list(names if allow is None else allow)
        if unknown := [name for name in wanted if name not in names]:
            raise ToolDefinitionError(unknown[0], f"no workspace tool has this name; there are {', '.join(names)}")
        return [
            Tool(
                function,
                sequential=function.__name__ in ("run_command", "run_tests"),
                requires_approval=approve_commands and function.__name__ == "run_command",
            )
            for function in functions
            if function.__name__ in wanted
        ]

    def list_files(self, directory: str) -> str:
        """List the files in a directory.

        Args:
            directory: Directory to list.
        """
        return "\n".join(self.root.names(directory)) or "The directory is empty."

    def read_file(self, path: str) -> str:
        """Read a text file and return its content.

        Args:
            path: Path of the file to read.
        """
        return self.root.read(path)

    def write_file(self, path: str, content: str) -> str:
        """Write text to a file, replacing what it held.

        Args:
            path: Path of the file to write.
            content: The new content.
        """
        with self._writing:
            return f"Wrote {self.root.write(path, content)} bytes to {path}."

    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace a piece of text in a file. The old text must occur exactly once.

        Args:
            path: Path of the file to change.
            old: The text to replace, exactly as it stands in the file.
            new: The text to put in its place.
        """
        if not old:
            raise ToolFailed("old is empty; give the text to replace")
        with self._writing:
            text = self.root.read(path)
            if old not in text and "\r\n" in text and "\r" not in old:
                old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
            lines = [text.count("\n", 0, match.start()) + 1 for match in re.finditer(re.escape(old), text)]
            if not lines:
                raise ToolFailed(_not_found(path, old, text))
            if len(lines) > 1:
                where = ", ".join(map(str, lines[:10]))
                count = f"old occurs {len(lines)} times in {path} (lines {where})"
                raise ToolFailed(f"{count}; include the lines around it to make it unique")
            self.root.write(path, text.replace(old, new, 1))
        return f"Edited {path} at line {lines[0]}."

    async def search_files(self, pattern: str, directory: str = ".", glob: str = "*") -> str:
        """Search text files for a regular expression and return the matching lines.

        Args:
            pattern: Regular expression to search for.
            directory: Directory to search in, with all directories below it.
            glob: File names to search in, for example *.py.
        """
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as exc:
            raise ToolFailed(f"{pattern!r} is no regular expression: {exc}") from None
        with self.root.folder(directory) as handle:
            prefix = directory.removeprefix(str(self.root.path)).strip("/") or "."
            arguments = [str(handle), prefix, glob, str(_SEARCH_LIMIT), pattern, *sorted(HIDDEN)]
            done = await run_process(
                [sys.executable, "-I", "-S", str(_SEARCH), *arguments],
                cwd=self.root.path,
                timeout=_SEARCH_SECONDS,
                pass_fds=[handle],
            )
        if done.timed_out:
            raise ToolFailed(f"the search took longer than {_SEARCH_SECONDS:g} s; use a simpler pattern")
        if done.code != 0:
            raise ToolFailed(f"the search failed: {done.output.strip()[-200:]}")
        return done.output.rstrip("\n")

    async def run_command(self, command: str) -> str:
        """Run a shell command in the workspace and return its output.

        Args:
            command: The command line.
        """
        done = await self._run(["/bin/sh", "-c", command])
        notes = []
        if done.timed_out:
            notes.append(f"[stopped after {self.run_timeout:g} s]")
        elif done.code != 0:
            notes.append(f"[exit code {done.code}]" if done.code > 0 else f"[ended by signal {-done.code}]")
        output = done.output.strip("\n")
        return "\n".join([output, *notes] if output else notes) or "The command printed nothing."

    async def run_tests(self) -> str:
        """Run the test suite and return its report."""
        command = self.test_command or pick_test_command(self.root.path, details=self.test_details)
        done = await self._run(command)
        if done.timed_out:
            raise ToolFailed(f"the tests did not finish within {self.run_timeout:g} s and were stopped")
        report = condense_report(done.output, details=self.test_details)
        if report is not None:
            return report
        output = done.output.strip() or "The tests printed nothing."
        return output if done.code == 0 else f"{output}\n[exit code {done.code}]"

    async def _run(self, command: Sequence[str]) -> Finished:
        env = bounded_environment({"COLUMNS": _WIDE, **self.env})
        try:
            return await run_process(command, cwd=self.root.path, timeout=self.run_timeout, env=env)
        except (OSError, ValueError) as exc:
            raise ToolFailed(f"{command[0]} cannot be started: {exc}") from None


def _not_found(path: str, old: str, text: str) -> str:
    """Why an edit found nothing: the usual reason is white space."""
    squeezed = " ".join(old.split())
    first = next((line.strip() for line in old.splitlines() if line.strip()), "")
    if squeezed and squeezed in " ".join(text.split()):
        return f"old is not in {path} exactly; the same words are there with other white space. Read the file again"
    for number, line in enumerate(text.splitlines(), 1):
        if first and first == line.strip():
            return f"old is not in {path}; its first line is at line {number}, but what follows differs"
    return f"old is not in {path}. Read the file and copy the text exactly"
