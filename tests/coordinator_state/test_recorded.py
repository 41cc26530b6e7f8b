"""What a recording says besides requests, heard by the core; whatever else it says is refused before it gets there."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from coordinator_state import GroupConfig, GroupCoordinator, LogRecord, RecordedEvent, classic_group
from coordinator_state.outputs import MetadataEvent
from schemas import history
from schemas.events import EventError, decode_group_event, encode_json
from schemas.group_metadata_events import GroupConfiguration
from schemas.messages import JoinGroupProtocol
from schemas.observed_history import CoordinatorChanged, GroupRestored, MemberGone
from schemas.recorded import (
    RecordedDeparture,
    RecordedFact,
    RecordedGroup,
    RecordedLeader,
    RecordedLoad,
    RecordedMember,
    RecordedOffset,
    RecordedSession,
    RecordingGap,
)
from tests.coordinator_state.harness import GroupHarness, of_type

NOW_MS = 1_767_225_600_000


def member(member_id: str, **fields: object) -> RecordedMember:
    recorded_member = RecordedMember(
        member_id=member_id,
        client_id=member_id,
        client_host="/127.0.0.1",
        session_timeout_ms=6_000,
        rebalance_timeout_ms=10_000,
        protocols=(JoinGroupProtocol(name="range", metadata=b""),),
    )
    return replace(recorded_member, **fields)


KNOWN = RecordedGroup(
    generation_id=7,
    protocol_type="consumer",
    protocol_name="range",
    leader_id="b",
    members=(member("a"), member("b", group_instance_id="s")),
    offsets=(RecordedOffset(topic="t", partition=0, offset=5), RecordedOffset(topic="t", partition=0, offset=6)),
)


def heard(fact: RecordedFact) -> GroupCoordinator:
    coordinator = GroupCoordinator("g", GroupConfig())
    coordinator.handle(RecordedEvent(10, NOW_MS, NOW_MS, fact))
    return coordinator


def test_a_group_that_is_known_goes_on_from_its_join_phase() -> None:
    coordinator = heard(KNOWN)
    (group_record,) = of_type(coordinator.outputs, history.GroupRecorded)
    assert (group_record.epoch, group_record.generation_id, group_record.leader_id, group_record.cause.kind) == (
        10,
        7,
        "b",
        "recording",
    )
    group = coordinator.group
    assert group is not None
    assert list(classic_group(group).members) == ["a", "b"]
    assert classic_group(group).static_members == {"s": "b"}
    assert [(topic, partition, committed.offset) for topic, partition, committed in group.offsets] == [("t", 0, 6)]
    assert group.retention["t"].count == 1
    coordinator.take_outputs()
    coordinator.advance_to(NOW_MS + 6_000)  # nobody is heard: both expire, and the group is written as empty
    assert [type(record).__name__ for record in of_type(coordinator.outputs, history.MemberExpired)] == [
        "MemberExpired"
    ] * 2
    assert of_type(coordinator.outputs, LogRecord)


def test_what_was_known_before_is_replaced() -> None:
    coordinator = heard(KNOWN)
    coordinator.handle(
        RecordedEvent(
            20, NOW_MS + 1, NOW_MS + 1, replace(KNOWN, generation_id=9, leader_id="a", members=(member("a"),))
        )
    )
    group = coordinator.group
    assert group is not None
    assert (group.epoch, classic_group(group).generation_id, list(classic_group(group).members)) == (20, 9, ["a"])


def test_settings_belong_to_the_id_whatever_is_recorded() -> None:
    coordinator = heard(KNOWN)
    own = GroupConfiguration(consumer_heartbeat_interval_ms=7_000)
    coordinator.handle(MetadataEvent(20, NOW_MS, NOW_MS, own))
    for fact in (KNOWN, RecordingGap(reason="lines are missing"), KNOWN):
        coordinator.handle(RecordedEvent(21, NOW_MS + 1, NOW_MS + 1, fact))
        group = coordinator.group
        assert group is not None
        assert group.configuration == own


def test_after_a_gap_nothing_is_known() -> None:
    coordinator = heard(KNOWN)
    coordinator.handle(RecordedEvent(20, NOW_MS + 1, NOW_MS + 1, RecordingGap(reason="lines are missing")))
    (gap,) = of_type(coordinator.outputs, history.RecordingGap)
    assert (gap.epoch, gap.reason) == (10, "lines are missing")
    assert coordinator.group is None
    coordinator.take_outputs()
    coordinator.advance_to(NOW_MS + 60_000)
    assert coordinator.take_outputs() == []


def test_a_gap_of_a_group_that_was_never_known_is_told() -> None:
    coordinator = heard(RecordingGap(reason="older"))
    (gap,) = coordinator.take_outputs()
    assert isinstance(gap, history.RecordingGap)
    assert (gap.epoch, gap.seq) == (10, 1)


@pytest.mark.parametrize("leader", ["b", "c"])
def test_the_recorded_leader_is_elected(leader: str) -> None:
    group = GroupHarness("g", now_ms=NOW_MS)
    group.stable("a", "b", "c")
    group.recorded(RecordedLeader(member_ids=("gone", leader)))
    group.leave("a")
    group.join("b")
    group.join("c")
    state = group.classic
    assert (state.state.value, state.leader_id) == ("CompletingRebalance", leader)


def test_a_leader_of_a_group_that_is_not_there_says_nothing() -> None:
    assert heard(RecordedLeader(member_ids=("a",))).take_outputs() == []


@pytest.mark.parametrize("said", [KNOWN, RecordedLeader(member_ids=("a", "b")), RecordingGap(reason="x")])
def test_read_as_written(said: RecordedGroup | RecordedLeader | RecordingGap) -> None:
    assert decode_group_event("g", encode_json(said)) == said


@pytest.mark.parametrize(
    "wrong",
    [
        replace(KNOWN, leader_id="nobody"),
        replace(KNOWN, members=()),
        replace(KNOWN, members=(member("b"), member("b"))),
        replace(KNOWN, members=(member("a", group_instance_id="s"), member("b", group_instance_id="s"))),
        replace(KNOWN, protocol_name="sticky"),
        replace(KNOWN, members=(member("b", session_timeout_ms=-1),)),
        replace(KNOWN, members=(member("b", client_id="x" * 40_000),)),
        RecordedLeader(member_ids=("x" * 40_000,)),
    ],
)
def test_what_no_group_can_be_is_a_dead_letter(wrong: RecordedGroup | RecordedLeader) -> None:
    with pytest.raises(EventError):
        decode_group_event("g", encode_json(wrong))


# ------------------------------------------------------------------------------------------------------------ a load


def stored(harness: GroupHarness) -> bytes | None:
    """The value of the group's last record."""
    values = [output.value for output in of_type(harness.outputs, LogRecord) if output.key[:2] == b"\x00\x02"]
    return values[-1]


