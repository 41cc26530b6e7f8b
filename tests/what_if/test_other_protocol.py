"""What if this group used the other protocol: classic recordings with their clients as members of KIP-848."""

from __future__ import annotations

from coordinator_state import GroupConfig
from group_coordinator.assignors import ASSIGNORS
from group_coordinator.what_if.change import Change
from group_coordinator.what_if.what_if import play
from schemas.history import MemberExpired, decode_history
from schemas.observed_history import ConsumerMemberJoined, TargetAssignmentComputed
from tests.what_if.pages import summary_of
from tests.what_if.recordings import log_of, recorded

CONSUMER = Change(group_protocol="consumer", session_timeout_ms=6_000)
"""With the session timeout that the clients had."""


def test_nobody_stops_for_others() -> None:
    """`crash`: in the classic group partitions stop 17 times though they stay; the crash itself costs the same."""
    before = summary_of(recorded("crash"), "crash")
    after = summary_of(play(log_of("crash"), GroupConfig(), ASSIGNORS, CONSUMER), "crash")
    assert (before["protocols"], after["protocols"]) == (["classic"], ["consumer"])
    assert (before["stops"], after["stops"]) == (17, 0)
    assert after["silent_ms"] == before["silent_ms"] == 12_000
    assert after["start_ms"] == 0, "the first member need not wait for others"


def test_a_deploy_moves_less() -> None:
    """`deploy`, with range: each rebalance moves nearly everything. Now only what somebody else must have moves."""
    before = summary_of(recorded("deploy"), "deploy")
    after = summary_of(play(log_of("deploy"), GroupConfig(), ASSIGNORS, CONSUMER), "deploy")
    assert after["moves"] < before["moves"] / 2
    assert after["unowned_ms"] < before["unowned_ms"] / 2


def test_a_dead_member_holds_its_partitions_for_the_coordinator_s_session_timeout() -> None:
    """`crash`: its client had 6 s, the coordinator has 45 s for consumer groups."""
    played = [
        decode_history(value)
        for value in play(log_of("crash"), GroupConfig(), ASSIGNORS, Change(group_protocol="consumer"))
    ]
    (expired,) = [record for record in played if isinstance(record, MemberExpired)]
    assert (expired.member.client_id, expired.session_timeout_ms) == ("b", 45_000)


def test_clients_ask_for_what_they_subscribed_to() -> None:
    """`crash`: client d subscribes to two topics, the others to one."""
    played = [decode_history(value) for value in play(log_of("crash"), GroupConfig(), ASSIGNORS, CONSUMER)]
    wanted = {
        record.joined.member.client_id: record.joined.subscribed_topics
        for record in played
        if isinstance(record, ConsumerMemberJoined)
    }
    assert wanted == {"a": ("orders",), "b": ("orders",), "c": ("orders",), "d": ("orders", "payments")}


def test_the_coordinator_s_assignor_is_chosen() -> None:
    for assignor in ("uniform", "range"):
        change = Change(group_protocol="consumer", assignor=assignor)
        played = [decode_history(value) for value in play(log_of("crash"), GroupConfig(), ASSIGNORS, change)]
        assert {record.assignor for record in played if isinstance(record, TargetAssignmentComputed)} == {assignor}


def test_static_members_come_back() -> None:
    """`deploy`: static members do not leave, they are away, so that their partitions wait for them."""
    change = Change(group_protocol="consumer", static_members=True)
    after = summary_of(play(log_of("crash"), GroupConfig(), ASSIGNORS, change), "crash")
    assert "member_left" not in after["by_trigger"]


def test_the_same_twice() -> None:
    log = log_of("deploy")
    assert play(log, GroupConfig(), ASSIGNORS, CONSUMER) == play(log, GroupConfig(), ASSIGNORS, CONSUMER)
