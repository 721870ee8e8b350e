"""Turns without a tool: greetings, and requests that are outside of what the agent can do."""

from __future__ import annotations

import random

from .words import NAMES, WORDS, city, invented
from .writing import DONE, Script

__all__ = ["ABILITIES", "REFUSAL", "fallback", "small_talk"]

ABILITIES = "I can read and write files, run tests, compute and look up the weather."
REFUSAL = f"I cannot do that. {ABILITIES}"
HELP = "How can I help you?"

TALK = (
    ("Hello!", f"Hello! {HELP}"),
    ("Hello", f"Hello! {HELP}"),
    ("Hi", f"Hello! {HELP}"),
    ("Hi!", f"Hello! {HELP}"),
    ("Hi there", f"Hello! {HELP}"),
    ("Hello there", f"Hello! {HELP}"),
    ("Hey", f"Hello! {HELP}"),
    ("Good morning", f"Good morning! {HELP}"),
    ("Good evening", f"Good evening! {HELP}"),
    ("Good afternoon", f"Good afternoon! {HELP}"),
    ("Thanks!", "You are welcome."),
    ("Thank you.", "You are welcome."),
    ("Thank you very much!", "You are welcome."),
    ("Who are you?", f"I am a small agent. {ABILITIES}"),
    ("What are you?", f"I am a small agent. {ABILITIES}"),
    ("What can you do?", ABILITIES),
    ("Can you help me?", ABILITIES),
    ("How can you help me?", ABILITIES),
    ("Goodbye", "Goodbye!"),
    ("Bye!", "Goodbye!"),
)
OUTSIDE = (
    "Write a poem about {word}.",
    "Write a story about a {word}.",
    "Sing a song about {word}.",
    "Tell me a joke about {word}.",
    "Tell me a joke.",
    "Translate {word} to French.",
    "Translate {word} to German.",
    "How do you say {word} in Spanish?",
    "Who wrote {Word}?",
    "Who is {Name}?",
    "What is the capital of {City}?",
    "How many people live in {City}?",
    "How far is it from {City} to {Town}?",
    "When was {Name} born?",
    "What is the meaning of {word}?",
    "Why is the {word} {other}?",
    "Paint a picture of a {word}.",
    "Send an email to {Name}.",
    "Call {Name}.",
    "Book a flight to {City}.",
    "Order a {word} for {Name}.",
    "Play some music.",
    "What time is it?",
    "Give me a recipe with {word}.",
    "Recommend a book about {word}.",
    "What do you think about {word}?",
)


def small_talk(s: Script, r: random.Random) -> None:
    """A greeting, thanks, or a question about the agent itself; one in three names the user."""
    name = invented(r).capitalize() if r.random() < 0.5 else r.choice(NAMES)
    x = r.random()
    if x < 0.15:
        question, answer = f"{r.choice(('Hello', 'Hi'))} {name}!", f"Hello! {HELP}"
    elif x < 0.32:
        question, answer = f"{r.choice(('Hi', 'Hello'))}, I am {name}.", f"Hello {name}! {HELP}"
    else:
        question, answer = r.choice(TALK)
    s.user(question)
    s.answer(["The user talks to me, so I answer without a tool.", DONE["said"]], answer)


def fallback(s: Script, r: random.Random) -> None:
    """A request that no tool can serve: one fixed sentence."""
    word, other = (invented(r) if r.random() < 0.3 else r.choice(WORDS) for _ in range(2))
    name = invented(r).capitalize() if r.random() < 0.5 else r.choice(NAMES)
    text = r.choice(OUTSIDE)
    s.user(text.format(word=word, other=other, Word=word.capitalize(), Name=name, City=city(r), Town=city(r)))
    s.answer(["I have no tool for this, so I say what I can do.", DONE["said"]], REFUSAL)
