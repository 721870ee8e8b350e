"""Tasks on files: look up a value, change one line, copy, write, list; and what to do when a path is wrong."""

from __future__ import annotations

import random

from . import errors
from .words import FOLDERS, STEMS, WORDS, file_path, invented, key, value
from .writing import Script, and_list

__all__ = ["copy_file", "edit", "list_folder", "look_up", "write"]

SEPARATORS = (" = ", ": ", "=")


def look_up(s: Script, r: random.Random) -> None:
    """Read a file of settings and tell one of them."""
    path, lines = file_path(r, "toml", "cfg", "txt", "json", "md"), _settings(r)
    name, separator = r.choice(list(lines)), r.choice(SEPARATORS)
    s.user(
        r.choice(
            [
                f"What is the {name} in {path}?",
                f"Which {name} does {path} set?",
                f"Look up {name} in {path}.",
                f"Read {path} and tell me the {name}.",
            ]
        )
    )
    path = read(s, r, path, [f"I read {path} to find {name}.", s.check(), "Then I report the value."])
    s.result(_text(lines, separator))
    s.answer(
        [f"The line is {name}{separator}{lines[name]}.", s.done(), f"So {name} is {lines[name]}."],
        f"The {name} in {path} is {lines[name]}.",
    )


def edit(s: Script, r: random.Random) -> None:
    """Change one line of a file of settings and leave the others as they are."""
    path, lines = file_path(r, "toml", "cfg", "txt", "json"), _settings(r)
    name, new, separator = r.choice(list(lines)), value(r), r.choice(SEPARATORS)
    s.user(
        r.choice(
            [
                f"Set {name} to {new} in {path}.",
                f"Change {name} in {path} to {new}.",
                f"Update {path} so that {name} is {new}.",
            ]
        )
    )
    path = read(s, r, path, [f"I read {path} before I change {name}.", s.check(), "Then I write it back."])
    s.result(_text(lines, separator))
    old = lines[name]
    s.call(
        [
            f"The line {name}{separator}{old} becomes {name}{separator}{new}.",
            "All other lines stay as they are.",
            s.check(),
        ],
        ("write_file", {"path": path, "content": _text({**lines, name: new}, separator)}),
    )
    wrote(s, path, _text({**lines, name: new}, separator))
    s.answer([f"{name} is now {new}.", s.done()], f"I changed {name} from {old} to {new} in {path}.")


def copy_file(s: Script, r: random.Random) -> None:
    """Write the content of one file to another: whole lines, byte for byte."""
    path = file_path(r, "txt", "md", "toml", "cfg")
    target = path
    while target == path:
        target = file_path(r, path.rsplit(".", 1)[1])
    lines = [_line(r) for _ in range(r.choice([1, 2, 3, 4, 6, 9]))]
    s.user(r.choice([f"Copy {path} to {target}.", f"Write the content of {path} to {target}."]))
    path = read(s, r, path, [f"I read {path} first.", s.check(), f"Then I write the same to {target}."])
    text = "\n".join(lines)
    s.result(text)
    s.call(
        [f"I write the content to {target}.", "I copy it exactly."], ("write_file", {"path": target, "content": text})
    )
    wrote(s, target, text)
    s.answer([f"{target} is written.", s.done()], f"I copied {path} to {target}.")


def write(s: Script, r: random.Random) -> None:
    """Write a given text."""
    path = file_path(r, "txt", "md")
    text = _line(r, 6)
    s.user(
        r.choice([f'Write "{text}" to {path}.', f'Create {path} with the text "{text}".', f'Save "{text}" in {path}.'])
    )
    s.call(
        [f"I write the text to {path}.", f'The content is "{text}".', "I copy it exactly."],
        ("write_file", {"path": path, "content": text}),
    )
    if r.random() < 0.05:
        s.result(errors.DENIED)
        s.answer(["The user denied the call, so I stop here."], f"I did not write {path}: the call was denied.")
        return
    wrote(s, path, text)
    s.answer([f"{path} is written.", s.done()], f'Done. I wrote "{text}" to {path}.')


