"""Programs with limits: time, output, environment; and nothing of them is left."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from agentloop.tools.processes import Finished, bounded_environment, run_process


def run(command: str, cwd: Path, timeout: float = 30, keep: int = 200_000) -> Finished:
    async def main() -> Finished:
        return await run_process(["/bin/sh", "-c", command], cwd=cwd, timeout=timeout, keep=keep)

    return anyio.run(main)


async def alive(pid: int) -> bool:
    """Whether the process runs; one that was killed may need a moment to go."""
    for _ in range(400):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        state = Path(f"/proc/{pid}/stat")
        if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
            return False  # ended; its new parent has not collected it yet
        await anyio.sleep(0.01)
    return True


def pids(folder: Path, count: int) -> list[int]:
    found = [int(path.read_text()) for path in folder.glob("pid*")]
    assert len(found) == count
    return found


def test_output_of_both_streams_and_the_exit_code(tmp_path: Path) -> None:
    assert run("echo out; echo err >&2; pwd; exit 3", tmp_path) == Finished(f"out\nerr\n{tmp_path}\n", 3, False)
    assert run("kill -9 $$", tmp_path).code == -signal.SIGKILL
    assert run("cat", tmp_path) == Finished("", 0, False)  # stdin is empty


def test_a_timeout_ends_the_whole_group(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    command = (
        "trap '' TERM; sleep 300 & echo $! >work/pid1; sleep 300 & echo $! >work/pid2; echo begun; wait; wait; wait"
    )
    done = run(command, tmp_path, timeout=0.5)
    assert (done.timed_out, done.output) == (True, "begun\n")
    for pid in pids(tmp_path / "work", 2):
        assert not anyio.run(alive, pid)


def test_what_a_finished_program_left_in_the_background_ends_too(tmp_path: Path) -> None:
    done = run("sleep 300 & echo $! >pid1; echo done", tmp_path)
    assert done == Finished("done\n", 0, False)
    assert not anyio.run(alive, pids(tmp_path, 1)[0])


def test_a_cancel_ends_the_group(tmp_path: Path) -> None:
    async def main() -> bool:
        async with anyio.create_task_group() as group:

            async def work() -> None:
                command = "sleep 300 & echo $! >pid1; echo $$ >pid2; wait"
                await run_process(["/bin/sh", "-c", command], cwd=tmp_path, timeout=300)

            group.start_soon(work)
            while not (tmp_path / "pid2").exists() or not (tmp_path / "pid2").read_text():
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        return any([await alive(pid) for pid in pids(tmp_path, 2)])

    assert anyio.run(main) is False


def test_endless_output_is_bounded_and_both_ends_are_kept(tmp_path: Path) -> None:
    done = run("echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last", tmp_path, keep=1000)
    assert done.output.startswith("first\nxxx")
    assert done.output.endswith("xxx\nlast\n")
    assert "bytes left out ...]" in done.output
    assert len(done.output) < 1100


def test_output_that_is_no_text(tmp_path: Path) -> None:
    assert run("printf 'a\\377b'", tmp_path).output == "a\ufffdb"


def test_secrets_stay_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hidden")
    assert "SOME_API_KEY" not in bounded_environment()
    assert bounded_environment({"A": "b"})["A"] == "b"
    output = run("env", tmp_path).output
    assert "hidden" not in output
    assert "PATH=" in output


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    async def main() -> None:
        await run_process([str(tmp_path / "none")], cwd=tmp_path, timeout=5)

    with pytest.raises(FileNotFoundError):
        anyio.run(main)


def test_many_at_once(tmp_path: Path) -> None:
    async def main() -> list[str]:
        outputs: list[str] = []

        async def one(n: int) -> None:
            done = await run_process([sys.executable, "-I", "-S", "-c", f"print({n})"], cwd=tmp_path, timeout=60)
            outputs.append(done.output)

        async with anyio.create_task_group() as group:
            for n in range(6):
                group.start_soon(one, n)
        return sorted(outputs)

    assert anyio.run(main) == [f"{n}\n" for n in range(6)]
