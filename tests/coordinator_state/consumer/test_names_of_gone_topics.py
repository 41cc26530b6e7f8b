"""A topic that is gone keeps its name in history and on the assignments topic, for as long as members have it."""

from __future__ import annotations

from msgspec.structs import replace

from coordinator_state import AssignmentChange, Output
from coordinator_state.topics_image import TopicsImage
from schemas.consumer_group_history import MemberReconciled
from schemas.group_metadata_events import DescribedTopic, TopicMetadata
from schemas.history import AssignedTopic
from tests.coordinator_state.consumer.harness import FOO, ConsumerHarness, owned, topics
from tests.coordinator_state.harness import of_type

FOO_AGAIN = "00000000-0000-0003-0000-000000000003"
GONE = replace(topics(2), absent=("foo",))


def foo_again(partitions: int) -> TopicMetadata:
    described = DescribedTopic(name="foo", topic_id=FOO_AGAIN, partitions=((),) * partitions)
    return TopicMetadata(version=3, topics=(described,), new_topics_version=3)


def with_foo() -> ConsumerHarness:
    group = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    group.joins("A", "foo")
    group.told("A", 2, topic_partitions=owned(FOO, 0, 1, 2, 3))
    return group


def tell(group: ConsumerHarness, news: TopicMetadata) -> None:
    group.metadata = news
    group.tell(news)


def image_of(group: ConsumerHarness) -> TopicsImage:
    assert group.group is not None
    assert group.group.topics is not None
    return group.group.topics


def published(outputs: list[Output]) -> tuple[AssignedTopic, ...]:
    snapshot = of_type(outputs, AssignmentChange)[-1].snapshot
    assert snapshot is not None
    partitions = snapshot.members[0].partitions
    assert partitions is not None
    return partitions


def test_partitions_of_a_deleted_topic_are_given_up_by_its_name() -> None:
    group = with_foo()
    tell(group, GONE)
    outputs = group.beat("A", 2)
    [told] = of_type(outputs, MemberReconciled)
    assert told.pending_revocation == (AssignedTopic(topic="foo", partitions=(0, 1, 2, 3)),)
    assert published(outputs) == told.pending_revocation


def test_a_topic_that_is_made_again_has_its_name_beside_the_old_one() -> None:
    """Its partitions are given up under the old id, and taken under the new one."""
    group = with_foo()
    tell(group, foo_again(6))
    outputs = group.beat("A", 2)
    [told] = of_type(outputs, MemberReconciled)
    assert told.pending_revocation == (AssignedTopic(topic="foo", partitions=(0, 1, 2, 3)),)
    assert told.assigned == ()
    [told] = of_type(group.beat("A", 2, topic_partitions=()), MemberReconciled)
    assert told.assigned == (AssignedTopic(topic="foo", partitions=(0, 1, 2, 3, 4, 5)),)
    assert told.pending_revocation == ()


def test_a_name_is_kept_for_as_long_as_somebody_has_the_topic() -> None:
    group = with_foo()
    tell(group, GONE)
    assert image_of(group).former == {FOO: "foo"}
    group.beat("A", 2)
    tell(group, foo_again(6))
    assert image_of(group).former == {FOO: "foo"}
    group.beat("A", 2, topic_partitions=())
    tell(group, replace(topics(4), absent=("other",)))
    assert image_of(group).former == {}


def test_a_name_of_a_topic_that_nobody_has_is_not_kept() -> None:
    group = with_foo()
    tell(group, topics(2, bar=1))
    tell(group, replace(topics(3), absent=("bar",)))
    assert image_of(group).former == {}


def test_news_never_become_too_large_by_the_names_of_what_is_gone() -> None:
    group = ConsumerHarness(group_consumer_assignment_interval_ms=0, group_topics_max_bytes=130)
    group.metadata = topics(1, foo=1)
    group.joins("A", "foo")
    tell(group, GONE)
    assert image_of(group).absent == {"foo": 2}
    assert image_of(group).size_bytes <= 130
