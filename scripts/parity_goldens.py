"""Make the golden bytes of tests/parity: what llama.cpp's own Jinja engine writes for every case of the corpus.

    python scripts/parity_goldens.py --server llama-server --model MODEL.gguf qwen3_8=PATH/TO/official.jinja ...

For each NAME=TEMPLATE it starts llama-server (built from the source inside llama-cpp-python's sdist: `cmake -B build -G
Ninja vendor/llama.cpp && ninja -C build llama-server`) with `--jinja --chat-template-file TEMPLATE`, posts each case to
/apply-template, and writes tests/parity/goldens/NAME.json. Any model file will do: only the template is used. A case
in which Jinja2 writes other bytes names the rules of llama.cpp that explain them; a difference that they do not explain
is an error. Where the package has a template text of its own for NAME, it must give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
GOLDENS = ROOT / "tests" / "parity" / "goldens"

# llama-server sets preserve_thinking itself and takes bos_token from the model unless they are given.
GIVEN: dict[str, dict[str, Any]] = {
    "qwen3_6": {"preserve_thinking": False},
    "lfm2_2_5": {"preserve_thinking": False, "bos_token": "<|startoftext|>"},
}


@contextmanager
def server(binary: str, model: str, template: str) -> Iterator[str]:
    """A llama-server with this template; yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [binary, "-m", model, "--jinja", "--chat-template-file", template, "--no-prefill-assistant"]
    command += ["--host", "127.0.0.1", "--port", str(port), "-c", "256", "--parallel", "1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(300):
            if process.poll() is not None:
                raise SystemExit(f"{binary} ended with code {process.returncode}; run it by hand to see why")
            try:
                urllib.request.urlopen(f"{address}/health", timeout=5).close()
                break
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        else:
            raise SystemExit(f"{binary} did not come up")
        yield address
    finally:
        process.terminate()
        process.wait(30)


def apply_template(address: str, case: Any) -> dict[str, str]:
    """{"text": bytes as text} or {"refused": why}."""
    knobs = dict(case.knobs)
    body: dict[str, Any] = {
        "messages": case.messages,
        "add_generation_prompt": knobs.pop("add_generation_prompt", True),
    }
    if case.tools:
        body["tools"] = case.tools
    if knobs:
        body["chat_template_kwargs"] = knobs
    request = urllib.request.Request(f"{address}/apply-template", json.dumps(body).encode(), method="POST")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return {"text": json.load(answer)["prompt"]}
    except urllib.error.HTTPError as error:
        message = json.load(error)["error"]["message"]
        return {"refused": message.splitlines()[0]}


def version_of(binary: str) -> str:
    shown = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True)
    return (shown.stderr + shown.stdout).strip().splitlines()[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, help="the llama-server binary")
    parser.add_argument("--model", default=str(ROOT / "agentloop" / "models" / "tiny-hybrid.gguf"))
    parser.add_argument("--source", default="llama-cpp-python 0.3.36", help="where the server's source came from")
    parser.add_argument("templates", nargs="+", metavar="NAME=TEMPLATE")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    GOLDENS.mkdir(parents=True, exist_ok=True)
    for pair in arguments.templates:
        name, _, path = pair.partition("=")
        golden = {"source": arguments.source, "version": version_of(arguments.server)}
        golden |= make(name, path, arguments.server, arguments.model)
        text = json.dumps(golden, ensure_ascii=True, indent=0) + "\n"
        (GOLDENS / f"{name}.json").write_text(text, "utf-8")
        cases = golden["cases"]
        refused = sum("refused" in case for case in cases.values())
        differs = sum("differs" in case for case in cases.values())
        print(f"{name}: {len(cases)} cases, {refused} refused, {differs} differ from Jinja2, {len(text)} bytes")


def make(name: str, path: str, binary: str, model: str) -> dict[str, Any]:
    """The goldens of one template."""
    from tests.parity.corpus import CASES
    from tests.parity.llamacpp import RULES, render_by, served
    from tests.parity.oracle import TemplateRefusal, messages_for

    text = Path(path).read_text("utf-8")
    cases: dict[str, dict[str, Any]] = {}
    with server(binary, model, path) as address:
        for case in CASES:
            given = case._replace(
                messages=messages_for(name, served(name, case.messages)), knobs={**GIVEN.get(name, {}), **case.knobs}
            )
            entry: dict[str, Any] = dict(apply_template(address, given))
            if "text" in entry:
                for rules in ((), *((rule,) for rule in RULES), RULES):
                    try:
                        found = render_by(rules, text, given.messages, case.tools, case.knobs)
                    except TemplateRefusal as error:
                        raise SystemExit(f"{name}: {case.name}: Jinja2 refuses it: {error}") from error
                    if found == entry["text"]:
                        break
                else:
                    raise SystemExit(f"{name}: {case.name}: not explained by the rules\n{entry['text']!r}\n{found!r}")
                if rules:
                    entry["differs"] = list(rules)
            cases[case.name] = entry
    golden: dict[str, Any] = {"template_sha256": digest(path), "cases": cases}
    own = ROOT / "agentloop" / "templates" / f"{name}.jinja"
    if own.exists():
        golden["own_template_sha256"] = digest(own)
        with server(binary, model, str(own)) as address:
            for case in CASES:
                answer = apply_template(address, case)
                if answer.get("text") != cases[case.name].get("text"):
                    raise SystemExit(f"{own}: {case.name}: other bytes than the official template: {answer}")
    return golden


def digest(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
