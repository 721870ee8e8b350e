"""The task to change one line of a file of settings: by `edit_file` where it is declared, else with the whole text."""

from __future__ import annotations

import random

from . import errors
from .contents import Settings, settings
from .files import asked_settings
from .reading import change, denied, read
from .words import STEMS, value
from .writing import CHECKS, DONE, Script

__all__ = ["edit", "replace"]


def edit(s: Script, r: random.Random) -> None:
    """Change one line of a file of settings and leave the others as they are."""
    by_edit = "edit_file" in s.declared
    if not by_edit:
        s.large = False
    path = s.path("toml", "cfg", "txt", "ini", "yaml")
    content = asked_settings(s, r) if by_edit else settings(r, r.choice([2, 2, 3, 3, 3, 4, 4, 5, 6, 8]))
    name = r.choice(content.names())
    old = new = content.values[name]
    while new == old:
        new = value(r)
    twin = by_edit and not s.large and r.random() < 0.07 and _add_twin(r, content, name)
    s.ask(
        [
            f"Set {name} to {new} in {path}.",
            f"Change {name} in {path} to {new}.",
            f"Update {path} so that {name} is {new}.",
        ],
        [
            f"In {path}, set {name} to {new}.",
            f"The {name} in {path} must be {new}.",
            f"Change the {name} in {path} from {old} to {new}.",
            f"Make {name} {new} in {path}.",
        ],
    )
    asked = path
    found = read(s, r, asked, [f"I read {path} before I change {name}.", CHECKS["read"], "Then I write it back."])
    if found is None:
        return
    s.result(content.text)
    line, after = content.line(name), f"{name}{content.separator}{new}"
    thoughts = [f"The line {line} becomes {after}.", "All other lines stay as they are.", CHECKS["write"]]
    if not by_edit:
        thoughts[0] = _with_next_line(content, line, after)
        done = change(s, r, thoughts, found, content.with_value(name, new))
    elif twin:
        done = _behind_twin(s, r, thoughts, found, content, line, after)
    else:
        if r.random() < 0.05:
            _wrong_text(s, thoughts, found, content, name, after)
        done = replace(s, r, thoughts, found, content.text, line, after)
    if done:
        s.answer([f"{name} is now {new}.", DONE["changed"]], f"I changed {name} from {old} to {new} in {found}.")


def _with_next_line(content: Settings, line: str, after: str) -> str:
    """What becomes of a line that is written back with all others: the new one, and the one that follows it, as they
    will stand in the file."""
    behind = content.lines[content.lines.index(line) + 1 :]
    if not behind:
        return f"The last line {line} becomes {after}."
    following = "\n".join(behind[:1] if behind[0] else behind[:2])
    return f"The line {line} becomes\n{after}\n{following}"


def replace(s: Script, r: random.Random, thoughts: list[str], path: str, text: str, old: str, new: str) -> bool:
    """Call `edit_file` and show what it says; False if a person denied it."""
    s.call(thoughts, ("edit_file", {"path": path, "old": old, "new": new}))
    if r.random() < 0.012:
        denied(s, f"change {path}")
        return False
    s.result(errors.edited(path, text, old))
    return True


def _add_twin(r: random.Random, content: Settings, name: str) -> bool:
    """Another key that ends like `name` and has the same value, so that the line of `name` occurs twice."""
    other = f"{r.choice(STEMS)}_{name}"
    if other in content.values:
        return False
    content.lines.insert(r.randint(0, len(content.lines)), f"{other}{content.separator}{content.values[name]}")
    content.values[other] = content.values[name]
    return True


def _behind_twin(
    s: Script, r: random.Random, thoughts: list[str], path: str, content: Settings, line: str, after: str
) -> bool:
    s.call(thoughts, ("edit_file", {"path": path, "old": line, "new": after}), learn=False)
    s.result(errors.edited(path, content.text, line))
    at = content.lines.index(line)
    if at:
        first = content.lines[at - 1] + "\n"
        return replace(
            s,
            r,
            [f"The line {line} occurs twice, so I include the line before it.", *thoughts[1:]],
            path,
            content.text,
            first + line,
            first + after,
        )
    last = "\n" + content.lines[at + 1]
    return replace(
        s,
        r,
        [f"The line {line} occurs twice, so I include the line behind it.", *thoughts[1:]],
        path,
        content.text,
        line + last,
        after + last,
    )


def _wrong_text(s: Script, thoughts: list[str], path: str, content: Settings, name: str, after: str) -> None:
    """An edit whose old text is not in the file; then the file is read again."""
    said = content.values[name]
    wrong = next(w for w in (f"{name}={said}", f"{name} = {said}", f"{name}: {said}") if w not in content.text)
    s.call(thoughts, ("edit_file", {"path": path, "old": wrong, "new": after}), learn=False)
    s.result(errors.edited(path, content.text, wrong))
    s.call(["The old text was not found, so I read the file again."], ("read_file", {"path": path}))
    s.result(content.text)
