"""Sessions that are renewed because the clock had stood still."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coordinator_state.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from schemas.history import MemberExpired, PendingMemberRemoved
from tests.coordinator_state.harness import GroupHarness, assignment

SESSION_MS = 10_000


def expired(outputs: Sequence[object]) -> list[str]:
    return [each.member.member_id for each in outputs if isinstance(each, MemberExpired)]


@pytest.mark.parametrize("silent_ms", [0, 1, SESSION_MS - 1])
def test_every_member_has_its_whole_session_from_the_renewal(silent_ms: int) -> None:
    group = GroupHarness()
    group.stable("m")
    group.heartbeat("m", 1)
    heard_ms = group.now_ms
    group.sleep(silent_ms)
    assert group.renew_sessions() == []
    assert group.sleep(SESSION_MS - 1) == []
    outputs = group.sleep(1)
    (gone,) = [each for each in outputs if isinstance(each, MemberExpired)]
    assert gone.last_heard_ms == heard_ms, "a renewal is no sign of life"
    assert gone.time_ms == group.now_ms


def test_renewals_do_not_add_up() -> None:
    group = GroupHarness()
    group.stable("m")
    for _ in range(5):
        group.sleep(SESSION_MS - 1)
        group.renew_sessions()
    group.sleep(SESSION_MS - 1)
    assert group.state == "Stable"
    assert expired(group.sleep(1)) == ["m"]


def test_a_session_that_was_due_before_is_over() -> None:
    group = GroupHarness()
    group.stable("m")
    group.now_ms += SESSION_MS
    assert expired(group.renew_sessions()) == ["m"]


def test_a_beat_after_a_renewal_counts_as_ever() -> None:
    group = GroupHarness()
    generation_id = group.stable("m", "n")
    group.sleep(SESSION_MS - 1)
    group.renew_sessions()
    group.sleep(5_000)
    group.heartbeat("m", generation_id)
    assert expired(group.sleep(5_000)) == ["n"]
    assert expired(group.sleep(5_000)) == ["m"]


def test_who_joins_for_the_first_time_and_who_was_handed_an_id_are_given_their_time_again() -> None:
    group = GroupHarness()
    group.join(new_member_id="handed-out")
    group.sleep(SESSION_MS - 1)
    for _ in range(2):
        group.renew_sessions()
        assert group.sleep(SESSION_MS - 1) == []
    (gone,) = [each for each in group.sleep(1) if isinstance(each, PendingMemberRemoved)]
    assert gone.member_id == "handed-out"
    waiting = GroupHarness()
    waiting.stable("m", rebalance_timeout_ms=3 * NEW_MEMBER_JOIN_TIMEOUT_MS, session_timeout_ms=2 * NEW_MEMBER_JOIN_TIMEOUT_MS)
    waiting.add("new")
    waiting.sleep(NEW_MEMBER_JOIN_TIMEOUT_MS - 1)
    waiting.renew_sessions()
    assert waiting.sleep(NEW_MEMBER_JOIN_TIMEOUT_MS - 1) == []
    assert expired(waiting.sleep(1)) == ["new"]


def test_it_makes_no_group_and_changes_nothing_but_sessions() -> None:
    group = GroupHarness()
    assert group.renew_sessions() == []
    assert group.group is None
    group.stable("m")
    group.add("late")
    before = group.group
    assert before is not None
    join_timer = before.timers["join"]
    group.sleep(100)
    group.renew_sessions()
    after = group.group
    assert after is not None
    assert after.timers["join"] == join_timer
    assert (after.seq, after.state, after.generation_id) == (before.seq, before.state, before.generation_id)
    assert assignment("t", 0) == after.members["m"].assignment
