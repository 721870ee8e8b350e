"""The command starts fast, can be interrupted at any time, and the lazy package gives every name."""

from __future__ import annotations

import subprocess
import sys

import pytest

import agentloop

INTERRUPT = """
import builtins, os, signal, sys
real = builtins.__import__
def hooked(name, *args, **kwargs):
    if name.split(".")[0] == {library!r}:
        builtins.__import__ = real
        os.kill(os.getpid(), signal.SIGINT)
    return real(name, *args, **kwargs)
builtins.__import__ = hooked
from agentloop.cli import main
sys.exit(main(["chat"]))
"""

EACH_ALONE = """
import importlib, pkgutil, sys
import agentloop
names = [module.name for module in pkgutil.iter_modules(agentloop.__path__) if module.name != "__main__"]
for name in names:
    for loaded in [m for m in sys.modules if m.split(".")[0] == "agentloop"]:
        del sys.modules[loaded]
    importlib.import_module(f"agentloop.{name}")
print(len(names))
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("library", ["pydantic", "numpy", "rich", "llama_cpp"])
def test_ctrl_c_while_libraries_load_is_one_line(library: str) -> None:
    done = run(INTERRUPT.format(library=library))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "agentloop: interrupted\n")


def test_the_parser_loads_no_library() -> None:
    code = (
        "import sys\nfrom agentloop.cli.entry import build_parser\nbuild_parser()\n"
        "print(sorted({'numpy', 'pydantic', 'jinja2', 'rich', 'anyio', 'llama_cpp'} & set(sys.modules)))"
    )
    assert run(code).stdout == "[]\n"


def test_every_part_can_be_imported_first() -> None:
    done = run(EACH_ALONE)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 12


def test_the_package_gives_its_names_and_parts() -> None:
    code = "import agentloop\nprint(agentloop.templates.__name__, agentloop.Engine.__name__, agentloop.tool.__name__)"
    assert run(code).stdout == "agentloop.templates Engine tool\n"
    assert run("from agentloop import *\nprint(UsageLimits.__name__)").stdout == "UsageLimits\n"
    assert set(agentloop.__all__) <= set(dir(agentloop))
    with pytest.raises(AttributeError, match="has no attribute 'Agnet'"):
        agentloop.Agnet  # noqa: B018
