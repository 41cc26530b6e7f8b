"""The members' shell on a real broker, with the coordinator's core at the other end of the topics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from group_coordinator.coordinating.members.effects import OffsetAndMetadata
from group_coordinator.coordinating.members.host import HostError, MemberHost
from group_coordinator.coordinating.members.kafka_member import CommitError, Member, MemberError, NoOffsetError
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.consumer_protocol import TopicPartition
from schemas.error_codes import ErrorCode
from schemas.history import MemberExpired, MemberLeft
from streaming.topics import TopicSettings, ensure_topics
from tests.coordinating.members.polling import poll_until
from tests.coordinating.members.table_coordinator import TableCoordinator
from tests.waiting import wait_until


class Place:
    """A broker with a coordinator, one data topic, and the prefix under which they are."""

    def __init__(self, servers: str, admin: AdminClient, prefix: str, coordinator: TableCoordinator) -> None:
        self.servers = servers
        self.admin = admin
        self.prefix = prefix
        self.topic = f"{prefix}.orders"
        self.coordinator = coordinator

    def member(self, **settings: Any) -> Member:
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 300} | settings
        return Member(self.servers, "readers", [self.topic], prefix=self.prefix, **options)

    def produce(self, count: int, first: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        for number in range(first, first + count):
            producer.produce(self.topic, partition=number % 4, value=str(number).encode())
        producer.flush()

    def committed(self) -> dict[int, int]:
        group = self.coordinator.coordinator.groups["readers"]
        return {partition: topic.offset for partition, topic in group.offsets.topics.get(self.topic, {}).items()}


@pytest.fixture
def place(kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str) -> Iterator[Place]:
    report = ensure_topics(admin, TopicSettings(topic_prefix=topic_prefix))
    admin.create_topics([NewTopic(f"{topic_prefix}.orders", 4, 1)])[f"{topic_prefix}.orders"].result()
    with TableCoordinator(kafka.bootstrap_servers, report.topics) as coordinator:
        yield Place(kafka.bootstrap_servers, admin, topic_prefix, coordinator)


def test_partitions_that_are_added_to_the_events_end_a_host_and_none_begins(
    place: Place, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group's shard is the hash of its id over them: nobody would find the others any more."""
    events = f"{place.prefix}.events"
    with MemberHost(place.servers, prefix=place.prefix) as host:
        member = Member(host, "readers", [place.topic], session_timeout_ms=6_000, heartbeat_interval_ms=300)
        poll_until([member], lambda: bool(member.assignment))
        place.admin.create_partitions([NewPartitions(events, 2)])[events].result(20)
        place.coordinator.paused = True  # who does not hear the coordinator looks where it is
        with pytest.raises(HostError, match="had 1 partition and has 2 partitions now"):
            host.wait_for(lambda: False, 20)
    monkeypatch.setattr("group_coordinator.coordinating.members.host.START_TIMEOUT_S", 1.0)
    with pytest.raises(HostError, match="Nobody coordinates partition 1"):
        MemberHost(kafka.bootstrap_servers, prefix=place.prefix)


def test_five_lines_read_a_topic_and_the_next_run_goes_on(place: Place) -> None:
    place.produce(100)
    values = []
    with place.member() as member:
        for record in member:
            values.append(int(record.value or b"-1"))
            if len(values) == 60:
                break
    with place.member() as member:
        for record in member:
            values.append(int(record.value or b"-1"))
            if len(values) == 100:
                break
    assert sorted(values) == list(range(100)), "each record once"
    assert sum(place.committed().values()) == 100
    assert len(place.coordinator.history(MemberLeft)) == 2


def test_a_record_whose_processing_failed_is_read_again(place: Place) -> None:
    place.produce(10)
    done: list[int] = []

    def handle_until_it_fails(member: Member) -> None:
        for record in member:
            if len(done) == 4:
                raise ZeroDivisionError(record.value)
            done.append(int(record.value or b"-1"))

    with pytest.raises(ZeroDivisionError) as failed, place.member() as member:
        handle_until_it_fails(member)
    with place.member() as member:
        remaining = [int(record.value or b"-1") for record in islice(member, 6)]
    assert sorted(done + remaining) == list(range(10)), "each record once"
    assert int(failed.value.args[0]) in remaining


def test_members_of_one_host_share_the_partitions_and_hand_them_over(place: Place) -> None:
    notes: list[tuple[str, str, int]] = []

    def note(name: str, sign: str) -> Callable[[Member, tuple[TopicPartition, ...]], None]:
        return lambda _, partitions: notes.append((name, sign, len(partitions)))

    with MemberHost(place.servers, prefix=place.prefix) as host:
        settings: dict[str, Any] = {
            "heartbeat_interval_ms": 300, "partition_assignment_strategy": ("cooperative-sticky",),
            "auto_offset_reset": "earliest",
        }  # fmt: skip
        first = Member(host, "readers", [place.topic], on_assign=note("a", "+"), on_revoke=note("a", "-"), **settings)
        place.produce(40)
        values = poll_until([first], lambda: len(first.assignment) == 4)
        second = Member(host, "readers", [place.topic], on_assign=note("b", "+"), on_revoke=note("b", "-"), **settings)
        members = [first, second]
        poll_until(members, lambda: len(first.assignment) == len(second.assignment) == 2, values=values)
        place.produce(40, first=40)
        poll_until(members, lambda: len(values) >= 80, values=values)
        place.produce(4, first=80)  # one in each partition, behind all that could be read twice
        poll_until(members, lambda: len(values) >= 84, values=values)
        assert sorted(map(int, values)) == list(range(84)), "each record once"
        first.close()
        poll_until([second], lambda: len(second.assignment) == 4)
        second.close()
    assert ("a", "+", 4) in notes
    assert ("a", "-", 2) in notes
    assert ("b", "+", 2) in notes
    assert sum(place.committed().values()) == 84


