"""Arguments in, exit code out: 0 done, 1 an error (one line on stderr), 2 wrong usage, 130 interrupted."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from ..exceptions import AgentLoopError, RunCancelled

__all__ = ["build_parser", "main"]

EFFORTS = ("none", "low", "medium", "xhigh")


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; the chosen subcommand is in `command`."""
    parser = argparse.ArgumentParser(
        prog="agentloop", description="Agents that run a local model in process and never decode anything twice."
    )
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="watch an agent repair a failing test on the embedded model")
    demo.add_argument("--json", action="store_true", help="print one JSON object instead of the transcript")
    _engine_options(demo)

    chat = commands.add_parser("chat", help="talk to a model; Ctrl-C stops a reply, Ctrl-D leaves")
    chat.add_argument("model", nargs="?", metavar="MODEL", help="a GGUF file (default: the embedded model)")
    chat.add_argument("--model", dest="model_option", metavar="MODEL", help="the same, by name")
    chat.add_argument("--resume", metavar="FILE", help="go on with a conversation that /save wrote")
    chat.add_argument("--workspace", metavar="DIR", help="give the model tools for the files in DIR")
    chat.add_argument("--system", metavar="TEXT", help="instructions for the model")
    _engine_options(chat)
    _draft_option(chat)
    _run_options(chat)

    run = commands.add_parser("run", help="let an agent do one task in a folder")
    run.add_argument("task", type=_words, metavar="TASK", help="what to do, in words")
    run.add_argument(
        "--workspace", type=_words, metavar="DIR", required=True, help="the folder to work in, and never outside it"
    )
    run.add_argument("--model", metavar="MODEL", help="a GGUF file (default: the embedded model)")
    run.add_argument("--system", metavar="TEXT", help="instructions for the model")
    run.add_argument("--json", action="store_true", help="print one JSON object instead of the transcript")
    run.add_argument("--yes", action="store_true", help="run every call without asking, commands too")
    _engine_options(run)
    _draft_option(run)
    _run_options(run)

    look = commands.add_parser("inspect", help="what a model file or a saved conversation says of itself")
    look.add_argument(
        "model",
        nargs="?",
        metavar="FILE",
        help="a GGUF file (default: the embedded one), a saved conversation or state",
    )
    look.add_argument("--json", action="store_true", help="print one JSON object")

    trace = commands.add_parser(
        "trace", help="write one HTML page of a saved conversation: what ran when, and its text"
    )
    trace.add_argument("saved", type=_words, metavar="FILE", help="what `save` or `save_to` wrote")
    trace.add_argument(
        "-o", "--out", type=_words, metavar="OUT", help="the page to write (default: FILE with .html at its end)"
    )

    curve = commands.add_parser("calibrate", help="what verifying a draft costs here, by its length")
    curve.add_argument("model", nargs="?", metavar="MODEL", help="a GGUF file (default: the embedded model)")
    curve.add_argument("--rows", type=_positive, default=17, metavar="N", help="the longest batch (default: 17)")
    curve.add_argument("--depth", type=_positive, default=64, metavar="N", help="tokens before it (default: 64)")
    curve.add_argument("--threads", type=_positive, metavar="N", help="CPU threads (default: physical cores)")
    curve.add_argument("--svg", metavar="FILE", help="draw the curve into this file")
    curve.add_argument("--json", action="store_true", help="print one JSON object")

    bench = commands.add_parser("bench", help="measure this machine")
    bench.add_argument("name", metavar="NAME", help="overhead, state, decode or verify")
    bench.add_argument("--model", metavar="MODEL", help="a GGUF file (default: the embedded model)")
    _draft_option(bench)
    bench.add_argument("--json", action="store_true", help="print one JSON object")

    for command in commands.choices.values():
        command.add_argument("-v", "--verbose", action="store_true", help="show llama.cpp's log on stderr")
    return parser


def _engine_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--n-ctx", type=_positive, default=0, metavar="N", help="context tokens (default: what fits)")
    parser.add_argument("--threads", type=_positive, metavar="N", help="CPU threads (default: physical cores)")


def _draft_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--draft", metavar="FILE", help="a GGUF that drafts for MODEL: a block drafter, a small model")


def _run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--effort", choices=EFFORTS, default="low", help="how much the model reasons (default: low)")
    parser.add_argument("--max-turns", type=_positive, default=50, metavar="N", help="model turns a task may take")
    parser.add_argument("--ask", action="append", default=[], metavar="TOOL", help="ask before each call of TOOL")
    parser.add_argument("--max-tokens", type=_positive, default=4096, metavar="N", help="tokens of one reply")


def _version() -> str:
    try:
        return f"agentloop {version('agentloop')}"
    except PackageNotFoundError:
        return "agentloop, run from its source tree"


def _words(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty")
    return text


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return number


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: the process's own) and return its exit code."""
    _mend_streams()
    options = build_parser().parse_args(argv)
    level = logging.INFO if options.verbose else logging.CRITICAL
    logging.basicConfig(stream=sys.stderr, level=level, format="%(name)s: %(message)s")
    try:
        code = _dispatch(options)
        sys.stdout.flush()
        return code
    except (KeyboardInterrupt, RunCancelled):
        return _complain("interrupted", 130)
    except AgentLoopError as error:
        return _complain(str(error))
    except ValueError as error:  # a setting out of its bounds
        return _complain(str(error), 2)
    except BrokenPipeError:
        # Whoever read the output is gone; keep the interpreter from complaining about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _mend_streams() -> None:
    """Output that is closed goes nowhere, and a character that the terminal cannot show becomes `?`."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _dispatch(options: argparse.Namespace) -> int:
    """Each command is imported when it is asked for, so that `inspect` does not wait for the agent's libraries."""
    if options.command == "inspect":
        from .inspect import inspect_model

        return inspect_model(options.model, json=options.json)
    if options.command == "trace":
        from .trace import trace

        return trace(options.saved, out=options.out)
    if options.command == "calibrate":
        from .calibrate import calibrate

        return calibrate(
            options.model,
            rows=options.rows,
            depth=options.depth,
            threads=options.threads,
            svg=options.svg,
            json=options.json,
        )
    if options.command == "bench":
        from .bench import bench

        return bench(options.name, model=options.model, draft=options.draft, json=options.json)
    if options.command == "demo":
        from .demo import demo

        return demo(json=options.json, n_ctx=options.n_ctx, threads=options.threads)
    if options.command == "chat":
        from .chat import chat

        return chat(options)
    from .run import run_task

    return run_task(options)


def _complain(message: str, code: int = 1) -> int:
    line = " ".join(message.split())
    print(f"agentloop: {line}", file=sys.stderr)
    return code
