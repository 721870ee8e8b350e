"""`agentloop chat [MODEL]`: talk to a model. Ctrl-C stops a reply, not the program; the conversation goes on."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from ..agent import Agent
from ..conversation import Conversation
from ..engine import CancelToken
from ..engine.seam import EngineLike
from ..exceptions import AgentLoopError, ConversationError, DecodeCancelled, RunCancelled
from ..limits import Usage
from .asking import Person
from .commands import complete, run_command
from .lines import Lines, history_path
from .session import (
    existing_folder,
    load_engine,
    make_agent,
    run_with_person,
    stop_on_interrupt,
    tools_for,
)
from .transcript import ReadingBar, Transcript, count, make_console, visible

__all__ = ["Chat", "chat"]

SEQUENCES = 4
"""Branches that live in the context at once; more are parked and come back without a decode."""

MAIN = "main"


def chat(options: argparse.Namespace) -> int:
    """Read messages until the end of input or /quit; 0 then."""
    if options.model and options.model_option:
        raise ValueError("the model is given twice; use either MODEL or --model")
    model = options.model or options.model_option
    folder = None if options.workspace is None else str(existing_folder(options.workspace))
    console = make_console()
    with (
        Lines(complete, history_path()) as lines,
        load_engine(
            model, n_ctx=options.n_ctx, threads=options.threads, sequences=SEQUENCES, draft=options.draft
        ) as engine,
    ):
        person = Person(console, lines.ask)
        agent = make_agent(
            engine,
            tools_for(model, folder, commands=lines.typed, ask=options.ask),
            effort=options.effort,
            system=options.system,
            max_turns=options.max_turns,
            max_tokens=options.max_tokens,
            approve=person.approve,
        )
        talk = Chat(agent, engine, console, person)
        console.print(f"{engine.name}, {engine.n_ctx:,} tokens of context. /help lists the commands.", style="dim")
        if options.resume is not None:
            talk.load(options.resume)
        talk.loop(lines)
    return 0


class Chat:
    """The conversations of one session, by name; `name` is the one that messages go to."""

    def __init__(self, agent: Agent[None], engine: EngineLike, console: Console, person: Person) -> None:
        self.agent = agent
        self.engine = engine
        self.console = console
        self.person = person
        self.branches: dict[str, Conversation | None] = {MAIN: None}
        self.name = MAIN
        self.path: Path | None = None

    @property
    def conversation(self) -> Conversation | None:
        """The one that messages go to; None before its first message."""
        return self.branches[self.name]

    @conversation.setter
    def conversation(self, conversation: Conversation | None) -> None:
        self.branches[self.name] = conversation

    def begun(self) -> Conversation:
        """The conversation. Raises ConversationError before its first message."""
        if self.conversation is None:
            raise ConversationError("nothing was said yet")
        return self.conversation

    def loop(self, lines: Lines) -> None:
        """Answer line after line; returns at the end of input or on /quit."""
        while True:
            try:
                line = lines.read("\n> " if self.name == MAIN else f"\n{self.name}> ")
            except KeyboardInterrupt:
                self.say("\nCtrl-D or /quit leaves.")
                continue
            if line is None or line.strip() in ("/quit", "/exit"):
                return
            try:
                if line.startswith("/"):
                    run_command(self, line.strip())
                elif line.strip():
                    self.answer(line.strip())
            except KeyboardInterrupt:
                self.say("(stopped)", "yellow")
            except (AgentLoopError, OSError) as error:
                self.complain(error)

    def answer(self, prompt: str | None) -> None:
        """Let the model answer; None lets it go on where it was stopped. Whatever happens, the conversation stays."""
        usage = Usage()
        try:
            result = run_with_person(
                self.agent,
                prompt,
                Transcript(self.console),
                self.person,
                conversation=self.conversation,
                usage=usage,
            )
            self.conversation = result.conversation
        except RunCancelled as stopped:
            self._keep(stopped)
            self.say("(stopped) /go goes on, or write something else.", "yellow")
        except AgentLoopError as error:
            self._keep(error)
            raise
        else:
            self.say(
                f"(reused {usage.reused:,}, new {usage.new:,}, recomputed {usage.recomputed:,}, "
                f"generated {usage.generated:,})"
            )

    def load(self, name: str) -> None:
        """Go on with a saved conversation, in the place of the present one. Ctrl-C stops a long decode and changes
        nothing. Raises SnapshotError."""
        path = Path(name).expanduser()
        cancel = CancelToken()
        bar = ReadingBar(self.console)
        try:
            with stop_on_interrupt(cancel.cancel):
                loaded = Conversation.load(path, self.engine, cancel=cancel, progress=bar.show)
        except DecodeCancelled:
            self.say("(stopped) Nothing was loaded.", "yellow")
            return
        finally:
            bar.close()
        if self.conversation is not None:
            self.conversation.close()
        self.conversation, self.path = loaded, path
        decoded = loaded.sequence.stats.evaluated
        how = f"{decoded:,} tokens decoded again" if decoded else "its live state was restored, nothing was decoded"
        self.say(f"{path}: {count(len(loaded.questions), 'question')}, {len(loaded.tokens):,} tokens; {how}.")
        self.show_last()

    def show_last(self) -> None:
        """The last question and what came of it, for someone who comes back."""
        talk = self.conversation
        if talk is None or not talk.messages:
            return
        asked = [m for m in talk.messages if m["role"] == "user" and not m.get("note") and "tools" not in m]
        if asked:
            self.say(f"\n> {visible(text_of(asked[-1]))}")
        last = talk.messages[-1]
        if last["role"] == "assistant" and text_of(last).strip():
            self.console.print(visible(text_of(last)).strip())
        elif last["role"] != "system":
            self.say("(it waits: /go goes on)", "yellow")

    def say(self, text: str, style: str = "dim") -> None:
        """A line of the program's own."""
        self.console.print(text, style=style)

    def complain(self, error: Exception) -> None:
        """An error as one line on stderr."""
        text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
        print(f"agentloop: {' '.join(text.split())}", file=sys.stderr)

    def _keep(self, error: AgentLoopError) -> None:
        """Go on with the conversation that a failed run left behind."""
        left = getattr(error, "conversation", None)
        if isinstance(left, Conversation):
            self.conversation = left


def text_of(message: dict[str, object]) -> str:
    """The text of a message; its parts joined."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")
