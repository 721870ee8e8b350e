"""Feed the reply reader with text that hardly any model writes, for as long as asked, and check what must always hold.

    python scripts/fuzz_reader.py --seconds 3600 --seed 1

Texts are made of tags, halves of tags, values and JSON; whole canonical replies; and canonical replies with parts cut
out, doubled or swapped. Checked for each: no error, the same reply and events however the text is cut into tokens,
deltas that join to the reply, only declared and valid calls with status "ok", none of them in a reply that was cut
inside it, and no text that takes unduly long. Prints the seed and the text of the first one that fails, and exits 1.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Sequence
from typing import Any

from agentloop.arguments import validate_arguments
from agentloop.templates.qwen3_8 import Qwen38
from agentloop.templates.reply import ReasoningDelta, Reply, ReplyEvent, ReplyReader, TextDelta

SPECIAL = {1: "<think>", 2: "</think>", 3: "<tool_call>", 4: "</tool_call>", 5: "<|im_end|>", 6: "<|im_start|>"}
IDS = {text: token for token, text in SPECIAL.items()}
SPLIT = re.compile("(" + "|".join(map(re.escape, SPECIAL.values())) + ")")
SCHEMAS: dict[str, dict[str, Any]] = {
    "write": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}, "mode": {"type": "integer"}},
        "required": ["content"],
    },
    "ask": {"type": "object", "properties": {"about": {"type": ["string", "null"]}, "list": {"type": "array"}}},
    "now": {"type": "object", "properties": {}},
}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in SCHEMAS.items()]
ATOMS = [
    *list(SPECIAL.values())[:4],
    *(
        "<function=write>",
        "<function=now>",
        "<function=none>",
        "</function>",
        "<parameter=content>",
        "<parameter=mode>",
    ),
    *(
        "<parameter=x>",
        "</parameter>",
        "<function=",
        "<parameter=",
        "</",
        "<",
        ">",
        "\n",
        "\n",
        "\n\n",
        " ",
        "\t",
        "```",
    ),
    *('{"name": "write", "arguments": {"content": "', '"}}', "{", "}", "[1, 2]", "null", "7", "text", "é漢🎉", "\r\n"),
    *("\u2028", "\x00", "Done.", '<function="now">'),
]
LIMIT_S = 2.0  # of CPU time, for one text of at most some thousand characters

Fed = tuple[int, bytes]


class Failed(Exception):
    """Something that must hold does not."""


def cut(text: str, rng: random.Random, step: int | None = None) -> list[Fed]:
    """Special tokens by id, and the bytes between them in pieces of 1 to 9 bytes, or of `step`."""
    out: list[Fed] = []
    for i, part in enumerate(SPLIT.split(text)):
        data = part.encode()
        if i % 2:
            out.append((IDS[part], data))
            continue
        while data:
            n = step or rng.randint(1, 9)
            out.append((0, data[:n]))
            data = data[n:]
    return out


def read(fed: Sequence[Fed], reason: Any, thinking: bool) -> tuple[list[ReplyEvent], Reply]:
    reader = ReplyReader(SPECIAL, TOOLS, thinking=thinking)
    events = [event for token, piece in fed for event in reader.feed(token, piece)]
    return events, reader.finish(reason)


def joined(events: Sequence[ReplyEvent], kind: type[ReasoningDelta] | type[TextDelta]) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


def noise(rng: random.Random, most: int) -> str:
    return "".join(rng.choice(ATOMS) for _ in range(rng.randint(0, most)))


def canonical(rng: random.Random) -> tuple[str, list[dict[str, Any]]]:
    """A reply as the template renders it, and its calls."""
    calls: list[dict[str, Any]] = []
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        name = rng.choice(list(SCHEMAS))
        arguments: dict[str, Any] = {}
        if name == "write":
            arguments = {"content": noise(rng, 8)} | ({"mode": rng.randint(-9, 9)} if rng.random() < 0.5 else {})
        elif name == "ask":
            arguments = {"list": [rng.randint(0, 9), None, {"a": noise(rng, 2)}]}
        calls.append({"name": name, "arguments": arguments})
    message = {
        "role": "assistant",
        "content": rng.choice(["", "Look.", "a < b\nc"]),
        "reasoning_content": rng.choice(["", "Hm.", "One.\n\nTwo."]),
        "tool_calls": [{"type": "function", "function": call} for call in calls],
    }
    template, start = Qwen38(), [{"role": "user", "content": "q"}]
    text = template.render([*start, message], TOOLS, add_generation_prompt=False)
    return text[len(template.render(start, TOOLS)) :].removesuffix("\n"), calls


def mutate(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(1, 4)):
        a, b = sorted((rng.randint(0, len(text)), rng.randint(0, len(text))))
        kind = rng.randrange(4)
        if kind == 0:
            text = text[:a] + text[b:]
        elif kind == 1:
            text = text[:b] + text[a:]
        elif kind == 2:
            text = text[:a] + noise(rng, 3) + text[a:]
        else:
            text = text[:a] + text[a:b][::-1] + text[b:]
    return text


def check(text: str, rng: random.Random, calls: list[dict[str, Any]] | None) -> None:
    thinking, reason = (True, "end") if calls is not None else (rng.random() < 0.7, rng.choice(["end", "length"]))
    started = time.process_time()
    events, reply = read(cut(text, rng), reason, thinking)
    if time.process_time() - started > LIMIT_S:
        raise Failed("it took too long")
    for step in (1, 10_000):
        other_events, other = read(cut(text, rng, step), reason, thinking)
        if other != reply:
            raise Failed(f"cut otherwise it is another reply:\n{reply}\n{other}")
        for kind in (ReasoningDelta, TextDelta):
            if joined(events, kind) != joined(other_events, kind):
                raise Failed(f"cut otherwise the {kind.__name__}s are others")
    if not reply.content.startswith(joined(events, TextDelta)):
        raise Failed(f"the text shown is not what the reply says: {reply.content!r}")
    if not reply.reasoning.startswith(joined(events, ReasoningDelta)):
        raise Failed(f"the reasoning shown is not what the reply says: {reply.reasoning!r}")
    for call in reply.calls:
        if call.status == "ok":
            validate_arguments(call.arguments, SCHEMAS[call.name])
        elif not call.error:
            raise Failed(f"a call is refused without a reason: {call}")
    if reply.calls and not reply.reasoning_complete:
        raise Failed("there are calls, and the reasoning is open")
    if calls is not None and not any(call.status == "malformed" for call in reply.calls):
        found = [{"name": call.name, "arguments": call.arguments} for call in reply.calls]
        if found != calls:
            raise Failed(f"rendered calls are read as others:\n{calls}\n{found}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz the reply reader.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    end, seed, refused = time.monotonic() + options.seconds, options.seed, 0
    while time.monotonic() < end:
        rng = random.Random(seed)
        calls: list[dict[str, Any]] | None = None
        kind = seed % 4
        if kind == 0:
            text = noise(rng, 40)
        else:
            text, calls = canonical(rng)
            if kind > 1:
                text, calls = mutate(text, rng), None
        try:
            check(text, rng, calls)
        except Exception as error:
            print(f"seed {seed}: {type(error).__name__}: {error}\n{text!r}", file=sys.stderr)
            return 1
        refused += calls is not None and any(
            c.status == "malformed" for c in read(cut(text, rng), "end", True)[1].calls
        )
        seed += 1
    done = seed - options.seed
    print(f"{done} texts, no failure; {refused} of {done // 4} canonical replies were refused as ambiguous")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
