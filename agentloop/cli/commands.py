"""What can be written in a chat besides messages: `/help` and its siblings."""

from __future__ import annotations

import difflib
import glob
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..conversation import Conversation, Thinking
from ..conversation.saved import state_path
from ..exceptions import ConversationError
from ..tools import Tool
from .transcript import count, usage_line, usage_table, visible

if TYPE_CHECKING:
    from .chat import Chat

__all__ = ["COMMANDS", "Command", "complete", "run_command"]

EFFORTS = ("none", "low", "medium", "xhigh")
SHOWN_TURNS = 20


@dataclass(frozen=True)
class Command:
    """`argument` is how it is written in the help, "" for none; `files` completes names of files."""

    name: str
    argument: str
    about: str
    run: Callable[[Chat, str], None]
    files: bool = False


def run_command(chat: Chat, line: str) -> None:
    """Run the command that a line begins with. Raises ConversationError for one that does not exist or cannot be."""
    name, _, argument = line.partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        near = difflib.get_close_matches(name, COMMANDS, 1)
        raise ConversationError(f"there is no {name}{f'; is it {near[0]}?' if near else ''} /help lists the commands")
    argument = argument.strip()
    if argument and not command.argument:
        raise ConversationError(f"{name} takes nothing behind it")
    command.run(chat, argument)


def complete(begun: str) -> Iterable[str]:
    """The lines that a beginning may become: commands, and names of files behind those that take one."""
    name, space, rest = begun.partition(" ")
    if not space:
        return [f"{c} " if COMMANDS[c].argument else c for c in COMMANDS if c.startswith(begun) and begun]
    if name not in COMMANDS or not COMMANDS[name].files:
        return []
    found = sorted(glob.glob(glob.escape(os.path.expanduser(rest)) + "*"))
    return [f"{name} {path}{os.sep if os.path.isdir(path) else ''}" for path in found]


def _help(chat: Chat, _: str) -> None:
    width = max(len(f"{c.name} {c.argument}") for c in COMMANDS.values())
    for command in COMMANDS.values():
        chat.console.print(f"{f'{command.name} {command.argument}':{width}}  {command.about}")
    chat.say("Anything else is a message; a line that ends in \\ goes on in the next one.")
    chat.say("Ctrl-C stops a reply, Ctrl-D leaves.")


def _new(chat: Chat, _: str) -> None:
    if chat.conversation is not None:
        chat.conversation.close()
    chat.conversation, chat.path = None, None
    chat.say("A new conversation.")


def _fork(chat: Chat, name: str) -> None:
    parent, old = chat.begun(), chat.name
    if not name:
        name = next(f"fork-{n}" for n in range(1, len(chat.branches) + 1) if f"fork-{n}" not in chat.branches)
    if name in chat.branches:
        raise ConversationError(f"there is a branch {name} already: /switch {name}")
    if not name.isprintable() or any(c.isspace() for c in name):
        raise ConversationError("the name of a branch has no spaces and only visible characters")
    chat.branches[name] = parent.fork()
    chat.name = name
    chat.say(f"{name} shares the {len(parent.tokens):,} tokens of {old}; nothing was decoded. /switch {old} goes back.")


def _switch(chat: Chat, name: str) -> None:
    if name:
        if name not in chat.branches:
            raise ConversationError(f"there is no branch {name}; there are: {', '.join(chat.branches)}")
        chat.name = name
    for branch, talk in chat.branches.items():
        size = "nothing yet"
        if talk is not None:
            size = f"{count(len(talk.questions), 'question')}, {count(len(talk.tokens), 'token')}"
        chat.say(f"{'*' if branch == chat.name else ' '} {branch}: {size}")
    if name:
        chat.show_last()


def _rewind(chat: Chat, argument: str) -> None:
    talk = chat.begun()
    n = _number(argument)
    waiting = any(message["role"] == "user" for message in talk.pending)
    there = len(talk.questions) + waiting
    if n > there:
        raise ConversationError(f"{count(n, 'question')} cannot be taken back: there are {there}")
    before = len(talk.tokens)
    taken = _question(talk.drop_pending()) if talk.pending else ""
    if n == waiting:
        chat.say(f"Taken back before it was answered: {visible(taken)}")
        return
    first = talk.questions[-(n - waiting)]
    taken = _question(talk.messages[talk.turns[first].first :])
    how = _HOW[talk.rewind(first)]
    chat.say(f"{before - len(talk.tokens):,} tokens taken back, {len(talk.tokens):,} stay: {how}.")
    chat.say(f"It began with: {visible(taken)}")


