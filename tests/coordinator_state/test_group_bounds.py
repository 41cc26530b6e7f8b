"""Whatever a client can make grow in a group has a bound in bytes."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from coordinator_state import ClassicGroup, Group, classic_group, encode_group
from coordinator_state.classic.old_states import OldGroup
from coordinator_state.offsets import Offsets
from coordinator_state.refused import REFUSALS_RECORDED_MAX
from schemas.error_codes import ErrorCode
from schemas.events import EventError, decode_request_event, encode_request_event
from schemas.history import RequestRefused
from schemas.messages import (
    HeartbeatRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponseGroup,
)
from tests.coordinator_state.harness import DAY_MS, GroupHarness, LogRecord, of_type

FULL = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
NONE = ErrorCode.NONE
NAMES = 2
"""Bytes of the names of the group `g` and the topic `t`, with which each offset counts."""


def commit(group: GroupHarness, *offsets: tuple[int, str], topic: str = "t") -> list[ErrorCode]:
    """Commit (partition, metadata) in this order; the codes of the answer."""
    partitions = tuple(
        OffsetCommitRequestPartition(partition_index=number, committed_offset=7, committed_metadata=metadata)
        for number, metadata in offsets
    )
    request = OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name=topic, partitions=partitions),))
    answer = group.answer(group.send("OffsetCommit", request))
    return [partition.error_code for partition in answer.topics[0].partitions]


def counted(group: GroupHarness) -> int:
    """What the group says that its offsets take, which must be what they take."""
    state = group.group
    assert state is not None
    assert state.offsets_bytes == state.offsets.count_bytes("g")
    return state.offsets_bytes


def test_offsets_beyond_the_bound_are_refused_one_by_one_in_their_order() -> None:
    group = GroupHarness(group_offsets_max_bytes=3 * NAMES + 350)
    assert commit(group, (0, "x" * 100), (1, "x" * 60), (2, ""), (3, ""), (1, "")) == [NONE, FULL, NONE, FULL, FULL]
    assert counted(group) == 2 * NAMES + 300


def test_who_is_at_the_bound_can_go_on_committing() -> None:
    group = GroupHarness(group_offsets_max_bytes=2 * NAMES + 200)
    assert commit(group, (0, ""), (1, "")) == [NONE, NONE]
    assert commit(group, (1, ""), (0, ""), (2, "")) == [NONE, NONE, FULL]


def test_a_commit_that_shrinks_makes_room_for_those_behind_it() -> None:
    group = GroupHarness(group_offsets_max_bytes=3 * NAMES + 300)
    assert commit(group, (0, "x" * 100), (1, "")) == [NONE, NONE]
    assert commit(group, (2, ""), (0, ""), (2, "")) == [FULL, NONE, NONE]
    assert counted(group) == 3 * NAMES + 300


def test_names_count() -> None:
    group = GroupHarness(group_offsets_max_bytes=600)
    assert commit(group, (0, ""), topic="t" * 249) == [NONE]
    assert commit(group, (0, ""), topic="u" * 249) == [FULL]
    assert counted(group) == 100 + 1 + 249


def test_text_counts_in_bytes() -> None:
    group = GroupHarness(group_offsets_max_bytes=NAMES + 100 + 39)
    assert commit(group, (0, "😀" * 10)) == [FULL]
    assert commit(group, (0, "😀" * 9)) == [NONE]


def test_what_is_deleted_or_expires_makes_room() -> None:
    group = GroupHarness(group_offsets_max_bytes=2 * NAMES + 200, offsets_retention_minutes=1)
    commit(group, (0, ""), (1, ""))
    topic = OffsetDeleteRequestTopic(name="t", partitions=(OffsetDeleteRequestPartition(partition_index=0),))
    group.send("OffsetDelete", OffsetDeleteRequest(group_id="g", topics=(topic,)))
    assert counted(group) == NAMES + 100
    assert commit(group, (2, ""), (3, "")) == [NONE, FULL]
    group.sleep(DAY_MS)
    assert commit(group, (4, ""), (5, "")) == [NONE, NONE]


def test_a_group_that_is_larger_than_it_may_be_shrinks_and_does_not_grow() -> None:
    group = GroupHarness(group_offsets_max_bytes=10_000)
    commit(group, (0, "x" * 100), (1, "x" * 100), (2, ""))
    group.config = dataclasses.replace(group.config, group_offsets_max_bytes=2 * NAMES + 200)
    assert commit(group, (0, "x" * 100), (1, "y" * 100)) == [NONE, NONE]
    assert commit(group, (0, "x" * 101), (3, "")) == [FULL, FULL]
    assert commit(group, (0, "x" * 99), (1, "x" * 101)) == [NONE, FULL]
    assert counted(group) == 3 * NAMES + 499


def of_version_1(group: Group | None) -> tuple[bytes, bytes]:
    """The blobs that version 1 of the state had of a group."""
    assert group is not None
    body = classic_group(group)
    fields = {
        name: getattr(body if name in ClassicGroup.__struct_fields__ else group, name)
        for name in OldGroup.__struct_fields__
    }
    membership = msgspec.msgpack.decode(msgspec.msgpack.encode(OldGroup(**fields | {"offsets": None})))
    return b"\x01" + msgspec.msgpack.encode(membership[:-1]), b"\x01" + encode_group(group)[1][1:]


def test_a_state_from_before_offsets_were_counted_is_counted_at_the_next_commit_and_not_before() -> None:
    group = GroupHarness(group_offsets_max_bytes=3 * NAMES + 300)
    commit(group, (0, ""), (1, ""))
    group.restore(of_version_1(group.group))
    assert group.group is not None
    assert group.group.offsets_bytes is None
    group.sleep(1)
    assert group.group.offsets_bytes is None
    assert commit(group, (2, ""), (3, "")) == [NONE, FULL]
    assert counted(group) == 3 * NAMES + 300


def test_offsets_that_go_from_a_state_from_before_they_were_counted() -> None:
    group = GroupHarness(group_offsets_max_bytes=3 * NAMES + 300)
    commit(group, (0, ""), (1, ""))
    group.restore(of_version_1(group.group))
    topic = OffsetDeleteRequestTopic(name="t", partitions=(OffsetDeleteRequestPartition(partition_index=0),))
    group.send("OffsetDelete", OffsetDeleteRequest(group_id="g", topics=(topic,)))
    commit(group, (1, ""))
    assert counted(group) == NAMES + 100


def test_a_heartbeat_does_not_decode_the_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    group = GroupHarness()
    group.stable("a")
    group.commit("a", 1)
    monkeypatch.setattr(Offsets, "topics", property(lambda self: pytest.fail("the offsets were decoded")))
    group.heartbeat("a", 1)


@pytest.mark.parametrize("grows", ["client_id", "client_host", "group_instance_id"])
def test_whatever_names_a_member_counts(grows: str) -> None:
    """Ids and hosts that are as long as an event allows: a group takes only so many of them."""
    group = GroupHarness(group_max_bytes=200_000, group_initial_rebalance_delay_ms=3_000)
    codes = []
    for number in range(12):
        long_field = {grows: "x" * 30_000 + str(number)}
        outputs = group.join(version=3, new_member_id=f"m{number}", **long_field)
        codes.append(group.answers(outputs).get(f"r{group.offset}"))
    refused = [response.error_code for response in codes if response is not None]
    assert refused
    assert set(refused) == {ErrorCode.GROUP_MAX_SIZE_REACHED}
    classic = group.classic
    assert len(classic.members) <= 7
    before = classic.members_bytes
    classic.count_members()
    assert classic.members_bytes == before


def test_handed_out_ids_count_with_the_host_of_their_client() -> None:
    group = GroupHarness(group_max_bytes=100_000)
    codes = [group.answer(group.join(client_host="h" * 30_000)).error_code for _ in range(6)]
    assert codes[0] is ErrorCode.MEMBER_ID_REQUIRED
    assert codes[-1] is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_the_count_of_members_is_what_they_take() -> None:
    group = GroupHarness()
    for name in ("a", "ü", "c"):
        group.add(name)
    group.join(group_instance_id="i")
    group.join(group_instance_id="i")
    group.leave("c")
    classic = group.classic
    before = classic.members_bytes
    classic.count_members()
    assert classic.members_bytes == before


def test_a_commit_makes_only_so_many_bytes_of_records() -> None:
    """Each record names the group: of a long name and a commit of many partitions becomes hundreds of times the
    request."""
    group = GroupHarness("g" * 30_000, group_offsets_max_bytes=100_000_000)
    partitions = tuple(OffsetCommitRequestPartition(partition_index=0, committed_offset=7) for _ in range(200))
    topic = OffsetCommitRequestTopic(name="t", partitions=partitions)
    outputs = group.send("OffsetCommit", OffsetCommitRequest(group_id="g" * 30_000, topics=(topic,)))
    (answered,) = group.answer(outputs).topics
    assert {partition.error_code for partition in answered.partitions} == {FULL}
    assert len(answered.partitions) == 200
    assert of_type(outputs, LogRecord) == []
    first_topic = OffsetCommitRequestTopic(name="t", partitions=partitions[:100])
    outputs = group.send("OffsetCommit", OffsetCommitRequest(group_id="g" * 30_000, topics=(first_topic,)))
    assert len(of_type(outputs, LogRecord)) == 100


@pytest.mark.parametrize("refused", [1, 99, 100, 101, 20_000])
def test_history_tells_of_only_so_many_refusals_of_one_request(refused: int) -> None:
    group = GroupHarness()
    commit(group, (0, ""))
    outputs = group.leave(*(f"m{number}" for number in range(refused)))
    assert len(group.answer(outputs).members) == refused
    refusals = of_type(outputs, RequestRefused)
    assert len(refusals) == min(refused, REFUSALS_RECORDED_MAX)
    assert ("nothing is told" in refusals[-1].detail) == (refused >= REFUSALS_RECORDED_MAX)
    assert len(of_type(group.leave("m"), RequestRefused)) == 1


def test_a_request_id_of_any_length_is_not_kept() -> None:
    """A group keeps the ids of requests that wait."""
    for length in (255, 256, 1_000_000):
        event = encode_request_event("Heartbeat", 4, HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
                                     request_id="r" * length, reply_partition=0, client_id="c")  # fmt: skip
        if length <= 255:
            decode_request_event("g", event)
        else:
            with pytest.raises(EventError, match="string_too_long"):
                decode_request_event("g", event)


def test_a_partition_that_is_asked_for_very_often_is_not_answered_as_often() -> None:
    """160,000 times 4 KB of metadata would be a request of half a megabyte and an answer of 650 MB."""
    group = GroupHarness()
    commit(group, (0, "x" * 4_000))

    def fetch(*partitions: int) -> OffsetFetchResponseGroup:
        request_group = OffsetFetchRequestGroup(
            group_id="g", topics=(OffsetFetchRequestTopic(name="t", partition_indexes=partitions),)
        )
        (answered,) = group.answer(group.send("OffsetFetch", OffsetFetchRequest(groups=(request_group,)))).groups
        assert isinstance(answered, OffsetFetchResponseGroup)
        return answered

    refused = fetch(*(0,) * 160_000)
    assert (refused.error_code, refused.topics) == (ErrorCode.UNKNOWN_SERVER_ERROR, ())
    assert len(fetch(*range(160_000)).topics[0].partitions) == 160_000, "numbers alone are no more than their request"
    assert len(fetch(*(0,) * 4_000).topics[0].partitions) == 4_000
