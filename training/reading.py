"""Steps that tasks share: a file is read or written, with the mistakes and the errors that come now and then."""

from __future__ import annotations

import random
from collections.abc import Sequence

from . import errors
from .words import STEMS, file_path, folder_name, invented
from .writing import CHECKS, Script

__all__ = ["change", "denied", "mistake", "names", "read", "wrote"]

_NO_TOOLS = ("open_file", "cat", "get_file", "load_file", "read", "view_file", "open")


def read(s: Script, r: random.Random, path: str, thoughts: Sequence[str]) -> str | None:
    """Call `read_file`, sometimes with a mistake before it or a path that is wrong; returns the path that was read.

    None: it could not be read, the script has said so, and the task is over.
    """
    x = r.random()
    if x < 0.020:
        _shown(s, thoughts, "read_file", {r.choice(("file", "filename", "file_path", "name")): path})
        thoughts = ["The parameter is called path, so I call the tool again.", *thoughts[1:]]
    elif x < 0.038:
        name = r.choice(_NO_TOOLS)
        _shown(s, thoughts, name, {"path": path})
        thoughts = [f"There is no tool {name}, so I use read_file.", *thoughts[1:]]
    elif x < 0.050:
        _shown(s, thoughts, "read_file", {})
        thoughts = ["The path was missing, so I call the tool again.", *thoughts[1:]]
    s.call(thoughts, ("read_file", {"path": path}))
    x = r.random()
    if x < 0.012:
        denied(s, f"read {path}")
        return None
    if x < 0.13:
        near = _near(s, r, path)
        s.result(errors.file_missing(path, near))
        s.call([f"{path} does not exist, so I read {near}.", CHECKS["read"]], ("read_file", {"path": near}))
        s.files.add(near)
        return near
    if x < 0.155:
        s.result(errors.file_missing(path, None))
        if "/" in path and "list_files" in s.declared and not s.inside(path.rpartition("/")[0]):
            return _by_listing(s, r, path)
        _missing(s, path)
        return None
    s.files.add(path)
    return path


def denied(s: Script, what: str) -> None:
    """A person denied the last call; the agent stops and says what it did not do."""
    s.result(errors.DENIED)
    s.answer(["The user denied the call, so I stop here."], f"I did not {what}: the call was denied.")


def change(s: Script, r: random.Random, thoughts: Sequence[str], path: str, new: str) -> bool:
    """Write the whole text of a file; False if a person denied it."""
    s.call(thoughts, ("write_file", {"path": path, "content": new}))
    if r.random() < 0.012:
        denied(s, f"write {path}")
        return False
    wrote(s, path, new)
    return True


def wrote(s: Script, path: str, text: str) -> None:
    """The result of a `write_file`."""
    s.files.add(path)
    s.result(f"Wrote {len(text.encode())} bytes to {path}.")


def names(s: Script, r: random.Random, folder: str) -> list[str]:
    """The names in a folder, in order; the files in it that the conversation knows are among them."""
    count = r.choice([1, 2, 2, 3, 3, 4, 4, 5, 6])
    found = {file_path(r).rsplit("/", 1)[-1] for _ in range(count)}
    if r.random() < 0.12:
        found.add(folder_name(r).split("/")[0] + "/")
    return sorted(found | s.inside(folder))


def mistake(
    s: Script, r: random.Random, thoughts: list[str], name: str, arguments: dict[str, str], wrong: str, right: str
) -> list[str]:
    """Now and then a call whose parameter `right` has the name `wrong`; returns what is thought before the next one."""
    if r.random() >= 0.04:
        return thoughts
    _shown(s, thoughts, name, {wrong if key == right else key: text for key, text in arguments.items()})
    return [f"The parameter is called {right}, so I call the tool again.", *thoughts[1:]]


def _shown(s: Script, thoughts: Sequence[str], name: str, arguments: dict[str, str]) -> None:
    """A call that is no example, and what is said of it."""
    s.call(thoughts, (name, arguments), learn=False)
    s.result(errors.bad_call(name, arguments, s.declared))


def _near(s: Script, r: random.Random, path: str) -> str:
    """Another path such as a suggestion names: mostly one that looks alike."""
    folder, _, name = path.rpartition("/")
    stem, extension = name.rsplit(".", 1)
    near = path
    while near == path or near in s.paths:
        near = r.choice(
            [
                f"{folder_name(r)}/{name}",
                name if folder else f"{stem}2.{extension}",
                f"{path.rsplit('.', 1)[0]}_{r.choice(STEMS)}.{extension}",
                f"{path.rsplit('.', 1)[0][:-1] or invented(r)}.{extension}",
                f"{path.rsplit('.', 1)[0]}s.{extension}",
                f"{path.rsplit('.', 1)[0]}.{r.choice(('toml', 'cfg', 'txt', 'yaml'))}",
                path.replace(name, f"{r.choice(('my', 'old', 'new'))}_{name}"),
                path.replace(name, name.removeprefix("my_")),
                file_path(r, extension),
            ]
        )
    s.paths.add(near)
    return near


def _missing(s: Script, path: str) -> None:
    s.answer([f"{path} does not exist."], f"{path} does not exist.")


def _by_listing(s: Script, r: random.Random, path: str) -> str | None:
    """The only file of the same kind in the folder is the one that was meant."""
    folder, name = path.rsplit("/", 1)
    extension = name.rsplit(".", 1)[1]
    right = name
    while right == name:
        right = file_path(r, extension).rsplit("/", 1)[-1]
    s.call([f"{path} does not exist, so I list {folder}.", CHECKS["more"]], ("list_files", {"directory": folder}))
    if r.random() < 0.2:
        s.result(errors.directory_missing(folder, None))
        _missing(s, path)
        return None
    s.result(
        "\n".join(sorted({right, *(other for other in names(s, r, folder) if not other.endswith("." + extension))}))
    )
    found = f"{folder}/{right}"
    s.paths.add(found)
    s.files.add(found)
    s.call([f"The only {extension} file there is {found}, so I read it."], ("read_file", {"path": found}))
    return found
