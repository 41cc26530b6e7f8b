"""A broker, the coordinator with its tables, members, the dashboard and a browser: one story, seen as it happens."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from group_coordinator.command_line.output_options import TablesFormat
from group_coordinator.coordinating.commands.dashboard_thread import start_dashboard
from group_coordinator.coordinating.commands.history_tables import tables_query
from group_coordinator.coordinating.members.host import MemberHost
from group_coordinator.coordinating.spark_tables.sinks import open_sink
from group_coordinator.proving.commands.demo_members import DemoMember
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.server import RunningServer
from group_coordinator.watching.tables.layout import CHECKPOINT
from group_coordinator.watching.tables.rows import TABLES
from schemas.history import MemberExpired
from streaming.application import Application, ShardProgress
from streaming.config import StreamingConfig
from tests.waiting import wait_until
from tests.watching.dashboard.pages import owner_at, owners_shown

if TYPE_CHECKING:
    from playwright.sync_api import Page
    from pyspark.sql import SparkSession

TIMEOUT_S = 180.0
PARTITIONS = 4
TABLES_INTERVAL_S = 4


class Scene:
    """What runs."""

    def __init__(
        self, dashboard: RunningServer, members: dict[str, DemoMember], batches: list[ShardProgress], tables: Path
    ) -> None:
        self.dashboard = dashboard
        self.members = members
        self.batches = batches
        self.tables = tables


@pytest.fixture
def live(
    kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str, spark: SparkSession, tmp_path: Path
) -> Iterator[Scene]:
    config = StreamingConfig.load(
        {
            "bootstrap_servers": kafka.bootstrap_servers, "topic_prefix": topic_prefix,
            "checkpoint": str(tmp_path / "checkpoint"),
            "group_initial_rebalance_delay_ms": 1_500, "tick_interval_ms": 250, "offsets_partitions": 1,
            "responses_partitions": 1,
        }
    )  # fmt: skip
    topic = f"{topic_prefix}-payments"
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    batches: list[ShardProgress] = []
    stop, started = threading.Event(), threading.Event()
    app = Application(
        config,
        spark=spark,
        on_start=lambda report: started.set(),
        on_progress=batches.append,
        companion=tables_query(config, str(tmp_path / "tables"), TablesFormat.parquet, TABLES_INTERVAL_S),
    )
    failures: list[BaseException] = []

    def coordinate() -> None:
        try:
            app.run(stop)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=coordinate)
    thread.start()
    with ExitStack() as stack:
        stack.callback(thread.join, TIMEOUT_S)
        stack.callback(stop.set)
        wait_until(lambda: started.is_set() or bool(failures), TIMEOUT_S)
        dashboard = stack.enter_context(start_dashboard(config, "127.0.0.1:0"))
        quiet = {"log_level": "0"}
        host = stack.enter_context(MemberHost(config.bootstrap_servers, prefix=topic_prefix, client_properties=quiet))
        members = {name: payments_member(host, name, topic) for name in "abc"}
        for member in members.values():
            member.start()
        yield Scene(dashboard, members, batches, tmp_path / "tables")
        for member in members.values():
            member.end("crash")
            member.join()
    assert failures == []


def payments_member(host: MemberHost, name: str, topic: str) -> DemoMember:
    return DemoMember(
        host, "payments", f"payments-{name}", [topic],
        session_timeout_ms=8_000, heartbeat_interval_ms=1_000, partition_assignment_strategy=("range",),
    )  # fmt: skip


def payments(index: Index) -> GroupFacts:
    facts = index.facts("payments")
    assert facts is not None
    return facts


def require_the_owners_of_the_table(page: Page, address: str, rows: list[dict[str, Any]], at_ms: int) -> None:
    page.goto(f"{address}#/group/payments?at={at_ms}")
    at = datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%H:%M:%S.%f")[:-3]
    page.wait_for_selector(f".moment:has(h2:text-is('{at}')) .owners")
    owners = owners_shown(page)
    assert len(owners) == PARTITIONS
    for partition in range(PARTITIONS):
        owner = owner_at(rows, partition, at_ms)
        name = next(name for place, name in owners.items() if place.endswith(f"-{partition}"))
        assert name == "nobody" if owner is None else owner.startswith(name), (at_ms, partition)


def test_a_crash_as_it_happens(live: Scene, spark: SparkSession, page: Page) -> None:
    page.set_default_timeout(TIMEOUT_S * 1_000)
    address, index = live.dashboard.address, live.dashboard.index

    # The list knows the group as soon as it is there; its page follows what happens.
    page.goto(f"{address}#/groups")
    row = page.locator(".rows .row:has(a:text-is('payments'))")
    row.locator(".state:text-is('Stable')").wait_for()
    everybody = {f"payments-{name}" for name in "abc"}
    wait_until(lambda: {entry.client_id for entry in payments(index).members.values()} == everybody, TIMEOUT_S)
    row.locator("a").click()
    page.wait_for_selector("tr[data-key]")

    live.members["b"].end("crash")
    page.wait_for_selector("tr[data-key]:has-text('payments-b'):has-text('expired')")
    shown_after = live.batches[-1].batch_id
    expiries = [item.record for item in index.feed() if isinstance(item.record, MemberExpired)]
    expired = next(record for record in expiries if record.member.client_id == "payments-b")
    wait_until(lambda: live.batches[-1].clock_ms >= expired.time_ms, TIMEOUT_S)  # a batch is told when it has ended
    decided_in = next(batch.batch_id for batch in live.batches if batch.clock_ms >= expired.time_ms)
    assert shown_after <= decided_in + 2, "within two batches"
    page.locator("tr[data-key]:has-text('expired')").click()
    assert "payments-b" in page.locator(".panel.rebalance .because").inner_text()

    # Any moment: the owners are those of the table.
    wait_until(lambda: payments(index).state == "Stable", TIMEOUT_S)
    settled_ms = payments(index).last_ms
    sink = open_sink(spark, str(live.tables), "parquet")
    wait_until(lambda: sink.read(TABLES["events"]).count() >= index.records, TIMEOUT_S)
    checkpoint = live.tables / CHECKPOINT
    batch = max((path.name for path in (checkpoint / "offsets").iterdir() if path.name.isdigit()), key=int)
    wait_until((checkpoint / "commits" / batch).exists, TIMEOUT_S)  # all tables of that batch are written
    rows = [entry.asDict() for entry in sink.read(TABLES["ownership"]).collect()]
    for at_ms in (expired.timestamp_ms - 3_000, expired.timestamp_ms + 1, settled_ms):
        require_the_owners_of_the_table(page, address, rows, at_ms)

    # The page of readiness judges what the coordinator publishes.
    page.goto(f"{address}#/readiness")
    judged = page.locator(".readiness tbody tr:has(a:text-is('payments'))").inner_text()
    assert re.search("change this first[^.]*Its members ask for session timeouts of 8 s", judged)
    assert "By settings given here" in page.locator(".scroller.page").inner_text()

    # Another session timeout, played on the very log of this coordinator.
    page.goto(f"{address}#/group/payments?compare=yes")
    page.locator("#wi-session").fill("1800")  # longer than this test can take
    page.locator("form.whatif button").click()
    page.wait_for_selector("h2:text('As it would have been')")
    put_out = page.locator("table.numbers tr:has(th:text-is('Members that were put out')) td")
    before, _, after = put_out.all_inner_texts()[:3]
    assert (int(before), int(after.split()[0])) == (1, 0), "the dead member is not missed yet"