def test_sessions_begin_anew_when_the_group_is_loaded() -> None:
    group = GroupHarness("g", now_ms=NOW_MS)
    group.stable("a", "b")
    timeout_ms = group.classic.members["a"].session_timeout_ms
    loaded_ms = group.now_ms + 5_000
    group.recorded(RecordedLoad(loaded_ms=loaded_ms, group_metadata=stored(group), broker_id=3))
    (change,) = of_type(group.outputs, CoordinatorChanged)
    assert change.broker_id == 3
    assert not of_type(group.outputs, GroupRestored)
    assert (group.classic.state.value, list(group.classic.members)) == ("Stable", ["a", "b"])
    assert group.classic.members["a"].assignment
    group.sleep(loaded_ms + timeout_ms - 1 - group.now_ms)
    assert not of_type(group.outputs, history.MemberExpired)
    group.sleep(1)
    assert {record.member.member_id for record in of_type(group.outputs, history.MemberExpired)} == {"a", "b"}


def test_what_was_not_stored_is_forgotten() -> None:
    group = GroupHarness("g", now_ms=NOW_MS)
    group.stable("a", "b")
    before = stored(group)
    generation = group.classic.generation_id
    group.leave("a")
    group.add("c")
    group.recorded(RecordedLoad(loaded_ms=group.now_ms, group_metadata=before))
    assert (group.classic.state.value, group.classic.generation_id) == ("Stable", generation)
    assert set(group.classic.members) == {"a", "b"}
    (ended,) = of_type(group.outputs, history.RebalanceCompleted)[-1:]
    assert ended.outcome == "coordinator_changed"
    gone_ids = [record.member.member_id for record in of_type(group.outputs, history.MemberDropped)]
    gone_ids += [record.member_id for record in of_type(group.outputs, history.PendingMemberRemoved)]
    assert gone_ids == ["c"]
    (restored,) = of_type(group.outputs, GroupRestored)
    assert (restored.leader_id, {share.member_id for share in restored.assignments}) == ("a", {"a", "b"})


