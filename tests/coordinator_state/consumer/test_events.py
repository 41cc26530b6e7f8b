"""The events that tell a consumer group of topics, expressions and its own settings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator_state import LogRecord
from schemas.consumer_group_history import GroupEpochBumped, RegexResolved
from schemas.consumer_group_messages import ConsumerGroupAssignment
from schemas.events import decode_group_event, encode_json
from schemas.group_metadata_events import DescribedTopic, GroupConfiguration, RegexesResolved, TopicMetadata
from tests.coordinator_state.consumer.harness import ConsumerHarness, topics
from tests.coordinator_state.harness import of_type


def test_a_topic_that_grows_is_felt_at_the_next_heartbeat() -> None:
    group = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    group.joins("A", "foo")
    group.told("A", 2)
    group.metadata = topics(2, foo=6)
    assert of_type(group.tell(group.metadata), LogRecord) == []
    outputs = group.beat("A", 2)
    assert of_type(outputs, GroupEpochBumped)[0].reasons == ("topics_changed",)
    assert group.body.group_epoch == 3
    assert group.tell(topics(1, foo=4)) == []  # an older image changes nothing
    state = group.group
    assert state is not None
    assert state.topics is not None
    assert len(state.topics.topics["foo"].racks) == 6


def test_a_topic_of_others_is_not_felt() -> None:
    group = ConsumerHarness()
    group.joins("A", "foo")
    group.told("A", 2)
    group.metadata = topics(2, foo=4, bar=1)
    group.tell(group.metadata)
    assert group.body.metadata_deadline != (0, 0)
    assert of_type(group.beat("A", 2), LogRecord) == []


def told_of(group: ConsumerHarness) -> tuple[dict[str, int], set[str]]:
    """Topics that exist, with their numbers of partitions, and those that do not."""
    state = group.group
    assert state is not None
    image = state.topics
    assert image is not None
    return {name: topic.partition_count for name, topic in image.topics.items()}, set(image.absent)


def test_a_topic_that_goes_is_felt_at_the_next_heartbeat() -> None:
    group = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    group.joins("A", "foo")
    group.told("A", 2)
    group.metadata = replace(topics(2), absent=("foo",))
    group.tell(group.metadata)
    assert group.told("A", 2).assignment == ConsumerGroupAssignment(topic_partitions=())
    assert group.body.group_epoch == 3


def test_an_event_tells_of_the_topics_that_it_names_and_of_no_others() -> None:
    """A gateway knows what one member subscribes to, and not what the others do."""
    group = ConsumerHarness()
    group.metadata = topics(1, foo=4)
    group.joins("A", "foo", "bar")
    group.metadata = replace(topics(9), absent=("bar",))
    group.joins("B", "bar")
    assert told_of(group) == ({"foo": 4}, {"bar"})


@given(st.permutations([0, 1, 2, 3, 4]))
def test_news_in_any_order_lead_to_the_same(order: list[int]) -> None:
    news = [
        topics(1, foo=4, bar=2),
        topics(2, foo=6),
        replace(topics(3), absent=("foo",)),
        topics(4, foo=1),
        replace(topics(5), absent=("bar",)),
    ]
    group = ConsumerHarness()
    group.joins("A", "foo", "bar")
    for number in order:
        group.tell(news[number])
        group.tell(news[number])
    assert told_of(group) == ({"foo": 1}, {"bar"})


def test_topics_that_nobody_subscribes_to_any_more_are_forgotten() -> None:
    group = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    group.joins("A", "foo")
    for number in range(200):
        group.tell(TopicMetadata(version=number + 2, topics=(), absent=(f"t{number}",)))
    existing, absent = told_of(group)
    assert existing == {"foo": 4}
    assert "t199" in absent
    assert len(absent) < 100


def test_what_is_forgotten_of_topics_does_not_depend_on_batches() -> None:
    """A topic that nobody has any more is forgotten when much is known, also where the group was never unpacked."""
    groups = [ConsumerHarness(), ConsumerHarness(one_batch=True)]
    for group in groups:
        group.metadata = topics(1, foo=4, bar=4)
        group.joins("A", "foo")
        group.sleep(1_000)
        group.told("A", 2, subscribed_topic_names=("bar",))
        group.told("A", 2, topic_partitions=())
        group.tell(TopicMetadata(version=2, topics=(), absent=tuple(f"t{number}" for number in range(80))))
        assert told_of(group)[0] == {"bar": 4}
    assert groups[0].outputs == groups[1].outputs


def test_expressions_are_resolved_by_an_event() -> None:
    group = ConsumerHarness()
    joined = group.joins("A", subscribed_topic_regex="f.*", subscribed_topic_names=None)
    assert joined.member_epoch == 1
    assert group.body.regex_refresh_began_ms == group.now_ms
    group.sleep(50)
    outputs = group.tell(RegexesResolved(version=1, resolved={"f.*": ("foo",)}, began_ms=group.now_ms))
    assert of_type(outputs, RegexResolved)[0].topics == ("foo",)
    assert group.told("A", 1).member_epoch == 2
    assert group.body.subscribed_topics == {"foo"}


@pytest.mark.parametrize("in_events_of", [1, 100, 1_100])
def test_topics_that_are_told_before_the_result_are_there_with_it(in_events_of: int) -> None:
    """The watcher tells of all topics that match before it says which do; one event does not hold very many."""
    group = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    group.joins("A", subscribed_topic_regex="t.*", subscribed_topic_names=None)
    names = [f"t{number}" for number in range(1_100)]
    described = [
        DescribedTopic(name=name, topic_id=f"00000000-0000-0003-0000-{number:012}", partitions=((),))
        for number, name in enumerate(names)
    ]
    for first in range(0, len(names), in_events_of):
        group.tell(TopicMetadata(version=2, topics=tuple(described[first : first + in_events_of])))
    group.tell(RegexesResolved(version=2, resolved={"t.*": tuple(names)}, began_ms=group.now_ms))
    told = group.told("A", 1)
    assert told.assignment is not None
    assert (told.member_epoch, len(told.assignment.topic_partitions)) == (2, len(names))


def test_a_result_that_nobody_waits_for_changes_nothing() -> None:
    group = ConsumerHarness()
    assert group.tell(RegexesResolved(version=1, resolved={"f.*": ("foo",)}, began_ms=1)) == []
    assert group.group is None


def test_settings_belong_to_the_id_and_stay_within_the_bounds() -> None:
    group = ConsumerHarness(group_consumer_min_heartbeat_interval_ms=1_000)
    group.tell(GroupConfiguration(consumer_heartbeat_interval_ms=2_000))
    assert group.state == "Dead"  # there is no group, and the settings are kept
    assert group.joins("A", "foo").heartbeat_interval_ms == 2_000
    group.told("A", -1)
    group.delete()
    assert group.joins("B", "foo").heartbeat_interval_ms == 2_000
    group.tell(GroupConfiguration(consumer_heartbeat_interval_ms=10))
    assert group.told("B", 0, rebalance_timeout_ms=1, subscribed_topic_names=("foo",), topic_partitions=()
                         ).heartbeat_interval_ms == 1_000  # fmt: skip
    group.tell(GroupConfiguration())
    group.told("B", -1)
    group.delete()
    assert group.group is None


def test_the_events_are_read_as_they_are_written() -> None:
    for event in (
        topics(foo=2),
        RegexesResolved(version=1, resolved={"f.*": ("foo",)}, began_ms=5),
        GroupConfiguration(consumer_session_timeout_ms=50_000),
    ):
        assert decode_group_event("g", encode_json(event)) == event
