"""Tasks on files: look up values, find an error in a log, copy, write, list."""

from __future__ import annotations

import random

from . import errors
from .contents import Settings, copied_text, log, settings
from .reading import change, denied, mistake, names, read, wrote
from .words import folder_name, text_line
from .writing import CHECKS, DONE, Script, and_list

__all__ = [
    "asked_settings",
    "copy_file",
    "find_error",
    "list_folder",
    "look_up",
    "look_up_two",
    "second_question",
    "write",
    "write_two",
]

SETTINGS = ("toml", "cfg", "txt", "ini", "md", "yaml")


def asked_settings(s: Script, r: random.Random, most: int = 180) -> Settings:
    """A file of settings: 2 to 9, or 16 to `most` in a task with a long file."""
    if s.large:
        return settings(r, _many(s, r, most, 12))
    return settings(r, r.choice([2, 2, 2, 3, 3, 3, 4, 4, 5, 5, 6, 9]))


def _many(s: Script, r: random.Random, most: int, each: int) -> int:
    """How many lines of about `each` tokens a long file has; the longest are rarer, and there has to be room."""
    wanted = r.randint(16, most if r.random() < 0.5 else r.randint(30, most))
    return max(12, min(wanted, int(s.left / each)))


def look_up(s: Script, r: random.Random) -> None:
    """Read a file of settings and tell one of them."""
    _look_up(s, r)


def second_question(s: Script, r: random.Random) -> None:
    """Then tell more of them, without another call."""
    found = _look_up(s, r)
    if found is None:
        return
    path, content, asked = found
    others = [name for name in content.values if name != asked]
    for name in r.sample(others, min(len(others), r.choice([1, 1, 2]))):
        s.ask([f"And the {name}?"], [f"And {name}?", f"What is the {name} there?", f"What about the {name}?"])
        s.answer(
            [f"The line is {content.line(name)}.", f"I have read {path} already.", DONE["told"]],
            f"The {name} in {path} is {content.values[name]}.",
        )


def _look_up(s: Script, r: random.Random) -> tuple[str, Settings, str] | None:
    path, content = s.path(*SETTINGS), asked_settings(s, r)
    name = r.choice(list(content.values))
    s.ask(
        [
            f"What is the {name} in {path}?",
            f"Which {name} does {path} set?",
            f"Look up {name} in {path}.",
            f"Read {path} and tell me the {name}.",
        ],
        [
            f"Tell me the {name} in {path}.",
            f"Find {name} in {path}.",
            f"What value does {name} have in {path}?",
            f"I need the {name} from {path}.",
            f"what is {name} in {path}",
        ],
    )
    found = read(s, r, path, [f"I read {path} to find {name}.", CHECKS["read"], "Then I report the value."])
    if found is None:
        return None
    s.result(content.text)
    s.answer([f"The line is {content.line(name)}.", DONE["told"]], f"The {name} in {found} is {content.values[name]}.")
    return found, content, name


def look_up_two(s: Script, r: random.Random) -> None:
    """Read two files in one turn and tell a value of each."""
    paths = [s.path(*SETTINGS), s.path(*SETTINGS)]
    contents = [settings(r, r.choice([2, 3, 3, 4, 5])) for _ in paths]
    keys = [r.choice(list(content.values)) for content in contents]
    s.ask(
        [f"What is the {keys[0]} in {paths[0]} and the {keys[1]} in {paths[1]}?"],
        [
            f"Look up {keys[0]} in {paths[0]} and {keys[1]} in {paths[1]}.",
            f"Tell me the {keys[0]} in {paths[0]} and the {keys[1]} in {paths[1]}.",
            f"Which {keys[0]} does {paths[0]} set, and which {keys[1]} does {paths[1]} set?",
        ],
    )
    s.call(
        [f"I read {paths[0]} and {paths[1]}.", "Both files can be read in one step.", CHECKS["read"]],
        *(("read_file", {"path": path}) for path in paths),
    )
    s.files.update(paths)
    for content in contents:
        s.result(content.text)
    first, second = (content.line(name) for content, name in zip(contents, keys, strict=True))
    told = (
        f"The {name} in {path} is {content.values[name]}."
        for name, path, content in zip(keys, paths, contents, strict=True)
    )
    s.answer([f"The lines are {first} and {second}.", DONE["told"]], " ".join(told))


def find_error(s: Script, r: random.Random) -> None:
    """Read a log and tell its one error."""
    path = s.path("log", "log", "txt")
    text, error = log(r, _log_lines(s, r))
    s.ask(
        [f"Which error is in {path}?", f"Find the error in {path}."],
        [f"What is the error in {path}?", f"Read {path} and tell me the error.", f"What went wrong in {path}?"],
    )
    found = read(s, r, path, [f"I read {path} to find the error.", CHECKS["read"], "Then I report the error."])
    if found is None:
        return
    s.result(text)
    s.answer([f"The line is ERROR {error}.", DONE["told"]], f"The error in {found} is: {error}.")


def _log_lines(s: Script, r: random.Random) -> int:
    if s.large:
        return _many(s, r, 150, 17)
    return r.choice([3, 3, 4, 4, 5, 6, 7, 8, 10, 12])


