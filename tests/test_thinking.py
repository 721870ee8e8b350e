"""Thinking: its short forms, its knobs, and settings that contradict each other."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from agentloop.conversation import Thinking


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (None, Thinking()),
        (True, Thinking()),
        (False, Thinking(effort=None, enabled=False)),
        ("medium", Thinking(effort="medium")),
        (Thinking(budget=3), Thinking(budget=3)),
    ],
)
def test_short_forms(given: Any, meant: Thinking) -> None:
    assert Thinking.of(given) == meant


def test_knobs() -> None:
    assert Thinking(effort="xhigh").knobs() == {"reasoning_effort": "xhigh"}
    assert Thinking(effort=None).knobs() == {}
    assert Thinking(enabled=False).knobs() == {"enable_thinking": False}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"budget": -1}, "budget must be None or a number of tokens >= 0, not -1"),
        ({"effort": "high"}, "'low', 'medium', 'xhigh' or None, not 'high'"),
        ({"close": "Enough."}, "give budget=... too"),
    ],
)
def test_what_contradicts_itself_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Thinking(**settings)
    if "effort" in settings:
        with pytest.raises(ValueError, match=says):
            Thinking.of(settings["effort"])


def test_words_that_a_budget_cuts_short_give_a_warning() -> None:
    with pytest.warns(UserWarning, match="budget=64 cuts it short") as caught:
        Thinking(effort="xhigh", budget=64)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Thinking(effort="xhigh", budget=256)
        Thinking(effort="xhigh")
        Thinking(effort="medium", budget=1)
        Thinking(effort="xhigh", budget=0, enabled=False)
