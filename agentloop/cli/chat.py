"""`agentloop chat [MODEL]`: talk to a model. Ctrl-C stops a reply, not the program."""

from __future__ import annotations

import argparse
import contextlib
import sys
from functools import partial

import anyio
from rich.console import Console

from ..agent import Agent
from ..conversation import Conversation
from ..exceptions import AgentLoopError, RunCancelled
from .session import ask_person, existing_folder, follow, load_engine, make_agent, tools_for
from .transcript import Transcript, make_console

__all__ = ["chat"]

HELP = "Write a message. /new starts over, /usage tells what it cost, /quit or Ctrl-D leaves. Ctrl-C stops a reply."


def chat(options: argparse.Namespace) -> int:
    """Read messages until the end of input or /quit; 0 then."""
    folder = None if options.workspace is None else str(existing_folder(options.workspace))
    console = make_console()
    with load_engine(options.model, n_ctx=options.n_ctx, threads=options.threads) as engine:
        agent = make_agent(
            engine,
            tools_for(options.model, folder, commands=sys.stdin.isatty()),
            effort=options.effort,
            system=options.system,
            max_turns=options.max_turns,
            max_tokens=options.max_tokens,
            approve=ask_person(console),
        )
        console.print(f"{engine.name}, {engine.n_ctx:,} tokens of context. {HELP}", style="dim")
        Chat(agent, console).loop()
    return 0


class Chat:
    """The loop over lines of input, and the conversation that they continue."""

    def __init__(self, agent: Agent[None], console: Console) -> None:
        self.agent = agent
        self.console = console
        self.conversation: Conversation | None = None

    def loop(self) -> None:
        """Answer line after line; returns at the end of input or on /quit."""
        while (line := self.read()) is not None:
            text = line.strip()
            if text == "/quit":
                return
            if text == "/new":
                self.start_over()
            elif text == "/usage":
                self.tell_usage()
            elif text.startswith("/"):
                self.console.print(HELP, style="dim")
            elif text:
                self.answer(text)

    def read(self) -> str | None:
        """One line, None at the end of input. Ctrl-C drops what was typed."""
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  gives `input` line editing and a history
        while True:
            try:
                return input("\n> " if sys.stdin.isatty() else "")
            except EOFError:
                return None
            except KeyboardInterrupt:
                self.console.print("\nCtrl-D or /quit leaves.", style="dim")

    def answer(self, text: str) -> None:
        """Let the model answer. An error is one line; the conversation goes on where it stands."""
        try:
            result = anyio.run(
                partial(follow, self.agent, text, Transcript(self.console), conversation=self.conversation)
            )
        except RunCancelled as stopped:
            self.keep(stopped)
            self.console.print("(stopped)", style="yellow")
        except AgentLoopError as error:
            self.keep(error)
            print(f"agentloop: {' '.join(str(error).split())}", file=sys.stderr)
        else:
            self.conversation = result.conversation
            usage = result.usage
            cost = f"reused {usage.reused:,}, new {usage.new:,}, recomputed {usage.recomputed:,}"
            self.console.print(f"({cost}, generated {usage.generated:,})", style="dim")

    def keep(self, error: AgentLoopError) -> None:
        """Go on with the conversation that a failed run left behind."""
        left = getattr(error, "conversation", None)
        if isinstance(left, Conversation):
            self.conversation = left

    def start_over(self) -> None:
        """Forget the conversation."""
        if self.conversation is not None:
            self.conversation.close()
        self.conversation = None
        self.console.print("A new conversation.", style="dim")

    def tell_usage(self) -> None:
        """What the whole conversation cost so far."""
        if self.conversation is None:
            self.console.print("Nothing yet.", style="dim")
            return
        usage = self.conversation.usage
        self.console.print(
            f"{usage.requests} turns, {len(self.conversation.tokens):,} tokens; new {usage.new:,}, "
            f"recomputed {usage.recomputed:,}, generated {usage.generated:,}",
            style="dim",
        )
