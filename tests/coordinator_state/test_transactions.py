"""Offsets of open transactions: when they count, what they hold up, and what becomes of them when something goes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.json import encode

from coordinator_state import (
    AssignmentChange,
    Group,
    LogRecord,
    Output,
    StateError,
    TransactionEndedEvent,
    decode_group,
    encode_group,
    group_event,
)
from coordinator_state.offsets import Offsets
from schemas.error_codes import ErrorCode
from schemas.events import EventError, EventProblem, TransactionEnded, decode_group_event
from schemas.history import GroupDead, HistoryRecord, OffsetsCommitted, OffsetsDeleted, OffsetsExpired, RequestRefused
from schemas.records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue, decode_key, decode_record
from schemas.transaction_history import TransactionalOffsetsAborted, TransactionalOffsetsReplaced
from schemas.transaction_messages import TransactionLogPosition
from tests.coordinator_state.harness import MINUTE_MS, GroupHarness, of_type

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
OLD, NEW = (f"00000000-0000-0000-0000-00000000000{number}" for number in (1, 2))
HOUR: dict[str, Any] = {"offsets_retention_minutes": 60, "offsets_retention_check_interval_ms": MINUTE_MS}


def fetched(group: GroupHarness, *partitions: tuple[str, int], stable: bool = False) -> dict[tuple[str, int], object]:
    """Topic and partition -> the offset, or the error that is answered in its place."""
    (answered,) = group.answer(group.fetch(*partitions, require_stable=stable)).groups
    for topic in answered.topics:
        for partition in topic.partitions:
            if partition.error_code is not ErrorCode.NONE:
                assert (partition.committed_offset, partition.committed_leader_epoch, partition.metadata) == (
                    -1,
                    -1,
                    "",
                )
    return {
        (topic.name, partition.partition_index): partition.error_code or partition.committed_offset
        for topic in answered.topics
        for partition in topic.partitions
    }


def offset(group: GroupHarness, *, stable: bool = False) -> object:
    return fetched(group, T0, stable=stable)[T0]


def state_of(group: GroupHarness) -> Group:
    state = group.group
    assert state is not None
    assert state.offsets_bytes == state.offsets.count_bytes("g")
    return state


def tombstones(outputs: list[Output]) -> list[object]:
    return [decode_key(output.key) for output in of_type(outputs, LogRecord) if output.value is None]


# --------------------------------------------------------------------------------------------------- what counts, when


def test_only_a_commit_makes_them_count() -> None:
    group = GroupHarness()
    group.commit_in_transaction(7, {T0: 5})
    assert (offset(group), offset(group, stable=True)) == (-1, UNSTABLE)
    group.end_transaction(7, committed=True)
    assert (offset(group), offset(group, stable=True)) == (5, 5)
    group.commit_in_transaction(7, {T0: 6})
    assert (offset(group), offset(group, stable=True)) == (5, UNSTABLE)
    group.end_transaction(7, committed=False)
    assert (offset(group), offset(group, stable=True)) == (5, 5)
    assert not state_of(group).offsets.has_pending


def test_topics_of_which_the_offsets_topic_knows_nothing_yet_are_published() -> None:
    """Whoever watches topics finds committed offsets there; of these it hears in no other way."""
    group = GroupHarness()

    def published(outputs: list[Output]) -> list[object]:
        snapshots = [change.snapshot for change in of_type(outputs, AssignmentChange)]
        return [None if snapshot is None else snapshot.pending_topics for snapshot in snapshots]

    assert published(group.commit_in_transaction(7, {T0: 5})) == [("t",)]
    assert published(group.commit_in_transaction(8, {T0: 6})) == [], "it is known"
    assert published(group.end_transaction(8, committed=False)) == [("t",)]
    assert published(group.end_transaction(7, committed=True)) == [UNSET]
    assert published(group.commit_in_transaction(7, {T0: 6})) == [], "the topic has offsets that everybody sees"
    assert published(group.commit_in_transaction(7, {("u", 0): 6})) == [("u",)]
    assert published(group.delete_topics(("u", None))) == [UNSET]


@pytest.mark.parametrize("order", ["plain, pending", "pending, plain"])
def test_the_later_commit_of_the_log_counts_whenever_the_end_comes(order: str) -> None:
    group = GroupHarness()
    group.commit(offsets={T0: 3})
    for step in order.split(", "):
        if step == "plain":
            group.commit(offsets={T0: 4})
        else:
            group.commit_in_transaction(7, {T0: 5})
    outputs = group.end_transaction(7, committed=True)
    expected = 5 if order == "plain, pending" else 4
    assert (offset(group), len(of_type(outputs, LogRecord))) == (expected, int(expected == 5))
    assert not state_of(group).offsets.has_pending
    told = [
        (type(record), [(change.offset, change.previous_offset) for change in record.offsets])
        for record in of_type(outputs, HistoryRecord)
        if isinstance(record, OffsetsCommitted | TransactionalOffsetsReplaced)
    ]
    assert told == (
        [(OffsetsCommitted, [(5, 4)])] if expected == 5 else [(TransactionalOffsetsReplaced, [(5, 4)])]
    ), "each that is pending no more has its record"


@pytest.mark.parametrize(("first", "then"), [(7, 8), (8, 7)])
def test_two_producers_over_one_partition(first: int, then: int) -> None:
    group = GroupHarness()
    group.commit_in_transaction(7, {T0: 5})
    group.commit_in_transaction(8, {T0: 6})
    group.end_transaction(first, committed=True)
    assert (offset(group), offset(group, stable=True)) == (first - 2, UNSTABLE)
    group.end_transaction(then, committed=True)
    assert (offset(group), offset(group, stable=True)) == (6, 6)


def test_a_transaction_commits_its_last_offset_of_each_partition() -> None:
    group = GroupHarness()
    group.commit_in_transaction(7, {U0: 1, T1: 2, T0: 5})
    group.commit_in_transaction(7, {T0: 6}, metadata="later")
    group.sleep(500)
    outputs = group.end_transaction(7, committed=True, epoch=1)
    assert [decode_record(output.key, output.value) for output in of_type(outputs, LogRecord)] == [
        (OffsetCommitKey("g", "t", 0), OffsetCommitValue(offset=6, metadata="later", commit_timestamp_ms=1_000_000)),
        (OffsetCommitKey("g", "t", 1), OffsetCommitValue(offset=2, commit_timestamp_ms=1_000_000)),
        (OffsetCommitKey("g", "u", 0), OffsetCommitValue(offset=1, commit_timestamp_ms=1_000_000)),
    ]
    (committed,) = of_type(outputs, OffsetsCommitted)
    cause = committed.cause
    assert (cause.kind, cause.producer_id, cause.offset, committed.member_id) == (
        "transaction_ended", 7, group.offset, None,
    )  # fmt: skip


def test_an_abort_is_history_and_nothing_else() -> None:
    group = GroupHarness()
    group.commit(offsets={T0: 3})
    group.commit_in_transaction(7, {T0: 5})
    (aborted,) = group.end_transaction(7, committed=False, epoch=4)
    assert isinstance(aborted, TransactionalOffsetsAborted)
    assert (aborted.producer_id, aborted.producer_epoch, aborted.cause.kind) == (7, 4, "transaction_ended")
    assert [(change.offset, change.previous_offset) for change in aborted.offsets] == [(5, 3)]


def test_an_end_without_anything_pending_does_nothing() -> None:
    group = GroupHarness()
    assert group.end_transaction(7, committed=True) == []
    group.commit_in_transaction(7, {T0: 5})
    assert group.end_transaction(8, committed=True) == []
    assert len(group.end_transaction(7, committed=True)) > 0
    assert group.end_transaction(7, committed=True) == []
    assert group.end_transaction(7, committed=False) == []
    assert offset(group) == 5


def test_a_repeated_end_from_the_log_of_transactions_is_ignored() -> None:
    group = GroupHarness()
    group.commit_in_transaction(7, {T0: 5}, log_offset=3)
    group.end_transaction(7, committed=True, log_offset=4)
    group.commit_in_transaction(7, {T0: 6}, log_offset=5)
    assert group.end_transaction(7, committed=False, log_offset=4) == []
    assert offset(group, stable=True) is UNSTABLE
    group.end_transaction(7, committed=True, log_offset=6)
    assert offset(group) == 6


# -------------------------------------------------------------------------------------------------------- stable reads


def test_a_stable_fetch_of_all_topics_has_what_is_committed_only() -> None:
    group = GroupHarness()
    group.commit(offsets={T0: 3, U0: 4})
    group.commit_in_transaction(7, {T0: 5, T1: 6})
    assert fetched(group, stable=True) == {T0: UNSTABLE, U0: 4}
    assert fetched(group) == {T0: 3, U0: 4}


def test_a_refused_fetch_names_the_producers() -> None:
    group = GroupHarness()
    for producer_id in range(100, 125):
        group.commit_in_transaction(producer_id, {T0: 5})
    (refused,) = of_type(group.fetch(T0, T1, require_stable=True), RequestRefused)
    assert refused.error == "UNSTABLE_OFFSET_COMMIT"
    assert "producers 100, 101, " in refused.detail
    assert refused.detail.endswith("119 and 5 more")
    assert of_type(group.fetch(T1, require_stable=True), RequestRefused) == []


# ----------------------------------------------------------------------------------------------------------- retention


def test_a_pending_offset_keeps_offset_and_group() -> None:
    group = GroupHarness(**HOUR)
    group.commit(offsets={T0: 1, T1: 1})
    group.commit_in_transaction(7, {T0: 2})
    (expired,) = of_type(group.sleep(120 * MINUTE_MS), OffsetsExpired)
    assert [change.partition for change in expired.offsets] == [1]
    assert offset(group) == 1
    group.end_transaction(7, committed=False)
    outputs = group.sleep(MINUTE_MS)
    assert len(of_type(outputs, OffsetsExpired)) == len(of_type(outputs, GroupDead)) == 1


def test_a_group_that_has_nothing_but_pending_offsets_stays_until_they_end() -> None:
    group = GroupHarness(**HOUR)
    group.commit_in_transaction(7, {T0: 2})
    assert group.sleep(120 * MINUTE_MS) == []
    group.end_transaction(7, committed=False)
    assert tombstones(group.sleep(MINUTE_MS)) == [GroupMetadataKey("g")]
    assert group.state == "none"


def test_retention_counts_from_the_commit_and_not_from_the_end_of_the_transaction() -> None:
    group = GroupHarness(**HOUR)
    group.commit_in_transaction(7, {T0: 2})
    group.sleep(30 * MINUTE_MS)
    group.commit(offsets={T1: 1})
    group.end_transaction(7, committed=True)
    (expired,) = of_type(group.sleep(31 * MINUTE_MS), OffsetsExpired)
    assert [change.partition for change in expired.offsets] == [0]


def test_time_that_never_was_does_not_count_against_a_pending_offset() -> None:
    group = GroupHarness(**HOUR)
    group.commit_in_transaction(7, {T0: 2})
    group.renew_sessions(to_ms=group.now_ms + 600 * MINUTE_MS)
    group.end_transaction(7, committed=True)
    assert of_type(group.sleep(59 * MINUTE_MS), OffsetsExpired) == []
    assert len(of_type(group.sleep(2 * MINUTE_MS), OffsetsExpired)) == 1


# ------------------------------------------------------------------------------------------------------ what is deleted


def test_deleted_offsets_take_the_pending_ones_of_all_producers_with_them() -> None:
    group = GroupHarness()
    group.commit(offsets={T0: 1})
    group.commit_in_transaction(7, {T0: 5, T1: 6})
    group.commit_in_transaction(8, {T0: 7})
    outputs = group.delete_offsets(T0, T1, U0)
    assert tombstones(outputs) == [OffsetCommitKey("g", "t", 0), OffsetCommitKey("g", "t", 1)]
    (deleted,) = of_type(outputs, OffsetsDeleted)
    assert [(change.partition, change.previous_offset) for change in deleted.offsets] == [(0, 1), (1, None)]
    assert group.end_transaction(7, committed=True) == []
    assert group.end_transaction(8, committed=True) == []
    assert not state_of(group).offsets.topics


def test_a_deleted_group_leaves_a_tombstone_for_each_partition_the_pending_ones_last() -> None:
    group = GroupHarness()
    group.commit_in_transaction(7, {T0: 5, T1: 6})
    group.commit_in_transaction(8, {T0: 5})
    group.commit(offsets={T1: 1, U0: 1})
    outputs = group.delete()
    assert tombstones(outputs) == [
        OffsetCommitKey("g", "t", 1), OffsetCommitKey("g", "u", 0), OffsetCommitKey("g", "t", 0), GroupMetadataKey("g"),
    ]  # fmt: skip
    assert group.state == "none"
    assert group.end_transaction(7, committed=True) == []


def test_a_deleted_topic_takes_its_pending_offsets_by_name_with_a_tombstone_for_each_producer() -> None:
    group = GroupHarness()
    group.commit(offsets={T1: 1, U0: 1}, topic_ids={"t": OLD})
    group.commit_in_transaction(8, {T1: 5, U0: 6})
    group.commit_in_transaction(7, {T1: 5, T0: 6})
    outputs = group.delete_topics(("t", OLD), ("v", NEW))
    assert tombstones(outputs) == [OffsetCommitKey("g", "t", partition) for partition in (1, 0, 1, 1)]
    (deleted,) = of_type(outputs, OffsetsDeleted)
    assert [(change.partition, change.previous_offset) for change in deleted.offsets] == [(1, 1), (0, None)]
    assert group.end_transaction(7, committed=True) == []
    group.end_transaction(8, committed=True)
    assert fetched(group) == {U0: 6}
    state_of(group)


def test_the_offset_of_a_topic_that_was_made_again_survives_the_pending_ones() -> None:
    group = GroupHarness()
    group.commit(offsets={T0: 3}, topic_ids={"t": NEW})
    group.commit_in_transaction(7, {T0: 5})
    assert tombstones(group.delete_topics(("t", OLD))) == []
    group.end_transaction(7, committed=True)
    assert offset(group, stable=True) == 3
    state_of(group)


# --------------------------------------------------------------------------------------------------- state and its size


def test_pending_offsets_have_their_place_in_the_bound_of_a_group() -> None:
    group = GroupHarness(group_offsets_max_bytes=3 * 102)
    codes = []
    for producer_id in (7, 8, 9, 10):
        (topic,) = group.answer(group.commit_in_transaction(producer_id, {T0: 1})).topics
        codes.append(topic.partitions[0].error_code)
    assert codes == [ErrorCode.NONE] * 3 + [ErrorCode.INVALID_COMMIT_OFFSET_SIZE]
    assert state_of(group).offsets_bytes == 3 * 102
    group.commit_in_transaction(7, {T0: 2})
    group.end_transaction(7, committed=False)
    assert state_of(group).offsets_bytes == 2 * 102
    group.end_transaction(8, committed=True)
    assert state_of(group).offsets_bytes == 2 * 102
    group.end_transaction(9, committed=True)
    assert state_of(group).offsets_bytes == 102


def test_the_size_of_other_metadata_is_counted_when_it_is_committed() -> None:
    group = GroupHarness()
    group.commit(offsets={T0: 1}, metadata="x" * 50)
    group.commit_in_transaction(7, {T0: 2}, metadata="y" * 20)
    assert state_of(group).offsets_bytes == 2 * 102 + 70
    group.end_transaction(7, committed=True)
    assert state_of(group).offsets_bytes == 102 + 20


def test_only_a_group_with_pending_offsets_has_a_state_that_older_programs_refuse() -> None:
    group = GroupHarness()
    group.commit(offsets={T0: 1})
    assert [blob[0] for blob in encode_group(state_of(group))] == [3, 3]
    group.commit_in_transaction(7, {T0: 2})
    assert [blob[0] for blob in encode_group(state_of(group))] == [3, 4]
    group.end_transaction(7, committed=False)
    assert [blob[0] for blob in encode_group(state_of(group))] == [3, 3]
    membership, offsets = encode_group(state_of(group))
    with pytest.raises(StateError):
        decode_group(b"\x04" + membership[1:], offsets)


def test_a_heartbeat_decodes_neither_committed_nor_pending_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    group = GroupHarness()
    group.stable("a")
    group.commit_in_transaction(7, {T0: 2})
    monkeypatch.setattr(Offsets, "topics", property(lambda self: pytest.fail("the offsets were decoded")))
    group.heartbeat("a", 1)
    assert state_of_blob(group)[0] == 4


def state_of_blob(group: GroupHarness) -> bytes:
    state = group.group
    assert state is not None
    return encode_group(state)[1]


# ----------------------------------------------------------------------------------------------------------- the event


def test_the_event_as_it_lies_in_the_log() -> None:
    value = (
        b'{"type":"transaction_ended","producer_id":7,"producer_epoch":1,"committed":true,'
        b'"log":{"partition":2,"offset":9},"schema_version":1}'
    )
    position = TransactionLogPosition(partition=2, offset=9)
    event = TransactionEnded(producer_id=7, producer_epoch=1, committed=True, log=position)
    assert encode(event) == value
    decoded = decode_group_event("g", value)
    assert decoded == event
    assert group_event(decoded, 7, 8, 9) == TransactionEndedEvent(7, 8, 9, event)


@pytest.mark.parametrize(
    "fields",
    [
        b'"producer_id":7,"committed":true',
        b'"producer_id":7,"producer_epoch":40000,"committed":true',
        b'"producer_id":7,"producer_epoch":1,"committed":1',
        b'"producer_id":"7","producer_epoch":1,"committed":true',
    ],
)
def test_a_malformed_one_is_a_dead_letter(fields: bytes) -> None:
    with pytest.raises(EventError) as refused:
        decode_group_event("g", b'{"type":"transaction_ended",' + fields + b"}")
    assert refused.value.problem is EventProblem.NOT_AN_ENVELOPE
