"""Topics that are gone take their committed offsets with them (Kafka: `onPartitionsDeleted`)."""

import pytest
from msgspec.json import encode

from coordinator_state import (
    AssignmentChange,
    LogRecord,
    Output,
    TopicsDeletedEvent,
    group_event,
)
from schemas.events import (
    DeletedTopic,
    EventError,
    EventProblem,
    TopicsDeleted,
    decode_group_event,
    decode_request_event,
)
from schemas.history import GroupDead, OffsetsCommitted, OffsetsDeleted
from schemas.records import GroupMetadataKey, OffsetCommitKey, decode_key
from tests.coordinator_state.harness import MINUTE_MS, GroupHarness, of_type

OLD, NEW, OTHER = (f"00000000-0000-0000-0000-00000000000{number}" for number in (1, 2, 3))


def stored(group: GroupHarness) -> dict[tuple[str, int], int]:
    state = group.group
    return (
        {} if state is None else {(topic, partition): committed.offset for topic, partition, committed in state.offsets}
    )


def tombstones(outputs: list[Output]) -> list[object]:
    return [decode_key(output.key) for output in of_type(outputs, LogRecord) if output.value is None]


def test_offsets_of_the_deleted_topic_go_whether_stored_with_its_id_or_without_one() -> None:
    group = GroupHarness()
    group.commit(offsets={("t", 0): 5, ("t", 2): 7, ("u", 0): 9}, topic_ids={"t": OLD, "u": OTHER})
    group.commit(offsets={("t", 1): 6})

    outputs = group.delete_topics(("t", OLD))

    assert stored(group) == {("u", 0): 9}
    assert tombstones(outputs) == [OffsetCommitKey("g", "t", partition) for partition in (0, 1, 2)]
    (record,) = of_type(outputs, OffsetsDeleted)
    assert [(offset.topic, offset.partition, offset.offset, offset.previous_offset) for offset in record.offsets] == [
        ("t", 0, None, 5),
        ("t", 1, None, 6),
        ("t", 2, None, 7),
    ]
    assert (record.cause.kind, record.cause.offset, record.cause.api, record.caused_by) == (
        "topics_deleted",
        group.offset,
        None,
        None,
    )
    assert [output.seq for output in outputs] == list(range(outputs[0].seq, outputs[0].seq + len(outputs))), (
        "without gaps"
    )


def test_offsets_of_a_topic_that_was_made_again_stay() -> None:
    group = GroupHarness()
    group.commit(offsets={("t", 0): 50, ("t", 1): 50}, topic_ids={"t": OLD})
    group.commit(offsets={("t", 1): 3}, topic_ids={"t": NEW})
    group.delete_topics(("t", OLD))
    assert stored(group) == {("t", 1): 3}


def test_without_an_id_only_what_was_stored_without_one_goes() -> None:
    group = GroupHarness()
    group.commit(offsets={("t", 0): 1}, topic_ids={"t": OLD})
    group.commit(offsets={("t", 1): 2})
    group.delete_topics(("t", None))
    assert stored(group) == {("t", 0): 1}


def test_several_ids_of_one_name_and_several_topics_in_one_event() -> None:
    group = GroupHarness()
    group.commit(offsets={("t", 0): 1, ("v", 0): 4, ("a", 3): 5}, topic_ids={"t": OLD, "v": OTHER})
    group.commit(offsets={("t", 1): 2}, topic_ids={"t": NEW})
    outputs = group.delete_topics(("v", OTHER), ("t", OLD), ("t", NEW), ("a", None), ("unheard of", OLD))
    assert stored(group) == {}
    assert tombstones(outputs) == [
        OffsetCommitKey("g", topic, number) for topic, number in (("a", 3), ("t", 0), ("t", 1), ("v", 0))
    ]


@pytest.mark.parametrize("topics", [(), (("u", OLD),), (("t", OTHER),)])
def test_what_the_group_has_no_offsets_of_leaves_it_as_it_is(topics: tuple[tuple[str, str], ...]) -> None:
    group = GroupHarness()
    group.commit(offsets={("t", 0): 1}, topic_ids={"t": OLD})
    before = group.group
    assert group.delete_topics(*topics) == []
    assert group.group is not None
    assert before is not None
    assert (group.group.seq, stored(group)) == (before.seq, {("t", 0): 1})