_HOW = {
    "none": "nothing has to be decoded again",
    "ring": "the state came from the ring of the last batch",
    "trim": "the cache was cut",
    "checkpoint": "the state came from a checkpoint",
    "start": "nothing of it was kept",
}


def _go(chat: Chat, _: str) -> None:
    chat.begun()
    chat.answer(None)


def _save(chat: Chat, name: str) -> None:
    talk = chat.begun()
    path = Path(name).expanduser() if name else chat.path
    if path is None:
        raise ConversationError("to which file? /save FILE")
    talk.save(path)
    chat.path = path
    state = state_path(path)
    beside = f", its live state {state} ({state.stat().st_size:,} bytes)" if state.exists() else ""
    chat.say(f"saved {path} ({path.stat().st_size:,} bytes){beside}.")


def _load(chat: Chat, name: str) -> None:
    if not name:
        raise ConversationError("which file? /load FILE")
    chat.load(name)


def _usage(chat: Chat, _: str) -> None:
    talk = chat.begun()
    usage = talk.usage
    hidden = max(0, len(usage.turns) - SHOWN_TURNS)
    chat.console.print(usage_table(usage, skip=hidden))
    chat.console.print(usage_line(usage))
    if drafted := sum(usage.drafted.values()):
        accepted = sum(usage.accepted.values())
        chat.console.print(f"drafts: {accepted:,} of {drafted:,} tokens accepted")
    full = talk.sequence.n_ctx
    chat.console.print(f"context: {len(talk.tokens):,} of {full:,} tokens ({len(talk.tokens) / full:.0%})")


def _tools(chat: Chat, _: str) -> None:
    tools = [tool for tool in chat.agent.tools if isinstance(tool, Tool)]
    for tool in tools:
        parameters = ", ".join(tool.parameters.get("properties", {}))
        asks = "  (asks first)" if tool.requires_approval and tool.name not in chat.person.trusted else ""
        chat.console.print(f"{tool.name}({parameters}){asks}")
        chat.say(f"    {next(iter(tool.description.splitlines()), '')}")
    if not tools:
        chat.say("No tools. --workspace DIR gives some.")


def _think(chat: Chat, effort: str) -> None:
    if effort:
        if effort not in EFFORTS:
            raise ConversationError(f"there is no effort {effort!r}; use one of {', '.join(EFFORTS)}")
        chat.agent.thinking = Thinking.of(False if effort == "none" else effort)
    now = _effort(chat.agent.thinking)
    talk: Conversation | None = chat.conversation
    chat.say(f"Conversations that begin now reason with the effort {now}.")
    if talk is not None and _effort(talk.thinking) != now:
        chat.say(f"This one goes on with {_effort(talk.thinking)}: it stands at its head. /new begins another one.")


def _effort(thinking: Thinking) -> str:
    return (thinking.effort or "medium") if thinking.enabled else "none"


def _number(text: str) -> int:
    if text and not (text.isdecimal() and int(text)):
        raise ConversationError(f"{text!r} is not a whole number of 1 or more")
    return int(text or 1)


def _question(messages: Iterable[dict[str, object]]) -> str:
    first = next((m for m in messages if m["role"] == "user" and isinstance(m["content"], str)), None)
    lines = str(first["content"]).splitlines() if first else []
    return lines[0] + (" …" if len(lines) > 1 else "") if lines else ""


COMMANDS = {
    command.name: command
    for command in (
        Command("/help", "", "this list", _help),
        Command("/new", "", "start over", _new),
        Command("/fork", "[NAME]", "go on in a second conversation from this point; decodes nothing", _fork),
        Command("/switch", "[NAME]", "go to another branch; without a name, list them", _switch),
        Command("/rewind", "[N]", "take back the last N questions and all that followed (1)", _rewind),
        Command("/go", "", "go on after a stop: the reply is made again, calls that wait run", _go),
        Command(
            "/save", "[FILE]", "write the conversation and its live state; again without a name", _save, files=True
        ),
        Command("/load", "FILE", "go on with a saved conversation", _load, files=True),
        Command("/usage", "", "what each turn cost: reused, new and recomputed tokens", _usage),
        Command("/tools", "", "the tools that the model has", _tools),
        Command("/think", "[EFFORT]", f"how much it reasons: {', '.join(EFFORTS)}", _think),
        Command("/quit", "", "leave, as Ctrl-D does", lambda chat, _: None),
    )
}
"""By name, in the order of the help."""
