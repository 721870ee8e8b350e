"""The command line of the benchmarks."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from .checks import ImpossibleFigure
from .report import Options, Report, note, table

__all__ = ["BENCHES", "main"]

BENCHES = ("roundtrip", "ab", "longctx", "intel", "paired", "parity", "concurrency", "gate")


def main(argv: Sequence[str] | None = None) -> None:
    """Run one benchmark, or all; ends with code 1 when a figure is impossible or a count is not what it has to be."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Benchmarks against the peers. The short form is the default."
    )
    parser.add_argument("name", choices=[*BENCHES, "all", "page"], help="which; `page` writes docs/benchmarks.md")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--short", dest="form", action="store_const", const="short", default="short")
    form.add_argument("--full", dest="form", action="store_const", const="full", help="what docs/benchmarks.md shows")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--model", metavar="PATH", help="a GGUF file instead of the usual models")
    parser.add_argument("--url", metavar="URL", help="an OpenAI-compatible server as one more peer")
    parser.add_argument("--draft", metavar="PATH", action="append", default=[], help="paired: a draft file; repeatable")
    parser.add_argument("--gsm8k", metavar="FILE", help="intel: questions in GSM8K's JSONL form")
    parser.add_argument("--humaneval", metavar="FILE", help="intel: problems in HumanEval's JSONL form")
    parser.add_argument("--limit", metavar="N", type=int, help="intel: only the first N tasks of a file")
    parser.add_argument("--write", action="store_true", help="gate: commit to the counts found now")
    given = parser.parse_args(argv)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if given.name == "page":
        import_module("benchmarks.page").write_page()
        return
    options = Options(
        form=given.form,
        model=given.model,
        url=given.url,
        drafts=tuple(given.draft),
        gsm8k=given.gsm8k,
        humaneval=given.humaneval,
        limit=given.limit,
        write=given.write,
    )
    failed: list[str] = []
    for name in BENCHES if given.name == "all" else (given.name,):
        try:
            _run(name, options, given.json)
        except ImpossibleFigure as error:
            note(options, f"{name} FAILED: {error}")
            failed.append(name)
        except (OSError, RuntimeError) as error:  # a peer that went away ends its benchmark and no other
            if given.name != "all":
                raise
            note(options, f"{name} FAILED: {type(error).__name__}: {error}")
            failed.append(name)
    if given.name == "all" and options.form == "full":
        import_module("benchmarks.page").write_page()
    if failed:
        raise SystemExit(1)


def _run(name: str, options: Options, as_json: bool) -> None:
    bench: Callable[[Options], Report] = getattr(import_module(f"benchmarks.{name}"), name)
    report = bench(options)
    result = report.to_dict()
    path = report.save(result)
    if as_json:
        print(json.dumps(result, ensure_ascii=False))
        return
    print(f"\n{name}, {options.form} form, {result['seconds']:.0f} s, {path}")
    print(table(report.rows, report.columns))
    if "summary" in result:
        print()
        print(table(result["summary"], [key for key in result["summary"][0] if key != "generated"]))
    for line in dict.fromkeys(report.notes):
        print(line)
    sys.stdout.flush()
