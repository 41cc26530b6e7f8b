"""`demo`: a broker, the coordinator and eight groups with real members, to watch for a while."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import tzinfo
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Annotated

import typer
from confluent_kafka.admin import NewTopic

from group_coordinator.command_line.signals import stop_requested
from group_coordinator.command_line.tables import print_line
from group_coordinator.command_line.times import parse_duration_s, shown_zone
from group_coordinator.coordinating.commands.coordinator_thread import CoordinatorThread
from group_coordinator.coordinating.commands.dashboard_thread import start_dashboard
from group_coordinator.coordinating.commands.live_groups import LiveGroups, StatusLine, group_size
from group_coordinator.coordinating.commands.spark_jvm import require_spark
from group_coordinator.coordinating.gateway.config import Address, GatewayConfig
from group_coordinator.coordinating.jars.resolving import resolve_jars
from group_coordinator.coordinating.members.host import MemberHost
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.commands.demo_members import RecordSource
from group_coordinator.proving.commands.demo_scenarios import (
    PARTITIONS,
    RECORDS_PER_SECOND,
    SESSION_TIMEOUT_MS,
    DemoScenarios,
)
from group_coordinator.proving.commands.demo_view import DemoView
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka, free_port
from group_coordinator.watching.commands.explanation import explanation
from group_coordinator.watching.commands.summary import Summary
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.narrative import sentences
from group_coordinator.watching.narrative.rebalances import Rebalance, headline
from schemas.consumer_group_history import GroupConverted
from schemas.events import encode_json
from schemas.history import History, MemberReplaced, RebalanceCompleted, RequestRefused
from schemas.records_file import Record, encode_record
from streaming.config import StreamingConfig

if TYPE_CHECKING:
    from group_coordinator.coordinating.gateway.server import Gateway

_POLL_S = 0.2


_Duration = Annotated[
    str | None, typer.Option(metavar="TIME", help="End after this time: 90s, 5m. [default: at Ctrl-C]")
]


def demo(duration: _Duration = None) -> None:
    """Watch groups live: a Kafka broker, the coordinator on Spark, and eight groups whose members crash, roll and flap.

    Everything is real, and everything is gone afterwards: the broker (Apache Kafka, a child process), the Spark query,
    and members that consume records which the demo produces. One group is of unmodified Kafka clients of three
    libraries, which come in by the gateway; yours can come, too. One moves to the consumer protocol (KIP-848), member
    by member. The first start fetches Kafka's and Spark's jars (a minute).

    Whatever the demo does to a group, the coordinator says what it decided, and why; the dashboard, whose address is
    printed, shows it. At the end there is a summary, and the history is kept for `explain`.

    Examples:

        group-coordinator demo
        group-coordinator demo --duration 90s
    """
    duration_s = None if duration is None else parse_duration_s(duration)
    require_spark()
    zone = shown_zone(utc=False)
    with ExitStack() as stack:
        stop = stack.enter_context(stop_requested())
        began_s = time.monotonic()

        def progress(text: str) -> None:
            print_line(f"[{time.monotonic() - began_s:4.1f} s] {text}")

        resolve_jars()
        progress("Starting Apache Kafka and Spark ...")
        port = free_port()
        kafka = EmbeddedKafka(port=port)
        stack.callback(kafka.close)
        config = _config(f"127.0.0.1:{port}", kafka.data_directory)
        coordinator = CoordinatorThread(config, quiet=True)
        stack.callback(coordinator.stop)
        coordinator.warm_up()
        kafka.start()
        progress(f"Kafka answers at {kafka.bootstrap_servers}. Waiting for the coordinator ...")
        _create_topics(config)
        if coordinator.start(lambda: coordinator.ask_to_stop() if stop.is_set() else None) is None:
            return
        progress("The coordinator runs; its first batch takes longest ...")
        while not coordinator.progress and not stop.wait(_POLL_S):
            coordinator.check()
        dashboard = stack.enter_context(start_dashboard(config, None))
        gateway = stack.enter_context(_gateway(config))
        progress("Eight groups come on stage.")
        _say_where_to_look(dashboard.address, kafka.bootstrap_servers, gateway.bootstrap_servers)
        play = _Play(config, coordinator, gateway.bootstrap_servers, dashboard.index, zone)
        play.run(stop.is_set, duration_s)
        print_line()
        print_line("Ending the demo ...")
    play.conclude()


def _say_where_to_look(dashboard: str, broker: str, gateway: str) -> None:
    print_line(f"In a browser: {dashboard}")
    print_line("From another terminal:")
    print_line(f"  group-coordinator groups --bootstrap-servers {broker}")
    print_line(f"  group-coordinator explain --group payments --bootstrap-servers {broker}")
    print_line("Any Kafka client can join, by the gateway:")
    print_line(f"  kafka-console-consumer.sh --bootstrap-server {gateway} --group mine --topic payments")
    print_line()


class _Play:
    """The demo from the first member's start to the summary."""

    def __init__(
        self, config: StreamingConfig, coordinator: CoordinatorThread, gateway: str, index: Index, zone: tzinfo
    ) -> None:
        """`index`: the dashboard's, which reads history."""
        self._config, self._coordinator, self._gateway, self._zone = config, coordinator, gateway, zone
        self._history: SimpleQueue[History] = SimpleQueue()
        index.on_news = self._history.put
        self._view = DemoView()
        self._summary = Summary()
        self._example: Rebalance | None = None
        self._directory = Path(tempfile.mkdtemp(prefix="group-coordinator-demo-"))
        self._file = (self._directory / "history.jsonl").open("wb")

    def run(self, is_asked: Callable[[], bool], duration_s: int | None) -> None:
        config, status_line = self._config, StatusLine()
        with ExitStack() as stack:
            stack.enter_context(self._file)
            host = stack.enter_context(
                MemberHost(config.bootstrap_servers, prefix=config.topic_prefix, client_properties={"log_level": "0"})
            )
            records = RecordSource(config.client_properties, PARTITIONS, RECORDS_PER_SECOND)
            records.start()
            stack.callback(records.stop)
            scenarios = DemoScenarios(host, self._gateway, lambda text: self._view.report(text, is_announcement=True))
            stack.callback(scenarios.end)
            groups = stack.enter_context(LiveGroups(config, lambda snapshot: snapshot))
            stack.enter_context(self._view)
            began_s = time.monotonic()
            while not is_asked() and (duration_s is None or time.monotonic() < began_s + duration_s):
                elapsed_s = time.monotonic() - began_s
                self._coordinator.check()
                groups.poll(_POLL_S)
                while not self._history.empty():
                    self._hear(self._history.get())
                scenarios.play(elapsed_s, groups.groups)
                shards = list(self._coordinator.progress.values())
                sizes = list(map(group_size, groups.groups.values()))
                status = status_line.text(shards, self._coordinator.events, sizes)
                self._view.show(
                    elapsed_s, status, groups.groups, {client.name: client.records for client in scenarios.clients}
                )
            for client in scenarios.clients:
                if client.failure is not None and not is_asked():  # who asks may have asked all of its processes
                    self._view.report(f"{client.name} has failed: {client.failure}", is_announcement=True)

    def conclude(self) -> None:
        """Print the summary, one rebalance explained, and where the rest is kept."""
        for line in self._summary.lines(self._zone):
            print_line(line)
        if self._example is not None:
            print_line()
            print_line("One rebalance explained (group-coordinator explain does it for each):")
            print_line()
            for line in explanation(self._example, self._zone):
                print_line(f"  {line}".rstrip())
        print_line()
        print_line("The history is kept:")
        print_line(f"  group-coordinator explain --group payments --from {self._directory}")

    def _hear(self, record: History) -> None:
        group = self._summary.add(record)
        if group is None:
            return
        self._file.write(
            encode_record(Record(partition=None, key=record.group_id.encode(), value=encode_json(record))) + b"\n"
        )
        self._file.flush()
        match record:
            case RebalanceCompleted() if group.current is not None:
                self._view.report(headline(group.current, self._zone), is_announcement=False)
                if record.trigger == "member_expired" and record.outcome == "stable":
                    self._example = group.current
            case MemberReplaced() | RequestRefused() | GroupConverted():
                self._view.report(sentences.line(record, self._zone), is_announcement=False)


