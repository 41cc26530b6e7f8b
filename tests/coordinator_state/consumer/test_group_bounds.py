"""What the members of a consumer group can make grow has a bound in bytes: `group_max_bytes`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.consumer.group import ConsumerGroup, ResolvedRegex
from coordinator_state.consumer.member import ConsumerMember
from schemas.consumer_group_messages import LEAVE_EPOCH, ConsumerGroupHeartbeatResponse
from schemas.error_codes import ErrorCode
from schemas.group_metadata_events import RegexesResolved
from schemas.history import RequestRefused
from tests.coordinator_state.consumer.harness import FOO, ConsumerHarness, topics
from tests.coordinator_state.harness import of_type, subscription

FULL = ErrorCode.GROUP_MAX_SIZE_REACHED
BOUND = 4_000


@pytest.fixture
def group() -> ConsumerHarness:
    return ConsumerHarness(group_max_bytes=BOUND, group_consumer_assignment_interval_ms=0)


def counted(group: ConsumerHarness) -> int:
    return group.body.members_bytes


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from(["member", "gone", "target", "no target", "regex", "no regex"]),
            st.integers(0, 5),
        )
    )
)
def test_what_is_kept_is_what_is_there(steps: list[tuple[str, str, int]]) -> None:
    group = ConsumerGroup()
    assert group.members_bytes == 0
    for member_id, what, size in steps:
        if what == "member":
            owned = {FOO: dict.fromkeys(range(size), 1)} if size else {}
            instance_id = f"instance-{size}" if size % 2 else None
            group.put_member(
                ConsumerMember(member_id, assigned=owned, client_id="c" * size, instance_id=instance_id)
            )
        elif what == "gone":
            group.remove_member(member_id)
        elif what == "target":
            group.put_target(member_id, ((FOO, tuple(range(size))),))
        elif what == "no target":
            group.remove_target(member_id)
        else:
            topics = tuple(f"topic-{number}" for number in range(size))
            group.put_regex(member_id, ResolvedRegex(topics, 1, 1) if what == "regex" else None)
        assert group.members_bytes == msgspec.structs.replace(group).members_bytes


@pytest.mark.parametrize(
    "large",
    [
        {"subscribed_topic_names": tuple(f"topic-{number:0100}" for number in range(40))},
        {"subscribed_topic_regex": "x" * BOUND},
        {"rack_id": "r" * BOUND},
        {"instance_id": "i" * BOUND},
        {"rack_id": "\N{SNOWMAN}" * (BOUND // 3)},
    ],
    ids=["names", "expression", "rack", "instance", "bytes not characters"],
)
def test_a_member_that_makes_the_group_too_large_is_refused(group: ConsumerHarness, large: dict[str, Any]) -> None:
    group.joins("a", "foo")
    before = counted(group)
    joins: dict[str, Any] = {"subscribed_topic_names": ("foo",), "rebalance_timeout_ms": 60_000, "topic_partitions": ()}
    outputs = group.beat("b", 0, **(joins | large))
    assert group.heard(outputs).error_code == FULL
    (refused,) = of_type(outputs, RequestRefused)
    assert refused.rule == "group_is_too_large"
    assert set(group.body.members) == {"a"}
    assert counted(group) == before


def test_instance_ids_that_a_member_has_had_count(group: ConsumerHarness) -> None:
    """Each stays its own, as in Kafka, so a member that takes ever new ones makes the group grow."""
    answers = [group.joins("a", "foo", instance_id=f"instance-{number}").error_code for number in range(400)]
    assert set(answers) == {ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR}
    assert len(group.body.static_members) < 400
    assert group.joins("a", "foo").error_code is ErrorCode.NONE
    assert group.joins("b", "foo").error_code is FULL


def test_a_member_cannot_grow_beyond_it_but_shrink(group: ConsumerHarness) -> None:
    epoch = group.joins("a", *(f"topic-{number:0100}" for number in range(30))).member_epoch
    names = tuple(f"topic-{number:0100}" for number in range(60))
    refused = group.told("a", epoch, subscribed_topic_names=names)
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.told("a", epoch).error_code == ErrorCode.NONE
    assert group.told("a", epoch, subscribed_topic_names=("foo",)).error_code == ErrorCode.NONE
    assert counted(group) < BOUND // 10


def test_a_classic_member_of_a_consumer_group_is_refused(group: ConsumerHarness) -> None:
    group.joins("a", "foo")
    large = {"range": subscription(*(f"topic-{number:0100}" for number in range(40)))}
    given_out = group.answer(group.join("", protocols=large)).member_id
    assert group.answer(group.join(given_out, protocols=large)).error_code == FULL
    assert set(group.body.members) == {"a"}


def test_a_target_that_is_too_large_is_not_taken(group: ConsumerHarness) -> None:
    epoch = group.joins("a", "foo").member_epoch
    group.metadata = topics(version=2, foo=BOUND)
    refused = group.told("a", epoch)
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.joins("b", "foo").error_code == FULL
    assert set(group.body.members) == {"a"}
    group.metadata = topics(version=3, foo=8)
    assert group.told("a", epoch).error_code == ErrorCode.NONE
    assert partitions_of(group.told("a", epoch + 1, subscribed_topic_names=("foo",), topic_partitions=(),
                                    rebalance_timeout_ms=60_000)) == 8  # fmt: skip


def partitions_of(answer: ConsumerGroupHeartbeatResponse) -> int:
    assert answer.assignment is not None
    return sum(len(topic.partitions) for topic in answer.assignment.topic_partitions)


def test_who_leaves_makes_room(group: ConsumerHarness) -> None:
    names = tuple(f"topic-{number:0100}" for number in range(20))
    assert group.joins("a", *names).error_code == ErrorCode.NONE
    assert group.joins("b", *names).error_code == FULL
    group.beat("a", LEAVE_EPOCH)
    assert counted(group) == 0
    assert group.joins("b", *names).error_code == ErrorCode.NONE


def test_an_upgrade_counts_who_is_there(group: ConsumerHarness) -> None:
    group.stable("m", protocols={"range": subscription("foo")})
    group.joins("a", "foo")
    assert set(group.body.members) == {"m", "a"}
    assert counted(group) > 0


def test_what_expressions_match_counts_too(group: ConsumerHarness) -> None:
    """What would be too much is kept out, and history says so; the expression stands for what it stood for."""

    def refused(version: int, *topics: str) -> list[RequestRefused]:
        result = RegexesResolved(version=version, resolved={"topic-.*": topics}, began_ms=version)
        return of_type(group.tell(result), RequestRefused)

    group.joins("A", subscribed_topic_regex="topic-.*")
    assert refused(1, "topic-1", "topic-2") == []
    size = counted(group)
    (record,) = refused(2, *(f"topic-{number}" for number in range(1_000)))
    assert (record.api, record.rule, record.error_code) == ("regexes_resolved", "group_is_too_large", FULL)
    assert group.body.resolved_regexes["topic-.*"].topics == ("topic-1", "topic-2")
    assert counted(group) == size
    assert refused(3, "topic-1") == []
    assert counted(group) < size


def partitions_known(group: ConsumerHarness) -> int:
    state = group.group
    assert state is not None
    assert state.topics is not None
    return state.topics.topics["foo"].partition_count


def test_topics_have_a_bound_in_bytes_of_their_own() -> None:
    """What would be too much is kept out, and history says so; the group keeps what it has, and goes on."""
    group = ConsumerHarness(group_topics_max_bytes=1_000)
    group.joins("A", "foo")
    (refused,) = of_type(group.tell(topics(2, foo=1_000)), RequestRefused)
    assert (refused.api, refused.rule, refused.error_code) == ("topic_metadata", "topics_too_large", 81)
    assert partitions_known(group) == 4
    assert of_type(group.tell(topics(3, foo=8)), RequestRefused) == []
    assert partitions_known(group) == 8


def test_what_a_request_brings_along_counts_too() -> None:
    group = ConsumerHarness(group_topics_max_bytes=1_000)
    group.metadata = topics(2, foo=1_000)
    outputs = group.beat("A", 0, subscribed_topic_names=("foo",), rebalance_timeout_ms=60_000, topic_partitions=())
    assert [record.rule for record in of_type(outputs, RequestRefused)] == ["topics_too_large"]
    assert group.heard(outputs).error_code is ErrorCode.NONE, "it is a member, of a topic that nobody has told of"
    group.metadata = topics(3, foo=4)
    group.told("A", 1, subscribed_topic_names=("foo",))
    assert partitions_known(group) == 4


def test_a_group_beyond_the_bound_takes_in_what_makes_it_no_larger() -> None:
    group = ConsumerHarness(group_topics_max_bytes=2_000)
    group.metadata = topics(1, foo=1_500)
    group.joins("A", "foo")
    group.config = replace(group.config, group_topics_max_bytes=1_000)
    assert of_type(group.tell(topics(2, foo=1_501)), RequestRefused)
    assert of_type(group.tell(topics(3, foo=1_400)), RequestRefused) == []
    assert partitions_known(group) == 1_400