def copy_file(s: Script, r: random.Random) -> None:
    """Write the content of one file to another: whole lines, byte for byte."""
    path = s.path("txt", "txt", "md", "toml", "cfg", "py", "csv", "ini")
    target = s.path(path.rsplit(".", 1)[1])
    count = max(4, min(r.randint(10, 60), int(s.left / 26))) if s.large else r.choice([1, 1, 2, 2, 3, 3, 4, 5, 6, 9])
    text = copied_text(r, path.rsplit(".", 1)[1], count)
    while len(text) > 1700:
        text = text.rsplit("\n", 1)[0].rstrip()
    s.ask(
        [f"Copy {path} to {target}.", f"Write the content of {path} to {target}."],
        [
            f"Make a copy of {path} and call it {target}.",
            f"Save a copy of {path} as {target}.",
            f"Copy the file {path} to {target}.",
            f"Duplicate {path} as {target}.",
        ],
    )
    found = read(s, r, path, [f"I read {path} first.", CHECKS["read"], f"Then I write the same to {target}."])
    if found is None:
        return
    s.result(text)
    if change(s, r, [f"I write the content to {target}.", "I copy it exactly."], target, text):
        s.answer([f"{target} is written.", DONE["changed"]], f"I copied {found} to {target}.")


def write(s: Script, r: random.Random) -> None:
    """Write a given text."""
    path, text = s.path("txt", "md"), text_line(r, 9).replace('"', "")
    s.ask(
        [f'Write "{text}" to {path}.', f'Create {path} with the text "{text}".', f'Save "{text}" in {path}.'],
        [f'Put "{text}" into {path}.', f'Write the text "{text}" into the file {path}.', f'Store "{text}" in {path}.'],
    )
    thoughts = [f"I write the text to {path}.", f'The content is "{text}".', "I copy it exactly."]
    if r.random() < 0.03:
        s.call(thoughts, ("write_file", {"path": path}), learn=False)
        s.result(errors.bad_call("write_file", {"path": path}, s.declared))
        thoughts = ["The content was missing, so I call the tool again.", *thoughts[1:]]
    else:
        wrong = r.choice(("text", "data", "contents"))
        thoughts = mistake(s, r, thoughts, "write_file", {"path": path, "content": text}, wrong, "content")
    if change(s, r, thoughts, path, text):
        s.answer([f"{path} is written.", DONE["changed"]], f'Done. I wrote "{text}" to {path}.')


def write_two(s: Script, r: random.Random) -> None:
    """Write two texts in one turn."""
    first, second = s.path("txt", "md"), s.path("txt", "md")
    one, two = (text_line(r, 5).replace('"', "") for _ in range(2))
    s.ask(
        [f'Write "{one}" to {first} and "{two}" to {second}.'],
        [f'Save "{one}" in {first} and "{two}" in {second}.', f'Put "{one}" into {first} and "{two}" into {second}.'],
    )
    s.call(
        [f"I write {first} and {second}.", "Both files can be written in one step.", "I copy the texts exactly."],
        ("write_file", {"path": first, "content": one}),
        ("write_file", {"path": second, "content": two}),
    )
    wrote(s, first, one)
    wrote(s, second, two)
    s.answer([f"{first} and {second} are written.", DONE["changed"]], f"Done. I wrote {first} and {second}.")


def list_folder(s: Script, r: random.Random) -> None:
    """List a folder; now and then its name is not quite right, or it is empty."""
    if r.random() < 0.15:
        _list_here(s, r)
        return
    folder = folder_name(r)
    known = s.inside(folder)
    s.ask(
        [f"Which files are in {folder}?", f"List the files in {folder}.", f"What does {folder} contain?"],
        [
            f"Show me the files in {folder}.",
            f"What is in {folder}?",
            f"List {folder}.",
            f"What files does {folder} have?",
        ],
    )
    thoughts = [f"I list the files in {folder}.", CHECKS["run"]]
    wrong = r.choice(("path", "folder", "dir"))
    thoughts = mistake(s, r, thoughts, "list_files", {"directory": folder}, wrong, "directory")
    s.call(thoughts, ("list_files", {"directory": folder}))
    x = 1.0 if known else r.random()
    if x < 0.05:
        s.result("The directory is empty.")
        s.answer([f"{folder} is empty.", DONE["told"]], f"{folder} is empty.")
        return
    if x < 0.07:
        denied(s, f"list {folder}")
        return
    if x < 0.10:
        s.result(errors.directory_missing(folder, None))
        s.answer([f"{folder} does not exist."], f"{folder} does not exist.")
        return
    if x < 0.15:
        near = folder
        while near == folder:
            near = r.choice([folder_name(r), folder + "s", f"src/{folder}"])
        s.result(errors.directory_missing(folder, near))
        s.call([f"{folder} does not exist, so I list {near}.", CHECKS["more"]], ("list_files", {"directory": near}))
        folder = near
    found = names(s, r, folder)
    s.result("\n".join(found))
    last = f"The last one is {found[-1]}." if len(found) > 1 else "There is one."
    s.answer([last, "I name them in their order.", DONE["told"]], f"{folder} contains {and_list(found)}.")


def _list_here(s: Script, r: random.Random) -> None:
    """List the workspace itself."""
    s.ask(
        ["List the files.", "Which files are here?", "List the files in this folder."],
        ["What files are there?", "What is in this folder?", "Show me the files.", "Which files do you see?"],
    )
    s.call(["I list the files here.", CHECKS["run"]], ("list_files", {"directory": "."}))
    here = {path.partition("/")[0] + "/" * ("/" in path) for path in s.files}
    found = sorted({*names(s, r, "."), *here})
    s.result("\n".join(found))
    last = f"The last one is {found[-1]}." if len(found) > 1 else "There is one."
    s.answer([last, "I name them in their order.", DONE["told"]], f"The folder contains {and_list(found)}.")
