"""Sessions that are renewed because the clock had stood still, and what is told of one that is over."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coordinator_state.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from schemas.history import MemberExpired, OffsetsExpired, PendingMemberRemoved
from tests.coordinator_state.harness import DAY_MS, GroupHarness, assignment

SESSION_MS = 10_000


def expired(outputs: Sequence[object]) -> list[str]:
    return [output.member.member_id for output in outputs if isinstance(output, MemberExpired)]


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
    (expiry,) = [output for output in outputs if isinstance(output, MemberExpired)]
    assert expiry.last_heard_ms == heard_ms, "a renewal is no sign of life"
    assert expiry.time_ms == group.now_ms


@pytest.mark.parametrize("session_timeout_ms", [SESSION_MS, 2 * NEW_MEMBER_JOIN_TIMEOUT_MS])
@pytest.mark.parametrize("sends_heartbeat", [False, True])
def test_an_expiry_tells_the_time_that_a_newcomer_had(session_timeout_ms: int, sends_heartbeat: bool) -> None:
    group = GroupHarness()
    long_ms = 3 * NEW_MEMBER_JOIN_TIMEOUT_MS
    group.stable("m", session_timeout_ms=long_ms)
    group.add("new", session_timeout_ms=session_timeout_ms, rebalance_timeout_ms=long_ms)
    group.sleep(1_000)
    if sends_heartbeat:
        group.heartbeat("new", 1)
    had_ms = session_timeout_ms if sends_heartbeat else NEW_MEMBER_JOIN_TIMEOUT_MS
    heard_ms = group.now_ms - (0 if sends_heartbeat else 1_000)
    (expiry,) = [output for output in group.sleep(long_ms - 2_000) if isinstance(output, MemberExpired)]
    assert expiry.member.member_id == "new"
    assert (expiry.last_heard_ms, expiry.time_ms, expiry.session_timeout_ms) == (heard_ms, heard_ms + had_ms, had_ms)


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


def test_a_heartbeat_after_a_renewal_counts_as_ever() -> None:
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
    (removal,) = [output for output in group.sleep(1) if isinstance(output, PendingMemberRemoved)]
    assert removal.member_id == "handed-out"
    waiting = GroupHarness()
    waiting.stable(
        "m", rebalance_timeout_ms=3 * NEW_MEMBER_JOIN_TIMEOUT_MS, session_timeout_ms=2 * NEW_MEMBER_JOIN_TIMEOUT_MS
    )
    waiting.add("new")
    waiting.sleep(NEW_MEMBER_JOIN_TIMEOUT_MS - 1)
    waiting.renew_sessions()
    assert waiting.sleep(NEW_MEMBER_JOIN_TIMEOUT_MS - 1) == []
    assert expired(waiting.sleep(1)) == ["new"]


def test_it_makes_no_group_and_changes_nothing_but_sessions() -> None:
    group = GroupHarness()
    assert group.renew_sessions() == []
    assert group.state == "none"
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
    assert (after.seq, after.body) == (before.seq, before.body)
    assert assignment("t", 0) == group.classic.members["m"].assignment


YEARS_MS = 56 * 365 * DAY_MS


def test_a_renewal_that_moves_time_leaves_nobody_out_and_expires_nothing() -> None:
    """A clock that a stranger had set to long ago goes on at the present: to the group no time has gone by."""
    group = GroupHarness(offsets_retention_minutes=1)
    generation_id = group.stable("m")
    group.commit("m", generation_id, {("t", 0): 7})
    group.leave("m")
    group.sleep(50_000)
    present_ms = group.now_ms + YEARS_MS
    assert group.renew_sessions(present_ms) == []
    assert group.now_ms == present_ms
    assert [record for record in group.sleep(9_000) if isinstance(record, OffsetsExpired)] == []
    assert group.group is not None
    outputs = group.sleep(700_000)
    assert [output.time_ms for output in outputs if isinstance(output, OffsetsExpired)] == [
        -(-(present_ms + 10_000) // 600_000) * 600_000
    ], "at the first check after its retention, which had ten seconds to go"


def test_a_rebalance_goes_on_where_it_was_when_time_is_moved() -> None:
    group = GroupHarness()
    group.stable("m", "n")
    group.add("another")
    group.sleep(SESSION_MS - 1)
    assert group.state == "PreparingRebalance"
    assert expired(group.renew_sessions(group.now_ms + YEARS_MS)) == []
    assert expired(group.sleep(SESSION_MS - 1)) == []
    assert group.state == "PreparingRebalance"
    assert expired(group.sleep(1)) == ["m", "n"]


def test_a_renewal_at_the_present_of_a_group_that_is_there_already_is_one_as_ever() -> None:
    moved, plain = GroupHarness(), GroupHarness()
    for group in (moved, plain):
        group.stable("m")
        group.sleep(SESSION_MS - 1)
    moved.renew_sessions(moved.now_ms - 5_000)
    plain.renew_sessions()
    ends_ms = [
        [
            (output.time_ms, output.last_heard_ms)
            for output in group.sleep(SESSION_MS)
            if isinstance(output, MemberExpired)
        ]
        for group in (moved, plain)
    ]
    assert ends_ms[0] == ends_ms[1] != []
