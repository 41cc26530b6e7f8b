"""OffsetDelete (KIP-496): offsets of topics that no member of the group is subscribed to."""

from coordinator_state import LogRecord
from schemas.error_codes import ErrorCode
from schemas.history import OffsetsDeleted
from tests.coordinator_state.harness import GroupHarness, of_type, subscription


def codes_of(group: GroupHarness, *partitions: tuple[str, int]) -> list[ErrorCode]:
    answer = group.answer(group.delete_offsets(*partitions))
    assert answer.error_code is ErrorCode.NONE
    return [partition.error_code for topic in answer.topics for partition in topic.partitions]


def test_a_deleted_offset_leaves_a_tombstone() -> None:
    group = GroupHarness()
    group.commit(offsets={("t", 0): 5, ("t", 1): 6})
    outputs = group.delete_offsets(("t", 0), ("t", 7))
    assert [record.value for record in of_type(outputs, LogRecord)] == [None]
    (deleted,) = of_type(outputs, OffsetsDeleted)
    assert [(offset.partition, offset.offset, offset.previous_offset) for offset in deleted.offsets] == [(0, None, 5)]


def test_an_offset_that_is_not_there_is_no_error() -> None:
    group = GroupHarness()
    group.commit()
    assert codes_of(group, ("x", 0)) == [ErrorCode.NONE]


def test_topics_that_a_member_is_subscribed_to_keep_their_offsets() -> None:
    group = GroupHarness()
    group.stable("a", protocols={"range": subscription("t", "u")})
    group.commit("a", 1, {("t", 0): 1, ("other", 0): 1})
    assert codes_of(group, ("t", 0), ("u", 0), ("other", 0)) == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
    ]


def test_where_a_subscription_cannot_be_read_no_topic_is_free() -> None:
    group = GroupHarness()
    group.stable("a", protocols={"range": b"unreadable"})
    assert codes_of(group, ("t", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_a_group_of_another_protocol_type_keeps_all_while_it_has_members() -> None:
    group = GroupHarness()
    group.join(new_member_id="w", version=3, protocol_type="connect", protocols={"default": b""})
    assert group.answer(group.delete_offsets(("t", 0))).error_code is ErrorCode.NON_EMPTY_GROUP
    group.leave("w")
    assert codes_of(group, ("t", 0)) == [ErrorCode.NONE]


def test_a_group_that_does_not_exist() -> None:
    group = GroupHarness()
    assert group.answer(group.delete_offsets(("t", 0))).error_code is ErrorCode.GROUP_ID_NOT_FOUND