def test_told_twice_it_happens_once() -> None:
    group = GroupHarness()
    group.commit(offsets={("t", 0): 1})
    assert group.delete_topics(("t", OLD))
    assert group.delete_topics(("t", OLD)) == []


def test_a_group_that_does_not_exist_does_not_come_to_be() -> None:
    group = GroupHarness()
    assert group.delete_topics(("t", OLD)) == []
    assert group.group is None


def test_offsets_go_although_the_group_is_subscribed_and_its_members_stay() -> None:
    group = GroupHarness()
    group.stable("a", "b")
    group.commit("a", 2, {("t", 0): 10})
    outputs = group.delete_topics(("t", OLD))
    assert stored(group) == {}
    assert group.state == "Stable"
    assert not of_type(outputs, AssignmentChange), "nobody's assignment changes"
    committed = of_type(group.commit("a", 2, {("t", 0): 3}), OffsetsCommitted)
    assert committed[0].offsets[0].previous_offset is None, "a commit afterwards begins anew"


def test_a_group_that_has_nothing_left_goes_at_the_next_retention_check() -> None:
    group = GroupHarness(offsets_retention_check_interval_ms=MINUTE_MS)
    group.commit(offsets={("t", 0): 1})
    group.delete_topics(("t", OLD))
    assert group.state == "Empty"
    outputs = group.sleep(MINUTE_MS)
    assert group.group is None
    assert tombstones(outputs) == [GroupMetadataKey("g")]
    assert of_type(outputs, GroupDead)


def test_timers_that_were_due_before_it_fire_first() -> None:
    group = GroupHarness(offsets_retention_minutes=1, offsets_retention_check_interval_ms=MINUTE_MS)
    group.commit(offsets={("t", 0): 1})
    group.now_ms += 3 * MINUTE_MS
    outputs = group.delete_topics(("t", OLD))
    assert group.group is None
    assert not of_type(outputs, OffsetsDeleted), "they had expired"


def test_many_offsets_are_told_in_several_records() -> None:
    group = GroupHarness()
    group.commit(offsets={("t", partition): 1 for partition in range(2_500)})
    outputs = group.delete_topics(("t", OLD))
    assert [len(record.offsets) for record in of_type(outputs, OffsetsDeleted)] == [1_000, 1_000, 500]


def test_the_event_as_it_lies_in_the_log() -> None:
    value = b'{"type":"topics_deleted","topics":[{"name":"t","topic_id":"%s"},{"name":"u","topic_id":null}],"schema_version":1}'
    value %= OLD.encode()
    event = TopicsDeleted(topics=(DeletedTopic(name="t", topic_id=OLD), DeletedTopic(name="u")))
    assert encode(event) == value
    decoded = decode_group_event("g", value)
    assert decoded == event
    assert group_event(decoded, 7, 8, 9) == TopicsDeletedEvent(7, 8, 9, event.topics)
    with pytest.raises(EventError, match="no request"):
        decode_request_event("g", value)


@pytest.mark.parametrize(
    "value",
    [
        b'{"type":"topics_deleted"}',
        b'{"type":"topics_deleted","topics":null}',
        b'{"type":"topics_deleted","topics":[{"topic_id":null}]}',
        b'{"type":"topics_deleted","topics":[{"name":"t","topic_id":"x"}]}',
        b'{"type":"topics_deleted","topics":[{"name":7}]}',
        b'{"type":"topics_deleted","schema_version":2,"topics":[]}',
    ],
)
def test_a_malformed_one_is_a_dead_letter(value: bytes) -> None:
    with pytest.raises(EventError) as refused:
        decode_group_event("g", value)
    assert refused.value.problem is EventProblem.NOT_AN_ENVELOPE


def test_a_batching_does_not_show() -> None:
    """The same steps in one batch, and packed in between, as the harness does."""
    apart = GroupHarness()
    apart.commit(offsets={("t", 0): 1, ("u", 1): 2}, topic_ids={"t": OLD, "u": OLD})
    apart.delete_topics(("t", OLD))
    apart.commit(offsets={("t", 0): 3}, topic_ids={"t": NEW})

    again = GroupHarness(one_batch=True)
    outputs = again.commit(offsets={("t", 0): 1, ("u", 1): 2}, topic_ids={"t": OLD, "u": OLD})
    outputs += again.delete_topics(("t", OLD))
    outputs += again.commit(offsets={("t", 0): 3}, topic_ids={"t": NEW})
    assert outputs == apart.outputs