def list_folder(s: Script, r: random.Random) -> None:
    """List a folder; now and then its name is not quite right, or it is empty."""
    folder = r.choice(FOLDERS) if r.random() < 0.85 else invented(r)
    names = _names(r)
    s.user(r.choice([f"Which files are in {folder}?", f"List the files in {folder}.", f"What does {folder} contain?"]))
    s.call([f"I list the files in {folder}.", s.check()], ("list_files", {"directory": folder}))
    x = r.random()
    if x < 0.06:
        s.result("The directory is empty.")
        s.answer([f"{folder} is empty.", s.done()], f"{folder} is empty.")
        return
    if x < 0.14:
        near = r.choice([other for other in FOLDERS if other != folder])
        s.result(errors.directory_missing(folder, near))
        s.call([f"{folder} does not exist, so I list {near}.", s.check()], ("list_files", {"directory": near}))
        folder = near
    s.result("\n".join(names))
    count = "1 file" if len(names) == 1 else f"{len(names)} files"
    s.answer([f"{folder} has {count}.", s.done()], f"{folder} contains {and_list(names)}.")


def read(s: Script, r: random.Random, path: str, thoughts: list[str]) -> str:
    """Call `read_file`, sometimes with a mistake before it or a path that is wrong; returns the path that was read."""
    x = r.random()
    if x < 0.03:
        bad = r.choice([{"file": path}, {"filename": path}, {"directory": path}])
        s.call(thoughts, ("read_file", bad), learn=False)
        s.result(errors.bad_call("read_file", bad, ["read_file"]))
        thoughts = ["The parameter is called path, so I call the tool again.", *thoughts[1:]]
    elif x < 0.05:
        s.call(thoughts, ("open_file", {"path": path}), learn=False)
        s.tools.discard("open_file")
        s.result(errors.bad_call("open_file", {"path": path}, ["read_file", "write_file"]))
        thoughts = ["There is no such tool, so I use read_file.", *thoughts[1:]]
    s.call(thoughts, ("read_file", {"path": path}))
    x = r.random()
    if x < 0.10:
        near = path
        while near == path:
            near = file_path(r, path.rsplit(".", 1)[1])
        s.result(errors.file_missing(path, near))
        s.call([f"{path} does not exist, so I read {near}.", s.check()], ("read_file", {"path": near}))
        return near
    if x < 0.14 and "/" in path:
        return _found_by_listing(s, r, path)
    return path


def wrote(s: Script, path: str, text: str) -> None:
    """The result of a `write_file`."""
    s.result(f"Wrote {len(text.encode())} bytes to {path}.")


def _found_by_listing(s: Script, r: random.Random, path: str) -> str:
    folder, name = path.split("/")
    extension = name.rsplit(".", 1)[1]
    names = sorted({f"{r.choice(STEMS)}.{extension}", *(n for n in _names(r) if not n.endswith(extension))})
    right = next(n for n in names if n.endswith("." + extension))
    s.result(errors.file_missing(path, None))
    s.call([f"{path} does not exist, so I list {folder}.", s.check()], ("list_files", {"directory": folder}))
    s.result("\n".join(names))
    found = f"{folder}/{right}"
    s.call([f"The only {extension} file there is {found}, so I read it."], ("read_file", {"path": found}))
    return found


def _names(r: random.Random) -> list[str]:
    count = r.choice([1, 2, 2, 3, 3, 4, 5])
    return sorted({file_path(r).rsplit("/", 1)[-1] for _ in range(count)})


def _settings(r: random.Random) -> dict[str, str]:
    count = r.choice([2, 2, 3, 3, 4, 4, 5, 6, 8])
    return {key(r): value(r) for _ in range(count)}


def _text(lines: dict[str, str], separator: str) -> str:
    return "\n".join(f"{name}{separator}{text}" for name, text in lines.items())


def _line(r: random.Random, most: int = 7) -> str:
    return " ".join(r.choice([r.choice(WORDS), r.choice(WORDS), value(r)]) for _ in range(r.randint(1, most)))
