"""Exactly once through the gateway with Apache Kafka's own clients: loops of Java, and Kafka Streams."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from group_coordinator.coordinating.gateway.server import Gateway
from group_coordinator.coordinating.jars.resolving import JarsError
from group_coordinator.coordinating.transactions.relays import Relays
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.transaction_history import TransactionalOffsetsPending
from tests.coordinating.gateway.clients.consumers import compile_java
from tests.coordinating.gateway.conftest import PARTITIONS
from tests.coordinating.gateway.loops import Audit, Loop
from tests.coordinating.gateway.pump import Pump
from tests.kafka_programs import java, streams_jars
from tests.making_topics import make_topic
from tests.waiting import wait_until

pytestmark = pytest.mark.end_to_end

RECORDS = 60
"""At a time."""
TIMEOUT_S = 240.0


@pytest.fixture
def target(admin: AdminClient, topic_prefix: str) -> str:
    name = f"{topic_prefix}-out"
    make_topic(admin, name, PARTITIONS)
    return name


@pytest.fixture
def write(kafka: EmbeddedKafka, topic: str) -> Callable[[int, int], None]:
    """Writes the numbers from the first up to the second to the broker itself; the key says the partition."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": "2"})

    def write(start: int, end: int) -> None:
        for number in range(start, end):
            partition = number % PARTITIONS
            producer.produce(topic, str(number), f"key-{partition}", partition)
        assert producer.flush(20) == 0

    return write


def older_client(jars: Path) -> list[Path]:
    """Apache Kafka's clients of before transactions of version 2: those of Spark's connector."""
    found = sorted((jars / "spark").glob("kafka-clients-3.*.jar"))
    assert found
    return found


@pytest.mark.parametrize(
    ("is_older", "group_protocol"), [(True, "classic"), (False, "classic"), (False, "consumer")]
)
def test_each_input_comes_out_once_of_loops_of_javas_own_client(
    kafka: EmbeddedKafka, gateway: Gateway, pump: Pump, relays: Relays, topic: str, target: str, java_classes: Path,
    kafka_jars: Path, tmp_path: Path, write: Callable[[int, int], None], is_older: bool, group_protocol: str,
) -> None:  # fmt: skip
    """A second one joins in the midst of the first one's transactions, which is killed; some are aborted."""
    program = java(heap_mb=64, classes=[java_classes], other_kafka=older_client(kafka_jars) if is_older else [])
    first, second = (
        Loop(
            tmp_path / f"{number}.log",
            [
                *program, "TransformingProgram", gateway.bootstrap_servers, "g", topic, target, f"tx-{number}",
                group_protocol, "5000",
            ],
        )
        for number in range(2)
    )  # fmt: skip
    audit = Audit(kafka, target)
    try:
        write(0, RECORDS)
        audit.wait_for(RECORDS // 2, first)
        second.look()
        write(RECORDS, 2 * RECORDS)
        audit.wait_for(RECORDS + 1, first, second)
        first.kill()
        write(2 * RECORDS, 3 * RECORDS)
        audit.wait_for(3 * RECORDS, second)
    finally:
        first.kill()
        second.kill()
    audit.insist_on([str(number) for number in range(3 * RECORDS)])
    wait_until(lambda: relays.shards[0].open_transactions == 0, TIMEOUT_S)
    assert relays.shards[0].refusals == 0
    assert gateway.metrics.connections_broken == {}
    assert ("AddOffsetsToTxn" in gateway.metrics.requests) is is_older
    commits = pump.told(TransactionalOffsetsPending, "g")
    if not is_older:
        epochs = {(commit.producer_id, commit.producer_epoch) for commit in commits}
        assert len(epochs) > len({producer_id for producer_id, _ in epochs}), "each transaction has one of its own"


@pytest.fixture(scope="module")
def streams(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Kafka Streams of the project's version of Kafka, and the program."""
    (client,) = (kafka_jars / "broker").glob("kafka-clients-*.jar")
    version = client.stem.removeprefix("kafka-clients-")
    try:
        jars = streams_jars(version)
    except JarsError as problem:
        pytest.skip(f"no Kafka Streams: {problem}")
    return [*jars, compile_java(tmp_path_factory.mktemp("streams"), ["StreamsProgram"], jars)]


def test_kafka_streams_counts_exactly_once(
    kafka: EmbeddedKafka, gateway: Gateway, relays: Relays, topic: str, target: str, tmp_path: Path,
    streams: list[Path], write: Callable[[int, int], None],
) -> None:  # fmt: skip
    """Its state is in the transactions, too. It is killed, and goes on where its last transaction ended."""
    loop = Loop(
        tmp_path / "streams.log",
        [
            *java(heap_mb=96, classes=streams), "StreamsProgram", gateway.bootstrap_servers, f"{topic}-counts", topic,
            target, str(tmp_path / "state"),
        ],
    )  # fmt: skip
    audit = Audit(kafka, target)
    try:
        write(0, RECORDS)
        audit.wait_for(RECORDS // 2, loop)
        write(RECORDS, 2 * RECORDS)
        loop.kill()
        write(2 * RECORDS, 3 * RECORDS)
        audit.wait_for(3 * RECORDS, loop)
    finally:
        loop.kill()
    each = 3 * RECORDS // PARTITIONS
    audit.insist_on([f"key-{partition}:{count}" for partition in range(PARTITIONS) for count in range(1, each + 1)])
    wait_until(lambda: relays.shards[0].open_transactions == 0, TIMEOUT_S)
    assert relays.shards[0].refusals == 0
    assert gateway.metrics.connections_broken == {}
