"""The policy's choices, on curves and acceptance that are given; and the order in which a lock serves its waiters."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentloop.engine.draft_cost import DraftCost
from agentloop.engine.locks import FairLock
from agentloop.engine.policy import Policy
from agentloop.exceptions import EngineError


def taught(policy: Policy, name: str, evidence: int, k: int, accepted: int, times: int = 60) -> None:
    for _ in range(times):
        policy.learn(name, evidence, k, accepted)


def test_nothing_is_drafted_where_rows_cost_what_tokens_bring() -> None:
    policy = Policy([1.0 * rows for rows in range(1, 10)])
    taught(policy, "suffix", 1, 8, 8)
    assert policy.choose([("suffix", 1, 8)]).k == 0
    assert policy.choose([]).k == 0


def test_free_rows_take_the_longest_draft_that_is_allowed() -> None:
    policy = Policy([1.0] * 9)
    assert policy.choose([("suffix", 1, 5)]).k == 5
    assert policy.choose([("suffix", 1, 50)]).k == 8


def test_every_poor_drafter_is_looked_at_again_in_its_turn() -> None:
    policy = Policy([1.0, 1.6, 1.7, 1.8])
    for name in ("suffix", "mtp", "block"):
        taught(policy, name, 0, 3, 0)
    options = [("suffix", 0, 3), ("mtp", 0, 3), ("block", 0, 3)]
    trials = [choice.index for choice in (policy.choose(options) for _ in range(3000)) if choice.k]
    assert len(trials) > 20
    assert trials == [i % 3 for i in range(len(trials))]
    with_match = [("suffix", 5, 3), ("mtp", 0, 3)]  # a match says nothing of the head
    taught(policy, "suffix", 5, 3, 0)
    later = [choice.index for choice in (policy.choose(with_match) for _ in range(3000)) if choice.k]
    assert {0, 1} <= set(later)


def test_a_poor_spell_ends_drafting_and_is_looked_at_again() -> None:
    policy = Policy([1.0, 1.6, 1.7, 1.8])
    taught(policy, "suffix", 1, 3, 0)
    chosen = [policy.choose([("suffix", 1, 3)]).k for _ in range(1300)]
    assert chosen.count(1) == 10  # 0.6 a trial, 0.005 saved a step
    assert chosen.count(0) == 1290
    dear = Policy([1.0, 1.6, 1.7, 1.8], switch_s=1.2)
    taught(dear, "suffix", 1, 3, 0)
    assert [dear.choose([("suffix", 1, 3)]).k for _ in range(1300)].count(1) == 2


def test_a_change_of_width_is_paid_for_and_a_copy_stays_at_its_width() -> None:
    policy = Policy([1.0, 1.1, 1.2, 1.3, 1.4], switch_s=1.0)
    for k in (1, 2, 3, 4):
        taught(policy, "suffix", 1, k, k)
    assert policy.choose([("suffix", 1, 1)]).k == 0  # 2 tokens for 1.1 and both changes of width
    assert policy.choose([("suffix", 1, 4)]).k == 4
    policy.timed(4, 1.3 + 1.0, "suffix", 3, 0.0)
    assert policy.choose([("suffix", 1, 3)]).k == 3
    assert policy.choose([("suffix", 1, 4)]).k == 3  # 4 tokens for 1.3 against 5 for 1.4 and a change
    policy.timed(1, 2.0)
    assert policy.choose([("suffix", 1, 1)]).k == 0


def test_the_way_back_to_plain_decoding_is_charged_when_it_is_left() -> None:
    policy = Policy([1.0, 1.1], switch_s=0.45)
    taught(policy, "suffix", 1, 1, 1)
    assert policy.choose([("suffix", 1, 1)]).k == 0  # 2 tokens for 1.1 and two changes
    policy.timed(2, 1.1 + 0.45, "suffix", 1, 0.0)
    assert policy.choose([("suffix", 1, 1)]).k == 1


def test_a_dear_draft_is_not_made() -> None:
    policy = Policy([1.0, 1.1, 1.2, 1.3])
    taught(policy, "mtp", 0, 3, 3)
    assert policy.choose([("mtp", 0, 3)]).k == 3
    for _ in range(10):
        policy.timed(4, 1.3, "mtp", 3, 3.0)
    assert policy.choose([("mtp", 0, 3)]).k == 0


def test_a_block_costs_the_same_for_any_length() -> None:
    block, head = DraftCost("block"), DraftCost("mtp")
    for _ in range(30):
        block.learn(2, 1.0)
        head.learn(2, 1.0)
    assert (block.fixed, block.each) == pytest.approx((1.0, 0.0))
    assert (head.fixed, head.each) == pytest.approx((0.0, 0.5))
    for k in (1, 4, 8) * 10:
        block.learn(k, 1.0)
        head.learn(k, 0.5 * k)
    assert (block.fixed, block.each) == pytest.approx((1.0, 0.0), abs=1e-6)
    assert (head.fixed, head.each) == pytest.approx((0.0, 0.5), abs=1e-6)


@given(st.floats(0, 1e-2), st.floats(0, 1e-2), st.lists(st.integers(1, 16), min_size=8, max_size=60))
def test_both_parts_of_a_drafts_cost_are_found(fixed: float, each: float, lengths: list[int]) -> None:
    lengths += [1, 16, 1, 16]
    cost = DraftCost("mtp")
    for k in lengths:
        cost.learn(k, fixed + each * k)
    if max(lengths[:4]) <= 3 * min(lengths[:4]):  # the guard against hiccups did not cut anything
        for k in (1, 8, 16):
            assert cost.fixed + cost.each * k == pytest.approx(fixed + each * k, rel=0.35, abs=1e-5)


def test_a_hiccup_in_one_draft_does_not_end_drafting() -> None:
    cost = DraftCost("mtp")
    for _ in range(20):
        cost.learn(3, 0.001)
    cost.learn(3, 10.0)
    assert cost.fixed + 3 * cost.each < 0.0012


def test_a_first_draft_that_warms_up_does_not_end_drafting() -> None:
    policy = Policy([1.0, 1.1, 1.2, 1.3])
    taught(policy, "mtp", 0, 3, 3)
    for seconds in (50.0, 9.0, 0.3):
        policy.timed(4, 1.3, "mtp", 3, seconds)
    assert policy.choose([("mtp", 0, 3)]).k == 3


def test_a_long_match_is_trusted_from_the_start() -> None:
    policy = Policy([1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 2.4, 2.6])
    assert policy.choose([("suffix", 1, 8)]).k < policy.choose([("suffix", 5, 8)]).k == 8


def test_a_short_match_does_not_displace_a_better_draft() -> None:
    policy = Policy([1.0, 1.1, 1.2, 1.3, 1.4])
    taught(policy, "suffix", 1, 4, 1)
    taught(policy, "mtp", 0, 4, 3)
    policy.timed(1, 1.0, "mtp", 4, 0.2)
    assert policy.choose([("suffix", 1, 4), ("mtp", 0, 4)]).index == 1
    taught(policy, "suffix", 5, 4, 4)
    assert policy.choose([("suffix", 5, 4), ("mtp", 0, 4)]).index == 0  # a long match does


def test_no_width_is_taken_that_costs_more_than_a_wider_one() -> None:
    policy = Policy([1.0, 1.1, 5.0, 1.2, 1.3])  # three rows fall on a slow kernel
    taught(policy, "mtp", 0, 4, 2)
    assert policy.choose([("mtp", 0, 4)]).k != 2


def test_timings_of_real_steps_move_the_curve() -> None:
    policy = Policy([1.0, 1.1, 1.2])
    taught(policy, "mtp", 0, 2, 2)
    assert policy.choose([("mtp", 0, 2)]).k == 2
    for _ in range(200):
        policy.timed(1, 1.0)
        policy.timed(3, 4.0)
        policy.timed(2, 4.0)
    assert policy.verify_s[2] / policy.verify_s[0] > 3.0
    assert policy.choose([("mtp", 0, 2)]).k == 0
    before = policy.verify_s
    policy.timed(1, 1000 * before[0])  # one hiccup
    assert policy.verify_s[0] < 1.3 * before[0]


def test_the_lock_serves_in_order() -> None:
    lock, order = FairLock(), list[int]()

    def work(i: int) -> None:
        with lock:
            order.append(i)

    with lock:
        threads = []
        for i in range(8):
            threads.append(threading.Thread(target=work, args=(i,)))
            threads[-1].start()
            while len(lock._waiters) <= i:
                time.sleep(0.001)
        assert order == []
    for thread in threads:
        thread.join(10)
    assert order == list(range(8))
    assert not lock.held


def test_a_thread_that_takes_the_lock_again_and_again_starves_nobody() -> None:
    lock, turns = FairLock(), {"greedy": 0, "other": 0}
    ready = threading.Event()

    def other() -> None:
        ready.set()
        for _ in range(50):
            with lock:
                turns["other"] += 1
                time.sleep(0.0005)

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait()
    while thread.is_alive() and turns["greedy"] < 5000:
        with lock:
            turns["greedy"] += 1
            time.sleep(0.0005)
    thread.join(10)
    assert turns["other"] == 50
    assert turns["greedy"] < 200


def test_a_step_that_calls_its_own_engine_is_told_so() -> None:
    lock = FairLock()
    with lock, pytest.raises(EngineError, match="inside one of its own steps"), lock:
        pass
    assert not lock.held
    with lock:
        assert lock.held