def test_a_manual_commit_is_answered_and_a_refused_one_raises(place: Place) -> None:
    place.produce(8)
    with place.member(enable_auto_commit=False) as member:
        poll_until([member], lambda: len(member.machine.positions) == 4)
        member.commit({TopicPartition(place.topic, 1): OffsetAndMetadata(2, "half")})
        assert place.committed() == {1: 2}
        with pytest.raises(CommitError) as refused:
            member.commit({TopicPartition(place.topic, 1): OffsetAndMetadata(2, "x" * 5_000)})
        assert refused.value.error_code is ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_offsets_can_be_committed_while_partitions_are_revoked(place: Place) -> None:
    def save(member: Member, partitions: tuple[TopicPartition, ...]) -> None:
        member.commit(dict.fromkeys(partitions, 7))

    member = place.member(enable_auto_commit=False, on_revoke=save)
    poll_until([member], lambda: len(member.assignment) == 4)
    member.close()
    assert place.committed() == {0: 7, 1: 7, 2: 7, 3: 7}


def test_a_member_heartbeats_while_its_program_works(place: Place) -> None:
    with place.member(session_timeout_ms=6_000) as member:
        poll_until([member], lambda: len(member.assignment) == 4)
        heartbeats = len(place.coordinator.answers("Heartbeat"))
        heartbeats_per_session = 6_000 // 300
        wait_until(lambda: len(place.coordinator.answers("Heartbeat")) > heartbeats + heartbeats_per_session)
        assert not place.coordinator.history(MemberExpired)
        generation_id = member.machine.generation_id
        member.poll(0)
        assert member.machine.generation_id == generation_id


def test_a_member_that_dies_is_replaced_after_its_session(place: Place) -> None:
    host = MemberHost(place.servers, prefix=place.prefix)
    dying = Member(host, "readers", [place.topic], session_timeout_ms=6_000, heartbeat_interval_ms=300)
    poll_until([dying], lambda: len(dying.assignment) == 4)
    host.close()
    with pytest.raises(HostError):
        dying.poll(0)
    with place.member() as heir:
        poll_until([heir], lambda: len(heir.assignment) == 4)
    assert len(place.coordinator.history(MemberExpired)) == 1


def test_new_partitions_are_noticed(place: Place) -> None:
    with place.member(metadata_max_age_ms=500) as member:
        poll_until([member], lambda: len(member.assignment) == 4)
        place.admin.create_partitions([NewPartitions(place.topic, 6)])[place.topic].result()
        poll_until([member], lambda: len(member.assignment) == 6)


def test_latest_begins_at_the_end_and_none_says_so(place: Place) -> None:
    place.produce(20)
    with place.member(auto_offset_reset="latest") as member:
        poll_until([member], lambda: len(member.machine.positions) == 4)
        place.produce(4, first=20)
        assert sorted(poll_until([member], lambda: sum(member.machine.positions.values()) >= 24)) == [
            "20",
            "21",
            "22",
            "23",
        ]
    with (
        Member(place.servers, "others", [place.topic], prefix=place.prefix, auto_offset_reset="none") as without_reset,
        pytest.raises(NoOffsetError),
    ):
        poll_until([without_reset], lambda: False, limit_s=20)


def test_a_twin_ends_the_first_with_an_error(place: Place) -> None:
    with place.member(group_instance_id="same") as first:
        poll_until([first], lambda: len(first.assignment) == 4)
        with place.member(group_instance_id="same") as second:
            with pytest.raises(MemberError) as fenced:
                poll_until([second, first], lambda: False, limit_s=20)
            assert fenced.value.error_code is ErrorCode.FENCED_INSTANCE_ID


def test_a_coordinator_that_pauses_costs_nobody_the_membership(place: Place) -> None:
    with place.member(session_timeout_ms=6_000) as member:
        poll_until([member], lambda: len(member.assignment) == 4)
        generation_id = member.machine.generation_id
        place.coordinator.paused = True
        until = time.monotonic() + 4  # most of a session: time alone can tell
        poll_until([member], lambda: time.monotonic() > until)
        heartbeats = len(place.coordinator.answers("Heartbeat"))
        place.coordinator.paused = False
        poll_until([member], lambda: len(place.coordinator.answers("Heartbeat")) > heartbeats + 5)
        assert member.machine.generation_id == generation_id


def test_a_wrong_prefix_is_told_at_once(kafka: EmbeddedKafka) -> None:
    with pytest.raises(HostError, match=r"no topic nowhere\.events"):
        MemberHost(kafka.bootstrap_servers, prefix="nowhere")
