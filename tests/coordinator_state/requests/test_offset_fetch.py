"""OffsetFetch: committed offsets, of the partitions that are named or of all."""

import pytest
from msgspec import UNSET

from schemas.error_codes import ErrorCode
from schemas.messages import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from tests.coordinator_state.harness import GroupHarness, subscription


def fetched(group: GroupHarness, *partitions: tuple[str, int]) -> dict[tuple[str, int], int]:
    """Topic and partition -> offset."""
    (answered,) = group.answer(group.fetch(*partitions)).groups
    assert answered.error_code is ErrorCode.NONE
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in answered.topics
        for partition in topic.partitions
    }


def test_named_partitions_are_answered_in_their_order_and_unknown_ones_with_minus_one() -> None:
    group = GroupHarness()
    group.commit(offsets={("t", 0): 5, ("u", 1): 7})
    assert list(fetched(group, ("u", 1), ("u", 0), ("t", 0), ("x", 0)).items()) == [
        (("u", 1), 7),
        (("u", 0), -1),
        (("t", 0), 5),
        (("x", 0), -1),
    ]


def test_without_topics_all_offsets_are_answered() -> None:
    group = GroupHarness()
    group.commit(offsets={("t", 0): 5, ("u", 1): 7})
    assert fetched(group) == {("t", 0): 5, ("u", 1): 7}


def test_a_group_that_does_not_exist_has_no_offsets() -> None:
    group = GroupHarness()
    assert fetched(group) == {}
    assert fetched(group, ("t", 0)) == {("t", 0): -1}
    assert group.state == "none"


def test_metadata_and_leader_epoch_come_with_the_offset() -> None:
    group = GroupHarness()
    group.commit(offsets={("t", 0): 5}, metadata="note")
    (topic,) = group.answer(group.fetch(("t", 0), ("t", 1))).groups[0].topics
    committed, unknown = topic.partitions
    assert (committed.metadata, committed.committed_leader_epoch) == ("note", -1)
    assert (unknown.metadata, unknown.committed_leader_epoch) == ("", -1)


@pytest.mark.parametrize("version", [1, 7, 8, 9])
def test_every_version(version: int) -> None:
    group = GroupHarness()
    group.commit(offsets={("t", 0): 5})
    (answered,) = group.answer(group.fetch(("t", 0), version=version)).groups
    assert answered.topics[0].partitions[0].committed_offset == 5


def test_it_is_answered_in_the_midst_of_a_rebalance() -> None:
    group = GroupHarness()
    group.stable("a", "b")
    group.commit("a", 2, {("t", 0): 5})
    group.join("a", protocols={"range": subscription("t", "u")})
    assert fetched(group) == {("t", 0): 5}
    group.join("b")
    assert fetched(group) == {("t", 0): 5}


def test_who_asks_for_it_is_told_under_which_ids_offsets_are_stored() -> None:
    """A gateway must know whether they are of the topic that has the name now. Others get the answer that they got."""
    group = GroupHarness()
    topic_id = "00000000-0000-0000-0000-000000000001"
    group.commit(offsets={("t", 0): 5}, topic_ids={"t": topic_id})
    group.commit(offsets={("u", 0): 7})
    topics = tuple([OffsetFetchRequestTopic(name=name, partition_indexes=(0, 1)) for name in ("t", "u")])
    for named in (None, topics):
        asked = OffsetFetchRequestGroup(group_id=group.group_id, topics=named)
        request = OffsetFetchRequest(groups=(asked,), tells_committed_ids=True)
        (answered,) = group.answer(group.send("OffsetFetch", request, 9)).groups
        ids = {
            (topic.name, partition.partition_index): partition.committed_topic_id
            for topic in answered.topics
            for partition in topic.partitions
            if partition.committed_topic_id is not UNSET
        }
        assert ids == {("t", 0): topic_id}
        request = OffsetFetchRequest(groups=(asked,))
        (answered,) = group.answer(group.send("OffsetFetch", request, 9)).groups
        assert {each.committed_topic_id for topic in answered.topics for each in topic.partitions} == {UNSET}
