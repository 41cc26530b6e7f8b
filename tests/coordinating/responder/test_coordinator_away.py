"""Clients behind a gateway of its own while the coordinator is away and a responder is there: nothing stands still."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.server import Gateway
from group_coordinator.ground.kafka_topics.reader import headers_of, read_topic
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import SESSION_RENEWAL
from schemas.query_progress import WRITER_HEADER
from streaming.config import StreamingConfig
from tests.coordinating.gateway.clients.consumers import ConsumerProcess, consumers_of, share
from tests.coordinating.gateway.commands import Command
from tests.crash.outputs import (
    Outputs,
    answers_of_responders,
    count,
    events_of,
    expected_of,
    has_written,
    require_same,
    written_of,
)
from tests.making_topics import make_topic
from tests.waiting import wait_until

pytestmark = pytest.mark.end_to_end

PARTITIONS = 6
SESSION_MS = 12_000
"""The shortest, too: a pause is half of it."""
TIMEOUT_S = 180.0


class World:
    """A coordinator, a responder and a gateway, each in a process of its own. Each test has its own clients, topic and
    group."""

    def __init__(self, kafka: EmbeddedKafka, prefix: str, directory: Path, stack: ExitStack) -> None:
        self.config = StreamingConfig(
            bootstrap_servers=kafka.bootstrap_servers,
            topic_prefix=prefix,
            checkpoint=str(directory / "checkpoint"),
            responses_partitions=2,
            offsets_partitions=2,
            group_initial_rebalance_delay_ms=0,
            group_min_session_timeout_ms=SESSION_MS,
            responders=True,
        )
        self._directory = directory
        self.answered_commits: dict[str, dict[int, int]] = {}
        """Group -> partition -> the offset that a member has committed last, with an answer."""
        flags = [
            text
            for name in ("bootstrap_servers", "topic_prefix", "checkpoint", "responses_partitions",
                         "offsets_partitions", "group_initial_rebalance_delay_ms", "group_min_session_timeout_ms")
            for text in (f"--{name.replace('_', '-')}", str(getattr(self.config, name)))
        ]  # fmt: skip
        memory = ["--spark", "spark.driver.memory=512m"]
        self.coordinator = Command(
            directory / "run.log", "The coordinator runs", "run", *flags, "--responders", *memory
        )
        self.responder = Command(directory / "responder.log", "shard 0: 0 groups", "responder", *flags, *memory)
        for process in (self.coordinator, self.responder):
            stack.callback(process.kill)
            process.start()
        self.gateway = stack.enter_context(
            Gateway(
                GatewaySettings(listen="127.0.0.1:0", bootstrap_servers=kafka.bootstrap_servers, topic_prefix=prefix)
            )
        )

    @contextmanager
    def group_of(self, admin: AdminClient, name: str) -> Iterator[World]:
        """The world for a test with a group, and a topic, of this name."""
        self.group = self.topic = name
        make_topic(admin, name, PARTITIONS)
        with consumers_of(self.gateway.bootstrap_servers, name, self._directory) as self.consumers:
            yield self

    def start(self, name: str) -> ConsumerProcess:
        return self.consumers.start(
            "librdkafka", self.group, name, session_timeout_ms=SESSION_MS, enable_auto_commit=False
        )

    def commit(self, member: ConsumerProcess) -> None:
        """Let the member read something new, and commit it."""
        before, owned = len(member.records), set(member.owned)
        producer = Producer({"bootstrap.servers": self.config.bootstrap_servers})
        for partition in range(PARTITIONS):
            producer.produce(self.topic, b"record", partition=partition)
        producer.flush()
        member.wait_until(lambda: len(member.records) >= before + len(member.owned), TIMEOUT_S)
        read = {record.partition: record.offset + 1 for record in list(member.records)}
        assert member.commit(TIMEOUT_S) == ["committed"]
        answered = self.answered_commits.setdefault(self.group, {})
        answered |= {partition: read[partition] for partition in owned & read.keys()}
        self.require_answered_commits()

    def require_answered_commits(self) -> None:
        """Nobody fetches an older offset than a commit that was answered, whoever is there to answer."""
        assert self.answered_commits
        for group, answered in self.answered_commits.items():
            consumer = Consumer({"bootstrap.servers": self.gateway.bootstrap_servers, "group.id": group})
            places = [TopicPartition(group, partition) for partition in range(PARTITIONS)]
            fetched = {place.partition: place.offset for place in consumer.committed(places, TIMEOUT_S)}
            consumer.close()
            assert {
                partition: (offset, fetched[partition])
                for partition, offset in answered.items()
                if fetched[partition] < offset
            } == {}

    def events_since(self, offset: int) -> list[tuple[bytes | None, bytes, str | None]]:
        """Key, value and writer of what the log has got since."""
        return [
            (record.key(), record.value() or b"", headers_of(record).get(WRITER_HEADER))
            for record in read_topic(self.config.client_properties, self.config.topics.events)
            if (record.offset() or 0) >= offset
        ]

    def end_of_log(self) -> int:
        return len(events_of(self.config))

    def require_no_pause(self, since: int) -> None:
        """A responder has ticked since then, and no session began anew."""
        events = self.events_since(since)
        assert any(key is None and writer for key, _, writer in events)
        assert not [key for key, value, _ in events if value == SESSION_RENEWAL]

    def require_the_same_story(self) -> None:
        """All outputs are those of an undisturbed coordinator, and each answer of a responder is the query's."""
        self.consumers.close_all()
        wait_until(lambda: has_written(self.config, count(self.expected())), TIMEOUT_S, interval_s=1.0)
        require_same(written_of(self.config).outputs, self.expected())
        assert answers_of_responders(self.config)
        assert not list(read_topic(self.config.client_properties, self.config.topics.differences))

    def expected(self) -> Outputs:
        return expected_of(self.config, events_of(self.config))


