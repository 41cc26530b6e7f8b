"""A broker that coordinates groups is killed while they are watched: nothing is invented, and nothing told twice."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.watching.broker_logs.broker_lines import (
    LineEvent,
    MemberDeparted,
    MemberFailed,
    RebalancePrepared,
)
from group_coordinator.watching.broker_logs.broker_log import BrokerLog
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.observed.evidence import ALL
from group_coordinator.watching.observed.offsets_log import OFFSETS_TOPIC, LogRecord, read_raw
from group_coordinator.watching.watch.offsets_topic import OffsetsTopicReader
from group_coordinator.watching.watch.source import TopicRefusedError, WatchSource
from schemas.group_states import GroupState
from schemas.history import AssignmentReceived, History, MemberExpired, MemberLeft, RebalanceStarted
from schemas.java_hash import group_partition
from schemas.observed_history import CoordinatorChanged, GenerationsNotRecorded, MemberGone
from tests.waiting import wait_until
from tests.watching.watch.live import owned
from tests.watching.watch.three_brokers import OFFSETS_PARTITIONS, three_brokers

pytestmark = pytest.mark.kafka

TOPIC = "orders"
GROUPS = [f"group-{number}" for number in range(6)]
TIMEOUT_S = 120.0


class Members:
    """Two members of each group, polled by a thread."""

    def __init__(self, servers: str) -> None:
        self._of = {group_id: [_member(servers, group_id) for _ in range(2)] for group_id in GROUPS}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def _poll(self) -> None:
        while not self._stopping.wait(0.05):
            with self._lock:
                for members in self._of.values():
                    for member in members:
                        member.poll(0)

    def leave(self) -> None:
        """Let one member of each group leave."""
        with self._lock:
            for members in self._of.values():
                members.pop().close()

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        for members in self._of.values():
            for member in members:
                member.close()


def _member(servers: str, group_id: str) -> Consumer:
    member = Consumer(
        {"bootstrap.servers": servers, "group.id": group_id, "enable.auto.commit": False, "log_level": 0}
    )
    member.subscribe([TOPIC])
    return member


@contextmanager
def watched(servers: str, brokers: dict[int, EmbeddedKafka]) -> Iterator[tuple[WatchSource, Index]]:
    index = Index()
    logs = [str(broker.log_file) for broker in brokers.values()]
    source = WatchSource({"bootstrap.servers": servers}, logs, follow=True, bounds=ALL)
    wait_until(lambda: is_started(source, index), TIMEOUT_S)
    try:
        yield source, index
    finally:
        source.stop()


def is_started(source: WatchSource, index: Index) -> bool:
    """False: the broker that was asked has not heard of the offsets topic yet."""
    try:
        source.start(index)
    except TopicRefusedError:
        return False
    return True


def test_a_coordinator_is_killed(kafka_jars: Path, tmp_path: Path) -> None:
    with three_brokers(tmp_path) as brokers:
        servers = ",".join(broker.bootstrap_servers for broker in brokers.values())
        admin = AdminClient({"bootstrap.servers": servers, "log_level": "0"})
        admin.create_topics([NewTopic(TOPIC, 4, 3)])[TOPIC].result(30)
        members = Members(servers)
        try:
            wait_until(lambda: coordinators(admin), TIMEOUT_S)
            with watched(servers, brokers) as (source, index):
                wait_until(lambda: all(is_shared_by_two(index, group_id) for group_id in GROUPS), TIMEOUT_S)
                before = coordinators(admin)
                killed = next(number for number in (2, 3) if number in before.values())
                brokers[killed].kill()
                moved = [group_id for group_id in GROUPS if before[group_id] == killed]
                wait_until(lambda: killed not in (coordinators(admin) or before).values(), TIMEOUT_S)
                wait_until(lambda: all(has_moved(index, group_id) for group_id in moved), TIMEOUT_S)
                left_in = {group_id: generation(index, group_id) for group_id in GROUPS}
                members.leave()
                wait_until(lambda: all(members_of(index, group_id) == 1 for group_id in GROUPS), TIMEOUT_S)
                brokers[killed].start()
                wait_until(lambda: all(settled(index, group_id, left_in[group_id]) for group_id in GROUPS), TIMEOUT_S)
                history = [record for of_group in source.histories() for record in of_group.records]
            require_truth(history, servers, brokers, moved)
        finally:
            members.close()


def coordinators(admin: AdminClient) -> dict[str, int]:
    """Return the broker of each group: it leads the group's partition. Empty while a partition has no leader, or where
    the broker that was asked is the one that died."""
    try:
        topic = admin.list_topics(timeout=5).topics.get(OFFSETS_TOPIC)
    except KafkaException:
        return {}
    leaders = {} if topic is None else {number: partition.leader for number, partition in topic.partitions.items()}
    if len(leaders) < OFFSETS_PARTITIONS or min(leaders.values()) < 0:
        return {}
    return {group_id: leaders[group_partition(group_id, OFFSETS_PARTITIONS)] for group_id in GROUPS}


def is_shared_by_two(index: Index, group_id: str) -> bool:
    """Whether both members have joined and none joins anew: a rebalance that is under way would die with the broker."""
    facts = index.facts(group_id)
    is_stable = facts is not None and facts.state == GroupState.STABLE
    return is_stable and members_of(index, group_id) == 2 and owned(index, group_id) == 4


def members_of(index: Index, group_id: str) -> int:
    facts = index.facts(group_id)
    return 0 if facts is None else len(facts.members)


def generation(index: Index, group_id: str) -> int:
    facts = index.facts(group_id)
    return 0 if facts is None else facts.generation_id


def settled(index: Index, group_id: str, left_in: int) -> bool:
    """Whether a later generation than the one that a member left has its assignment: the count of partitions with an
    owner stays what it was until then."""
    facts = index.facts(group_id)
    return facts is not None and facts.state == GroupState.STABLE and facts.generation_id > left_in


def has_moved(index: Index, group_id: str) -> bool:
    records = (entry.record for entry in index.feed() if entry.record.group_id == group_id)
    return any(isinstance(record, CoordinatorChanged) for record in records)


def require_truth(
    history: list[History], servers: str, brokers: dict[int, EmbeddedKafka], moved: list[str]
) -> None:
    """What is told is what brokers wrote, each once: a client whose coordinator is away may fail to say that it
    leaves, and then its session ends."""
    events = lines(brokers)
    prepared = Counter(line_key(event) for event in events if isinstance(event, RebalancePrepared))
    started = [record for record in history if isinstance(record, RebalanceStarted)]
    assert Counter((record.group_id, record.reason) for record in started) == prepared
    assignments = [record for record in history if isinstance(record, AssignmentReceived)]
    assigned = Counter((record.group_id, record.generation_id) for record in assignments)
    assert assigned == Counter(dict.fromkeys(generations(servers), 1))
    changes = [record for record in history if isinstance(record, CoordinatorChanged)]
    assert {record.group_id for record in changes if record.seq > 1} >= set(moved)
    left_members, expired = members_told(history, MemberLeft), members_told(history, MemberExpired)
    assert left_members == members_in(events, MemberDeparted)
    assert expired == members_in(events, MemberFailed)
    assert Counter(group_id for group_id, _ in left_members + expired) == Counter(GROUPS)
    assert [record for record in history if isinstance(record, (MemberGone, GenerationsNotRecorded))] == []


def members_told(history: list[History], kind: type[MemberLeft | MemberExpired]) -> list[tuple[str, str]]:
    """Group and member of each of a kind, sorted."""
    return sorted((record.group_id, record.member.member_id) for record in history if isinstance(record, kind))


def members_in(events: list[LineEvent], kind: type[MemberDeparted | MemberFailed]) -> list[tuple[str, str]]:
    """Group and member of each of a kind, sorted."""
    return sorted((event.group_id, event.member_id) for event in events if isinstance(event, kind))


def lines(brokers: dict[int, EmbeddedKafka]) -> list[LineEvent]:
    """Return what brokers wrote of groups."""
    log = BrokerLog(UTC)
    for broker in brokers.values():
        log.read_file(broker.log_file)
    return [line.event for line in log.lines if isinstance(line.event, LineEvent)]


def line_key(event: RebalancePrepared) -> tuple[str, str]:
    return event.group_id, event.reason


def generations(servers: str) -> set[tuple[str, int]]:
    """Return the generations with members of all groups, as the topic has them."""
    with OffsetsTopicReader({"bootstrap.servers": servers}) as reader:
        records = [read_raw(partition, raw) for partition, raw in reader.read(reader.bounds())]
    values = [(record.group_id, record.value) for record in records if isinstance(record, LogRecord) and record.value]
    return {(group_id, int(str(value["generation"]))) for group_id, value in values if value["members"]}
