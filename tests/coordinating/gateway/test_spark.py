"""The real thing: consumers of three libraries in one group of `group-coordinator run`, which is killed in the middle.

Java and kafka-python go on beating when nobody answers for a session, librdkafka gives up by itself: so those two are
there when the coordinator is away for longer than their session, and only its clock decides whether they are expired.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from group_coordinator.command_line.main import app as app_of_commands
from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.server import Gateway
from group_coordinator.ground.kafka_topics.reader import read_topic
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.watching.commands.published_groups import read_snapshots
from schemas.history import GroupSnapshot, History, MemberExpired, OffsetsCommitted, decode_history
from streaming.config import StreamingConfig
from tests.coordinating.gateway.clients.consumers import (
    LIBRARIES,
    ConsumerProcess,
    Consumers,
    Library,
    consumers_of,
    share,
    with_kafka_python,
)
from tests.coordinating.gateway.clients.reading import reads, values
from tests.coordinating.gateway.commands import Command
from tests.coordinating.gateway.conftest import PARTITIONS, produce_to
from tests.waiting import wait_until

pytestmark = [pytest.mark.end_to_end, pytest.mark.spark]

GROUP = "real"
SESSION_S = 15
BEAT_S = 3
TIMEOUT_S = 120.0
MODERN_LIBRARIES: tuple[Library, ...] = ("librdkafka", "java")


@pytest.fixture
def config(kafka: EmbeddedKafka, topic_prefix: str, tmp_path: Path) -> StreamingConfig:
    return StreamingConfig(
        bootstrap_servers=kafka.bootstrap_servers,
        topic_prefix=topic_prefix,
        checkpoint=str(tmp_path / "checkpoint"),
        group_initial_rebalance_delay_ms=0,
    )


def coordinator(config: StreamingConfig, directory: Path) -> Command:
    """The app as people run it, with its ticker."""
    return Command(
        directory / "run.log", "The coordinator runs", "run", "--bootstrap-servers", config.bootstrap_servers,
        "--topic-prefix", config.topic_prefix, "--checkpoint", config.checkpoint, "--group-initial-rebalance-delay-ms",
        "0", "--spark", "spark.driver.memory=512m",
    )  # fmt: skip


def history_of(config: StreamingConfig) -> list[History]:
    """All that happened, each once: a batch that is repeated writes its records again."""
    records = [
        decode_history(record.value() or b"")
        for record in read_topic(config.client_properties, config.topics.history)
    ]
    return list({(record.group_id, record.epoch, record.seq): record for record in records}.values())


def group_of(config: StreamingConfig) -> GroupSnapshot:
    return next(snapshot for snapshot in read_snapshots(config) if snapshot.group_id == GROUP)


def kill_and_restart(app: Command) -> float:
    """Returns how long nobody answered, in seconds: longer than a session."""
    since = time.monotonic()
    app.kill()
    time.sleep(SESSION_S / 3)  # the start takes more than the rest
    app.start()
    app.wait_for(" members, ")  # its first batch has ended
    return time.monotonic() - since


@pytest.fixture
def app(config: StreamingConfig, tmp_path: Path) -> Iterator[Command]:
    app = coordinator(config, tmp_path)
    try:
        app.start()
        yield app
    finally:
        app.kill()


@pytest.fixture
def gateway(config: StreamingConfig, app: Command) -> Iterator[Gateway]:
    with Gateway(
        GatewaySettings(
            listen="127.0.0.1:0", bootstrap_servers=config.bootstrap_servers, topic_prefix=config.topic_prefix
        )
    ) as gateway:
        yield gateway


def join_one_by_one(consumers: Consumers, record_property: Callable[[str, object], None]) -> list[ConsumerProcess]:
    members: list[ConsumerProcess] = []
    for library in LIBRARIES:
        since = time.monotonic()
        session_ms, beat_ms = SESSION_S * 1_000, BEAT_S * 1_000
        members.append(consumers.start(library, GROUP, session_timeout_ms=session_ms, heartbeat_interval_ms=beat_ms))
        share(members, PARTITIONS, timeout_s=TIMEOUT_S)
        record_property(f"{library} joined after s", round(time.monotonic() - since, 1))
    return members


@with_kafka_python
def test_a_group_of_three_libraries_lives_through_a_kill_of_the_coordinator(
    config: StreamingConfig,
    topic: str,
    java_classes: Path,
    app: Command,
    gateway: Gateway,
    record_property: Callable[[str, object], None],
) -> None:
    with consumers_of(gateway.bootstrap_servers, topic, java_classes) as consumers:
        produce = produce_to(gateway.bootstrap_servers, topic)
        members = join_one_by_one(consumers, record_property)
        produce(0, 60)
        reads(60, *members)
        leaver = members.pop(LIBRARIES.index("librdkafka"))
        leaver.close()
        share(members, PARTITIONS, timeout_s=TIMEOUT_S)

        rebalances, group, history_length = (
            [each.rebalances for each in members],
            group_of(config),
            len(history_of(config)),
        )
        away_s = kill_and_restart(app)
        record_property("away s", round(away_s, 1))
        assert away_s > SESSION_S, "a clock that jumped would have expired nobody either"
        heartbeats, doubts = gateway.metrics.answer_ms["Heartbeat"], gateway.metrics.in_doubt
        after_a_session = heartbeats.count + (SESSION_S // BEAT_S + 1) * len(members)
        produce(60, 120)
        reads(120, leaver, *members)
        for member in members:
            assert member.commit(timeout_s=60) == ["committed"]
        wait_until(lambda: heartbeats.count >= after_a_session)
        assert [each.rebalances for each in members] == rebalances, "nobody noticed that the coordinator was away"
        assert set(values(leaver, *members)) == set(range(120))
        assert {type(each) for each in history_of(config)[history_length:]} <= {OffsetsCommitted}, (
            "nothing befell anybody"
        )
        now = group_of(config)
        assert (now.generation_id, now.state, now.members) == (group.generation_id, "Stable", group.members)

        members[0].kill()
        newcomer = consumers.start("librdkafka", GROUP)
        newcomer.wait_until(lambda: len(newcomer.owned) > 0, TIMEOUT_S)
        (expired,) = [each for each in history_of(config) if isinstance(each, MemberExpired)]
        assert expired.member.client_id == members[0].name, "who beats no more is expired"
        for api, histogram in gateway.metrics.answer_ms.items():
            record_property(f"{api} answer ms, mean", round(histogram.sum / histogram.count))
        assert gateway.metrics.in_doubt == doubts, "since it is back, everything was answered in time"
        with_the_consumer_protocol(config, consumers)
        under_the_other_protocol(config)


def with_the_consumer_protocol(config: StreamingConfig, consumers: Consumers) -> None:
    """A group of KIP-848 beside them, on the same query: its members read all there is, commit and leave."""
    members = [
        consumers.start(library, "modern", None, group_protocol="consumer", enable_auto_commit=False)
        for library in MODERN_LIBRARIES
    ]
    share(members, PARTITIONS, timeout_s=TIMEOUT_S)
    wait_until(lambda: set(values(*members)) == set(range(120)))
    (shown,) = [snapshot for snapshot in read_snapshots(config) if snapshot.group_id == "modern"]
    assert shown.is_consumer_group
    for member in members:
        assert member.commit(timeout_s=60) == ["committed"]
        member.close()
    wait_until(lambda: "Empty" in [each.state for each in read_snapshots(config) if each.group_id == "modern"])
    commits = [each for each in history_of(config) if isinstance(each, OffsetsCommitted)]
    committed = [change for each in commits if each.group_id == "modern" for change in each.offsets]
    assert {change.partition for change in committed} == set(range(PARTITIONS))


def under_the_other_protocol(config: StreamingConfig) -> None:
    """What if, asked of the topics, for both groups."""
    moved = what_if(config, GROUP, "classic", "consumer")
    assert moved >= PARTITIONS // 2, "so many went to the second member"
    what_if(config, "modern", "consumer", "classic")


def what_if(config: StreamingConfig, group: str, was: str, would_be: str) -> int:
    """Ask the command; return how many partitions moved in what happened."""
    options = ("--bootstrap-servers", config.bootstrap_servers, "--topic-prefix", config.topic_prefix)
    result = CliRunner().invoke(
        app_of_commands, ["what-if", "--group", group, "--group-protocol", would_be, *options]
    )
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    protocols, moved = (
        next(line for line in lines if line.startswith(title)).removeprefix(title).split()
        for title in ("group protocol", "partitions that moved")
    )
    assert protocols == [was, was, would_be], result.output
    return int(moved[0])
