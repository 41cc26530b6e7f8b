"""What if this group used the other protocol: classic recordings with their clients as members of KIP-848."""

from __future__ import annotations

from hashlib import sha256

from msgspec.structs import replace

from coordinator_state import GroupConfig
from coordinator_state.outputs import MetadataEvent
from group_coordinator.coordinating.assignors import ASSIGNORS
from group_coordinator.proving.what_if.what_if import play
from group_coordinator.watching.dashboard.change import Change
from schemas.consumer_group_history import ConsumerMember, ConsumerMemberJoined, TargetAssignmentComputed
from schemas.group_metadata_events import GroupConfiguration
from schemas.history import MemberExpired, MemberJoined, decode_history
from tests.hash_seeds import printed_with
from tests.proving.what_if.pages import summary_of
from tests.proving.what_if.recordings import log_of, recorded

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


def test_a_group_that_has_settings_before_it_has_members() -> None:
    """They belong to its id. Its first member must bring topics along all the same."""
    log = log_of("crash")
    first = log.events[0]
    settings = GroupConfiguration(consumer_assignment_interval_ms=1_000)  # as it is without
    told = MetadataEvent(first.offset, first.clock_ms, first.timestamp_ms, settings)
    with_settings = replace(log, events=(told, *log.events))
    before, after = [
        summary_of(play(each, GroupConfig(), ASSIGNORS, CONSUMER), "crash") for each in (log, with_settings)
    ]
    assert after == before


def digest(repetition: int) -> str:
    history = play(log_of("deploy"), GroupConfig(), ASSIGNORS, CONSUMER, repetition)
    return sha256(b"\n".join(history)).hexdigest()


def test_a_log_and_a_repetition_are_the_same_play_in_every_process() -> None:
    program = "from tests.proving.what_if.test_other_protocol import digest; print(digest(0), digest(3))"
    for hash_seed in ("1", "2"):
        assert printed_with(hash_seed, program).split() == [digest(0), digest(3)]


def member_ids(change: Change, repetition: int) -> set[str]:
    """Whom the records of a play name as members that joined."""
    history = map(decode_history, play(log_of("deploy"), GroupConfig(), ASSIGNORS, change, repetition))
    joined = [record.joined if isinstance(record, ConsumerMemberJoined) else record for record in history]
    return {each.member.member_id for each in joined if isinstance(each, ConsumerMember | MemberJoined)}


def test_ids_that_the_log_does_not_tell_are_chance_and_those_that_it_tells_are_not() -> None:
    """Members of the consumer protocol make their ids themselves, at random, and `range` goes by their order."""
    ids = [member_ids(CONSUMER, repetition) for repetition in range(3)]
    assert len(set.union(*ids)) == sum(map(len, ids))
    assert member_ids(Change(), 1) == member_ids(Change(), 0)


def test_how_many_partitions_move_depends_on_ids_by_range_alone() -> None:
    """`deploy`: the classic group moved 36."""
    moves = {
        assignor: [
            summary_of(play(log_of("deploy"), GroupConfig(), ASSIGNORS, change, repetition), "deploy")["moves"]
            for repetition in range(4)
        ]
        for assignor in ("uniform", "range")
        for change in (replace(CONSUMER, assignor=assignor),)
    }
    assert set(moves["uniform"]) <= {17, 18}
    assert max(moves["uniform"]) < max(moves["range"]) < 36
    assert len(set(moves["range"])) > 2