@pytest.fixture(scope="module")
def running_world(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """At the end the query alone knows what responders have answered."""
    with ExitStack() as stack:
        world = World(kafka, "coordinator-away", tmp_path_factory.mktemp("world"), stack)
        yield world
        world.responder.kill()
        world.require_answered_commits()
        world.coordinator.stop()


@pytest.fixture
def world(running_world: World, admin: AdminClient, topic_prefix: str) -> Iterator[World]:
    with running_world.group_of(admin, topic_prefix) as world:
        yield world


def errors_of(*members: ConsumerProcess) -> list[list[str]]:
    return [words for member in members for words in member.said("error", "lost")]


def test_a_member_that_dies_while_the_coordinator_is_away_is_expired_and_others_come(world: World) -> None:
    stays, dies = world.start("stays"), world.start("dies")
    share([stays, dies], PARTITIONS, timeout_s=TIMEOUT_S)
    world.coordinator.kill()
    away = world.end_of_log()
    dies.kill()
    share([stays], PARTITIONS, timeout_s=TIMEOUT_S)
    world.commit(stays)
    comes = world.start("comes")
    share([stays, comes], PARTITIONS, timeout_s=TIMEOUT_S)
    rebalances = stays.rebalances
    world.require_no_pause(away)
    back = world.end_of_log()
    world.coordinator.start()
    wait_until(lambda: [writer for key, _, writer in world.events_since(back) if key is None][-3:] == [None] * 3)
    world.commit(stays)
    world.require_no_pause(back)
    assert stays.rebalances == rebalances
    assert not errors_of(stays, comes)
    world.require_the_same_story()


def test_a_restart_amid_a_rebalance_is_seen_by_no_client(world: World) -> None:
    first, slow = world.start("first"), world.start("slow")
    share([first, slow], PARTITIONS, timeout_s=TIMEOUT_S)
    before = slow.rebalances
    slow.tell("pause")  # it beats, and does not join
    comes = world.start("comes")
    first.wait_until(lambda: not first.owned, TIMEOUT_S)  # it has heard of the rebalance, and waits for the slow one
    begin = world.end_of_log()
    world.coordinator.stop()
    slow.tell("resume")
    share([first, slow, comes], PARTITIONS, timeout_s=TIMEOUT_S)
    world.commit(comes)
    world.coordinator.start()
    world.commit(slow)
    world.require_no_pause(begin)
    assert [member.rebalances for member in (slow, comes)] == [before + 1, 1]
    assert not errors_of(first, slow, comes)
    world.require_the_same_story()