def _config(bootstrap_servers: str, directory: Path) -> StreamingConfig:
    """Settings that make things happen within seconds."""
    return StreamingConfig.load(
        {
            "bootstrap_servers": bootstrap_servers,
            "checkpoint": str(directory / "checkpoint"),
            "group_initial_rebalance_delay_ms": 1_500,
            "group_consumer_session_timeout_ms": SESSION_TIMEOUT_MS,
            "group_consumer_min_session_timeout_ms": SESSION_TIMEOUT_MS,
            "group_consumer_heartbeat_interval_ms": 1_000,
            "group_consumer_min_heartbeat_interval_ms": 1_000,
            "tick_interval_ms": 250,
            "offsets_partitions": 8,
            "responses_partitions": 1,
            "replication_factor": 1,
        }
    )


def _gateway(config: StreamingConfig) -> Gateway:
    """Kafka clients come in here, at any free ports."""
    from group_coordinator.coordinating.gateway.server import Gateway  # it takes its time to import

    return Gateway(
        GatewayConfig(
            listen=Address("127.0.0.1", 0),
            bootstrap_servers=config.bootstrap_servers,
            client_properties={"log_level": "0"},
            topic_prefix=config.topic_prefix,
        )
    )


def _create_topics(config: StreamingConfig) -> None:
    """The topics that the groups consume."""
    admin = new_admin_client(config.client_properties)
    for future in admin.create_topics([NewTopic(name, number, 1) for name, number in PARTITIONS.items()]).values():
        future.result()
