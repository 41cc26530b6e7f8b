"""`demo`: a broker, the coordinator and eight groups with real members, to watch for a while."""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from datetime import tzinfo
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Annotated, Self

import typer
from confluent_kafka.admin import NewTopic
from msgspec import UNSET
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from group_coordinator.command_line.signals import stop_requested
from group_coordinator.command_line.tables import out, print_line
from group_coordinator.command_line.times import parse_duration_s, shown_zone
from group_coordinator.coordinating.commands.coordinator_thread import CoordinatorThread
from group_coordinator.coordinating.commands.dashboard_thread import start_dashboard
from group_coordinator.coordinating.commands.live_groups import LiveGroups, StatusLine, group_size
from group_coordinator.coordinating.commands.spark_jvm import require_spark
from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.jars.resolving import resolve_jars
from group_coordinator.coordinating.members.host import MemberHost
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.monitoring.printable import printable
from group_coordinator.proving.commands.demo_members import RecordSource
from group_coordinator.proving.commands.demo_scenarios import (
    PARTITIONS,
    RECORDS_PER_SECOND,
    SESSION_TIMEOUT_MS,
    DemoScenarios,
)
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka, free_port
from group_coordinator.watching.commands.explanation import explanation
from group_coordinator.watching.commands.summary import Summary
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.narrative import sentences, words
from group_coordinator.watching.narrative.rebalances import Rebalance, headline
from schemas.consumer_group_history import GroupConverted
from schemas.events import encode_json
from schemas.group_states import GroupState
from schemas.history import GroupSnapshot, History, MemberReplaced, RebalanceCompleted, RequestRefused, SnapshotMember
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
        GatewaySettings(
            listen="127.0.0.1:0", bootstrap_servers=config.bootstrap_servers, topic_prefix=config.topic_prefix
        )
    )


def _create_topics(config: StreamingConfig) -> None:
    """The topics that the groups consume."""
    admin = new_admin_client(config.client_properties)
    for future in admin.create_topics([NewTopic(name, number, 1) for name, number in PARTITIONS.items()]).values():
        future.result()


LINE_INTERVAL_S = 10.0
_EVENTS_KEPT, _EVENTS_SHOWN_AT_LEAST = 40, 3
_OTHER_LINES = 5
_STYLES: dict[str, str] = {GroupState.STABLE: "green", GroupState.EMPTY: "dim", GroupState.DEAD: "red"}


class DemoView:
    """The demo's display: `report` adds a line about an event, `show` draws the state of the groups."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or out()
        self._events: deque[Text] = deque(maxlen=_EVENTS_KEPT)
        self._stack = ExitStack()
        self._live: Live | None = None
        self._next_line_s = LINE_INTERVAL_S

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = self._stack.enter_context(Live(console=self._console, screen=False, auto_refresh=False))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def report(self, text: str, *, is_announcement: bool) -> None:
        """Add a line: an announcement of what the demo does, or a decision of the coordinator."""
        if self._live is None:
            print_line(f"{'>>' if is_announcement else '  '} {text}")
        else:
            style = "yellow" if is_announcement else ""
            self._events.append(Text(printable(text), style=style, no_wrap=True, overflow="ellipsis"))

    def show(
        self, elapsed_s: float, status: str, snapshots: Mapping[str, GroupSnapshot], records: Mapping[str, int]
    ) -> None:
        """Show the status line, the groups, and the number of records that each client has consumed."""
        if self._live is not None:
            table = _table(snapshots.values(), records)
            room = max(self._console.height - table.row_count - _OTHER_LINES, _EVENTS_SHOWN_AT_LEAST)
            events: Sequence[RenderableType] = list(self._events)[-room:]
            footer = Text(
                "Yellow: what the demo does. The rest: what the coordinator made of it. Ctrl-C ends the demo.",
                style="dim",
            )
            self._live.update(Group(Text(status, style="bold"), table, "", *events, footer), refresh=True)
        elif elapsed_s >= self._next_line_s:
            self._next_line_s += LINE_INTERVAL_S
            print_line(f"-- {status}")
            for snapshot in sorted(snapshots.values(), key=lambda snapshot: snapshot.group_id):
                print_line(
                    f"--   {snapshot.group_id}: {snapshot.state}, {_kind(snapshot)}{_counter(snapshot)}; "
                    f"{_owners(snapshot)}"
                )


def _table(snapshots: Collection[GroupSnapshot], records: Mapping[str, int]) -> Table:
    table = Table(
        "GROUP", "STATE", "GENERATION", "MEMBER", "PARTITIONS", "RECORDS", box=None, pad_edge=False, header_style="bold"
    )  # of a consumer group: its epoch
    for group in sorted(snapshots, key=lambda snapshot: snapshot.group_id):
        first = [
            printable(group.group_id),
            Text(group.state, style=_STYLES.get(group.state, "yellow")),
            f"epoch {_counter(group)}" if group.is_consumer_group else _counter(group),
        ]
        rows = [
            [
                f"{printable(_name(group, member))}{' *' if member.member_id == group.leader_id else ''}",
                printable(_holds(member)),
                str(records.get(member.client_id, 0)),
            ]
            for member in sorted(group.members, key=lambda member: member.client_id)
        ]
        for number, row in enumerate(rows or [["-", "", ""]]):
            table.add_row(*(first if number == 0 else ["", "", ""]), *row)
    return table


def _kind(group: GroupSnapshot) -> str:
    return "consumer group in epoch " if group.is_consumer_group else "generation "


def _counter(group: GroupSnapshot) -> str:
    """The generation; the epoch of a consumer group, and that of its target where that is behind."""
    target = group.assignment_epoch
    behind = target is not UNSET and target != group.generation_id
    return f"{group.generation_id} (target {target})" if behind else str(group.generation_id)


def _name(group: GroupSnapshot, member: SnapshotMember) -> str:
    """The client's name; in a consumer group also whether it speaks the classic protocol, and an epoch that is
    behind."""
    if member.consumer is UNSET:
        return member.client_id
    notes = ["classic"] if member.consumer.uses_classic_protocol else []
    if member.consumer.member_epoch != group.generation_id:
        notes.append(f"at {member.consumer.member_epoch}")
    return f"{member.client_id} ({', '.join(notes)})" if notes else member.client_id


def _holds(member: SnapshotMember) -> str:
    """What a member has, and what of that it is about to give up."""
    leaving = () if member.consumer is UNSET else member.consumer.pending_revocation
    return words.owned(member.partitions) + (f", gives up {words.owned(leaving)}" if leaving else "")


def _owners(group: GroupSnapshot) -> str:
    members = sorted(group.members, key=lambda member: member.client_id)
    return ", ".join(f"{_name(group, member)} has {_holds(member)}" for member in members) or "no members"
