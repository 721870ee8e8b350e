"""Task files that a user gives, and how an answer is scored: GSM8K and HumanEval, in their JSONL forms.

GSM8K: {"question", "answer"}, the answer's last line `#### 42`. HumanEval: {"task_id", "prompt", "entry_point", "test",
"canonical_solution"?}; `test` defines `check(candidate)`. Files that end in .gz are read too.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .sandbox import Outcome, run_code

__all__ = ["CodeTask", "MathTask", "TaskFileError", "load_gsm8k", "load_humaneval", "number_in"]


class TaskFileError(ValueError):
    """A task file that is not what it should be; the message names the line and what is missing."""


@dataclass(frozen=True, slots=True)
class MathTask:
    """A question whose answer is one number."""

    name: str
    question: str
    answer: str

    @property
    def prompt(self) -> str:
        return f"{self.question}\n\nEnd your answer with the number alone, on a line of its own."

    def right(self, text: str) -> bool:
        """Whether the last number of `text` is the answer."""
        found = number_in(text)
        return found is not None and float(found) == float(self.answer)


@dataclass(frozen=True, slots=True)
class CodeTask:
    """A function to complete, and the tests that it must pass."""

    name: str
    start: str
    entry_point: str
    test: str
    solution: str | None = None

    @property
    def prompt(self) -> str:
        return f"Complete this Python function. Answer with the whole function in one code block.\n\n{self.start}"

    def run(self, text: str, *, seconds: float = 10.0) -> Outcome:
        """Run the tests on the code in `text`, behind the task's own imports."""
        code = code_in(text)
        if not re.search(rf"^(async )?def {re.escape(self.entry_point)}\b", code, re.MULTILINE):
            code = self.start + code  # the body alone
        else:
            imports = [line for line in self.start.splitlines() if re.match(r"(from \S+ )?import ", line)]
            helpers = self.start[: self.start.rfind(f"def {self.entry_point}")]
            code = "\n".join([*imports, helpers, code])
        return run_code(f"{code}\n\n{self.test}\n\ncheck({self.entry_point})", seconds=seconds)


def number_in(text: str) -> str | None:
    """The last number, without thousands separators; None where there is none."""
    found = re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)
    return found[-1].replace(",", "") if found else None


def code_in(text: str) -> str:
    """The last fenced block, or the whole text where there is none."""
    blocks = re.findall(r"```[^\n]*\n(.*?)```", text, re.DOTALL)
    return str(blocks[-1]) if blocks else text


def load_gsm8k(path: str | Path, limit: int | None = None) -> list[MathTask]:
    """Read questions; raises TaskFileError."""
    tasks: list[MathTask] = []
    for i, entry in _entries(path, ("question", "answer"), limit):
        _, mark, answer = entry["answer"].rpartition("####")
        number = number_in(answer)
        if not mark or number is None:
            raise TaskFileError(f"{path}, line {i}: the answer has no line `#### NUMBER`")
        tasks.append(MathTask(f"{Path(path).stem}/{i}", entry["question"].strip(), number))
    return tasks


def load_humaneval(path: str | Path, limit: int | None = None) -> list[CodeTask]:
    """Read problems; raises TaskFileError."""
    return [
        CodeTask(
            entry["task_id"], entry["prompt"], entry["entry_point"], entry["test"], entry.get("canonical_solution")
        )
        for _, entry in _entries(path, ("task_id", "prompt", "entry_point", "test"), limit)
    ]


def _entries(path: str | Path, names: tuple[str, ...], limit: int | None) -> Iterator[tuple[int, dict[str, Any]]]:
    path = Path(path)
    count = 0
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            for i, line in enumerate(lines, 1):
                if limit is not None and count >= limit:
                    return
                if not line.strip():
                    continue
                entry = json.loads(line)
                missing = [n for n in names if not isinstance(entry, dict) or not isinstance(entry.get(n), str)]
                if missing:
                    raise TaskFileError(f"{path}, line {i}: no text under {', '.join(missing)}")
                count += 1
                yield i, entry
    except (OSError, UnicodeDecodeError) as error:
        raise TaskFileError(f"{path} cannot be read: {error}") from error
    except json.JSONDecodeError as error:
        raise TaskFileError(f"{path}: a line is no JSON: {error}") from error
    if not count:
        raise TaskFileError(f"{path} holds no tasks")
