"""No path, symlink or `..` leaves the folder; also not while somebody swaps what stands there."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentloop.exceptions import ToolDefinitionError, ToolFailed, ToolPathError
from agentloop.tools.paths import Root

SECRET = "outside the workspace"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "outside").mkdir()
    root = tmp_path / "root"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    (root / "src" / "b.txt").write_text("b")
    os.symlink("src", root / "inside")
    os.symlink(root / "a.txt", root / "src" / "absolute")
    os.symlink("../../../outside", root / "src" / "deep" / "out_deep")
    os.symlink(tmp_path / "secret.txt", root / "out_file")
    os.symlink(tmp_path, root / "out_folder")
    os.symlink("../secret.txt", root / "out_relative")
    os.symlink("inside/../../secret.txt", root / "out_by_detour")
    os.symlink("loop", root / "loop")
    return root


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.txt", "a"),
        ("./a.txt", "a"),
        ("src//b.txt", "b"),
        ("src/../a.txt", "a"),
        ("src/deep/../../a.txt", "a"),
        ("inside/b.txt", "b"),
        ("inside/absolute", "a"),
        ("inside/../a.txt", "a"),
    ],
)
def test_paths_inside(folder: Path, path: str, text: str) -> None:
    assert Root(folder).read(path) == text
    assert Root(folder).read(str(folder / path)) == text


OUTSIDE = [
    "../secret.txt",
    "..",
    "src/../../secret.txt",
    "inside/../../secret.txt",
    "out_file",
    "out_relative",
    "out_by_detour",
    "out_folder/secret.txt",
    "/etc/passwd",
    "/",
    "a\0b",
    "src/deep/out_deep/x",
    "src/deep/out_deep/../secret.txt",
    "loop",
    "loop/x",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_paths_that_leave_are_refused(folder: Path, path: str) -> None:
    root = Root(folder)
    before = sorted(os.listdir(folder.parent))
    with pytest.raises(ToolPathError):
        root.read(path)
    with pytest.raises(ToolPathError):
        root.write(path, "overwritten")
    with pytest.raises(ToolPathError):
        root.names(path)
    assert (folder.parent / "secret.txt").read_text() == SECRET
    assert sorted(os.listdir(folder.parent)) == before


def test_a_sibling_whose_name_begins_alike_is_outside(folder: Path) -> None:
    sibling = folder.parent / "root-of-another"
    sibling.mkdir()
    (sibling / "x").write_text(SECRET)
    with pytest.raises(ToolPathError):
        Root(folder).read(str(sibling / "x"))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(
        st.sampled_from(
            ["..", ".", "", "src", "deep", "inside", "out_folder", "out_relative", "secret.txt", "a.txt", "absolute"]
        ),
        max_size=8,
    )
)
def test_no_walk_ever_reads_outside(folder: Path, parts: list[str]) -> None:
    root = Root(folder)
    try:
        text = root.read("/".join(parts))
    except (ToolPathError, ToolFailed):
        return
    assert text != SECRET


def test_a_symlink_swapped_in_while_reading_gives_no_way_out(folder: Path, tmp_path: Path) -> None:
    """One thread swaps a folder against a link to the outside; readers and writers never get there."""
    (tmp_path / "outside" / "file").write_text(SECRET)
    swapped = folder / "swapped"
    real = folder / "real"
    real.mkdir()
    (real / "file").write_text("inside")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.symlink(tmp_path / "outside", folder / "next")
            os.rename(folder / "next", swapped)
            os.unlink(swapped)
            os.rename(real, swapped)
            os.rename(swapped, real)

    thread = threading.Thread(target=swap)
    thread.start()
    root = Root(folder)
    answers = set()
    try:
        for _ in range(3000):
            try:
                answers.add(root.read("swapped/file"))
            except (ToolFailed, ToolPathError):
                answers.add("refused")
            with contextlib.suppress(OSError, ToolPathError), root.place("swapped/other") as place:
                answers.add(str(os.stat(place.folder).st_ino == os.stat(tmp_path / "outside").st_ino))
    finally:
        stop.set()
        thread.join()
    assert SECRET not in answers
    assert "True" not in answers
    assert "refused" in answers


def test_writing_makes_folders_and_keeps_the_mode(folder: Path) -> None:
    root = Root(folder)
    assert root.write("new/deep/file.txt", "héllo") == 6
    assert (folder / "new/deep/file.txt").read_bytes() == "héllo".encode()
    (folder / "a.txt").chmod(0o750)
    root.write("a.txt", "b\r\n")
    assert stat.S_IMODE((folder / "a.txt").stat().st_mode) == 0o750
    assert (folder / "a.txt").read_bytes() == b"b\r\n"


def test_writing_through_a_link_inside_keeps_the_link(folder: Path) -> None:
    Root(folder).write("inside/absolute", "changed")
    assert (folder / "src" / "absolute").is_symlink()
    assert (folder / "a.txt").read_text() == "changed"


def test_a_write_is_all_or_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ToolFailed, match="no space left"):
        Root(folder).write("a.txt", "half")
    assert (folder / "a.txt").read_text() == "a"
    assert [name for name in os.listdir(folder) if name.startswith(".agentloop")] == []


def test_a_reader_never_sees_half_a_file(folder: Path) -> None:
    root = Root(folder)
    texts = ["x" * 200_000, "y" * 200_000]
    root.write("big", texts[0])
    stop = threading.Event()

    def rewrite() -> None:
        while not stop.is_set():
            for text in texts:
                root.write("big", text)

    thread = threading.Thread(target=rewrite)
    thread.start()
    try:
        seen = {root.read("big") for _ in range(200)}
    finally:
        stop.set()
        thread.join()
    assert seen <= set(texts)


def test_what_is_no_text_file(folder: Path) -> None:
    (folder / "latin").write_bytes(b"caf\xe9")
    (folder / "zero").write_bytes(b"a\0b")
    os.mkfifo(folder / "fifo")
    root = Root(folder)
    for path, said in [
        ("latin", "byte 3 is not UTF-8"),
        ("zero", "zero byte"),
        ("fifo", "no regular file"),
        ("src", "is a directory"),
        ("a.txt/b", "not a directory"),
        ("x" * 300, "too long"),
    ]:
        with pytest.raises(ToolFailed, match=said):
            root.read(path)
    with pytest.raises(ToolFailed, match="no regular file"):
        root.write("fifo", "x")
    with pytest.raises(ToolFailed, match="is a directory"):
        root.write("src", "x")
    with pytest.raises(ToolFailed, match="lone surrogate"):
        root.write("s", "\ud800")


def test_a_large_file_is_refused_with_its_size(folder: Path) -> None:
    with open(folder / "large", "wb") as file:
        file.truncate(9 * 1024 * 1024)
    with pytest.raises(ToolFailed, match="9437184 bytes"):
        Root(folder).read("large")


def test_missing_files_get_a_suggestion(folder: Path) -> None:
    (folder / "src" / "config.toml").write_text("")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "confg.toml").write_text("")
    root = Root(folder)
    with pytest.raises(ToolFailed) as caught:
        root.read("confg.toml")
    assert str(caught.value) == "file not found: confg.toml. Did you mean src/config.toml?"
    with pytest.raises(ToolFailed) as caught:
        root.read("zzzzqqqq")
    assert str(caught.value) == "file not found: zzzzqqqq."
    with pytest.raises(ToolFailed) as caught:
        root.names("scr")
    assert str(caught.value) == "directory not found: scr. Did you mean src?"


def test_a_root_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ToolDefinitionError, match="create it first"):
        Root(tmp_path / "none")


def test_a_root_behind_a_link_takes_both_absolute_forms(folder: Path, tmp_path: Path) -> None:
    os.symlink(folder, tmp_path / "alias")
    root = Root(tmp_path / "alias")
    assert root.read(str(tmp_path / "alias" / "a.txt")) == "a"
    assert root.read(str(folder / "a.txt")) == "a"


def test_no_descriptor_is_left_open(folder: Path) -> None:
    root = Root(folder)
    before = len(os.listdir("/dev/fd"))
    for path in ["src/deep/../b.txt", "inside/absolute", *OUTSIDE, "missing/x", "fifo"]:
        with contextlib.suppress(ToolFailed, ToolPathError):
            root.read(path)
    assert len(os.listdir("/dev/fd")) == before