def test_a_load_of_a_group_that_was_never_stored() -> None:
    assert heard(RecordedLoad(loaded_ms=NOW_MS, group_metadata=None)).take_outputs() == []


@pytest.mark.parametrize("value", [b"", b"\x00\x09", b"\x00\x03\x00"])
def test_what_no_broker_can_load_is_a_dead_letter(value: bytes) -> None:
    with pytest.raises(EventError):
        decode_group_event("g", encode_json(RecordedLoad(loaded_ms=NOW_MS, group_metadata=value)))


# ------------------------------------------------------------------------------------------------------- departures


@pytest.mark.parametrize("ends_in_ms", [500, 50_000])
def test_a_session_ends_when_the_recording_says(ends_in_ms: int) -> None:
    group = GroupHarness("g", now_ms=NOW_MS)
    group.stable("a", "b")
    group.recorded(RecordedSession(member_id="a", ends_ms=group.now_ms + ends_in_ms))
    group.recorded(RecordedSession(member_id="gone", ends_ms=group.now_ms))
    group.recorded(RecordedSession(member_id="b", ends_ms=group.now_ms + 10 * ends_in_ms))
    group.sleep(ends_in_ms - 1)
    assert not of_type(group.outputs, history.MemberExpired)
    group.sleep(1)
    assert [record.member.member_id for record in of_type(group.outputs, history.MemberExpired)] == ["a"]


@pytest.mark.parametrize("ends_in_ms", [500, 50_000])
def test_a_join_phase_ends_when_the_recording_says(ends_in_ms: int) -> None:
    group = GroupHarness("g", now_ms=NOW_MS)
    group.recorded(RecordedSession(member_id=None, ends_ms=NOW_MS))
    group.stable("a", "b")
    group.recorded(RecordedSession(member_id=None, ends_ms=NOW_MS))
    assert not of_type(group.add("c"), history.JoinPhaseCompleted)
    group.recorded(RecordedSession(member_id=None, ends_ms=group.now_ms + ends_in_ms))
    for member_id in ("a", "b"):
        group.recorded(RecordedSession(member_id=member_id, ends_ms=group.now_ms + 2 * ends_in_ms))
    group.sleep(ends_in_ms - 1)
    assert of_type(group.outputs, history.JoinPhaseCompleted)[-1].generation_id == 2
    group.sleep(1)
    assert of_type(group.outputs, history.JoinPhaseCompleted)[-1].generation_id == 3
    assert {record.member.member_id for record in of_type(group.outputs, history.MemberDropped)} == {"a", "b"}


def test_a_departure_is_told_as_not_known_and_lies_nowhere() -> None:
    group = GroupHarness("g", now_ms=NOW_MS)
    group.stable("a", "b")
    group.recorded(RecordedDeparture(member_id="gone"))
    assert not of_type(group.outputs, MemberGone)
    group.recorded(RecordedDeparture(member_id="a"))
    (gone,) = of_type(group.outputs, MemberGone)
    assert (gone.member.member_id, gone.cause.certainty, gone.cause.offset) == ("a", "not_known", -1)
    started = of_type(group.outputs, history.RebalanceStarted)[-1]
    assert (started.trigger, started.caused_by, started.cause.certainty) == ("not_known", gone.seq, "not_known")
    assert not of_type(group.outputs, history.MemberLeft)


@pytest.mark.parametrize("said", [RecordedSession(member_id="a", ends_ms=NOW_MS), RecordedDeparture(member_id="a")])
def test_without_a_group_nobody_departs(said: RecordedSession | RecordedDeparture) -> None:
    assert heard(said).take_outputs() == []
    assert decode_group_event("g", encode_json(said)) == said
