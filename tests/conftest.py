"""What tests share: the jars, one broker and one Spark session for the whole run, started when first asked for."""

from __future__ import annotations

import gc
import os
import re
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from group_coordinator.coordinating.jars.class_archives import class_archive_options
from group_coordinator.coordinating.jars.java import SHORT_LIVED
from group_coordinator.coordinating.jars.resolving import resolve_jars
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from streaming.topics import TopicSettings

# For every JVM of Spark's here, also of those that the tests start as commands: they live for seconds, too short for
# the optimising compiler and a collector with threads of its own to pay.
os.environ.setdefault("SPARK_SUBMIT_OPTS", shlex.join((*SHORT_LIVED, *class_archive_options("spark"))))

# Hypothesis would fail an example that takes longer than 200 ms, which on a busy machine any may.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient
    from pyspark.sql import SparkSession


LONG_FIRST = (
    "watching/tables/test_spark_tables.py",
    "coordinating/responder/test_recorded_logs.py",
    "watching/dashboard/test_browser.py",
    "coordinating/gateway/test_query_away.py",
    "command_line/test_end_to_end.py",
    "coordinating/responder/test_coordinator_away.py",
    "command_line/test_signals.py",
    "crash/test_crashes.py",
    "coordinating/gateway/test_spark.py",
    "coordinating/responder/test_ticking.py",
    "coordinating/operations/test_cluster.py",
    "streaming/test_application.py",
    "streaming/test_topic_watcher.py",
    "coordinating/gateway/test_clients.py",
    "coordinating/responder/test_commands.py",
    "command_line/test_gateway_commands.py",
    "coordinating/gateway/test_topics_that_go.py",
    "coordinating/gateway/test_consumer_group_tools.py",
    "coordinating/gateway/test_go_clients.py",
    "crash/test_full_disk.py",
    "coordinating/gateway/test_phases.py",
    "coordinating/gateway/test_migration.py",
    "coordinating/responder/test_running.py",
    "coordinating/gateway/test_consumer_protocol.py",
    "crash/test_lost_checkpoint.py",
    "coordinating/gateway/test_transactions.py",
    "coordinating/gateway/test_transactional_clients.py",
    "watching/tables/test_sql.py",
    "watching/observed/test_sources_together.py",
    "watching/dashboard/test_standing.py",
    "watching/watch/test_read_only.py",
    "watching/watch/test_killed.py",
    "crash/test_backlog.py",
    "documents/test_readme.py",
    "proving/embedded_kafka/test_embedded_kafka.py",
    "coordinating/operations/test_security.py",
    "coordinating/responder/test_shards.py",
    "benchmarks/test_jvm.py",
    "crash/test_poisoned_clock.py",
)
"""The files that take half a minute and more, the longest first.
A worker of pytest-xdist that took one of them last would work alone at the end."""
OF_RECORDINGS = (
    "tests/coordinating/responder/test_recorded_logs.py",
    "tests/proving/recordings/test_clusters.py",
    "tests/proving/recordings/test_consumer_sessions.py",
    "tests/proving/recordings/test_events_import.py",
    "tests/proving/recordings/test_following.py",
)
"""The files that follow the same recorded logs: where one process takes them all, it follows each log once."""
IN_PARTS = ("tests/simulation/test_worlds.py",)
"""Files of long tests that share nothing: each test is taken by whoever is free."""


AT_REST = {"metadata.max.idle.interval.ms": "0"}
"""The shared broker writes no records that say that nothing happens: they are half of what it does while nobody asks,
and it lives as long as the run."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """With `--dist loadfile` a file goes to one worker, but for those that are better together or apart."""
    return FileScheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let each worker of a whole run import other files first: what one has compiled, with all asserts rewritten, the
    others find. No garbage is looked for meanwhile: all that is collected stays."""
    gc.disable()
    config = session.config
    _send_at_once(config)
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    if worker and config.args == config.getini("testpaths"):
        files = sorted(Path(__file__).parent.rglob("test_*.py"))
        for file in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
            with suppress(Exception, pytest.skip.Exception):  # the collection comes to it, and tells of it
                import_module(".".join(file.relative_to(Path(__file__).parents[1]).with_suffix("").parts))


def _send_at_once(config: pytest.Config) -> None:
    """With `--reruns` a worker says and asks something for each test. Its question would wait 40 ms for the network to
    acknowledge what it said before (Nagle's algorithm)."""
    connection = getattr(getattr(config, "failures_db", None), "sock", None)
    if isinstance(connection, socket.socket):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def pytest_collection_finish() -> None:
    """Keep what was collected out of the garbage that tests make."""
    gc.freeze()
    gc.enable()


class FileScheduling(LoadFileScheduling):  # type: ignore[misc]
    """Hands out files in the order of their collection, but one worker takes those with the shared Spark session while
    there are any, and the others take them last: each session costs 14 s of CPU until it is warm."""

    _worker_with_spark: Any = None

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        if file in OF_RECORDINGS:
            return OF_RECORDINGS[0]
        return nodeid if file in IN_PARTS else file

    def _assign_work_unit(self, node: Any) -> None:
        if self._worker_with_spark is None:
            self._worker_with_spark = node
        has_spark = node is self._worker_with_spark
        wanted = next((scope for scope in self.workqueue if _has_spark_session(scope) == has_spark), None)
        if wanted is not None:
            self.workqueue.move_to_end(wanted, last=False)
        super()._assign_work_unit(node)


@cache
def _has_spark_session(scope: str) -> bool:
    """Whether the tests of a file, or one of them, may use the session of this file."""
    return "SparkSession" in (Path(__file__).parents[1] / scope.split("::", 1)[0]).read_text()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the long files first, and mark tests by what they use,
    so that `-m "not kafka and not spark"` is right without anybody's care."""
    places = {Path(__file__).parent / name: place for place, name in enumerate(LONG_FIRST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        for name in ("kafka", "spark"):
            if name in fixtures:
                item.add_marker(name)
        if "kafka_jars" in fixtures and not any(map(item.get_closest_marker, ("kafka", "spark", "end_to_end"))):
            item.add_marker("kafka")


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """The directory of the resolved jars (resolved now when the cache is empty)."""
    return resolve_jars()


@pytest.fixture(scope="session")
def kafka(kafka_jars: Path) -> Iterator[EmbeddedKafka]:
    """One broker for all tests: never stop it, and use topics under `topic_prefix`."""
    with EmbeddedKafka(properties=AT_REST) as broker:
        yield broker


@pytest.fixture(scope="session")
def admin(kafka: EmbeddedKafka) -> AdminClient:
    """An admin client of the shared broker."""
    return new_admin_client({"bootstrap.servers": kafka.bootstrap_servers})  # silent when the broker ends before it


@pytest.fixture
def topic_prefix(request: pytest.FixtureRequest, _test_numbers: Iterator[int]) -> str:
    """A prefix for topics that no other test of this run has."""
    name = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name)[:80].strip("-")
    return f"{name}-{next(_test_numbers)}"


@pytest.fixture(scope="session")
def _test_numbers() -> Iterator[int]:
    return iter(range(1, sys.maxsize))


@pytest.fixture
def topic_settings(topic_prefix: str) -> TopicSettings:
    """Topic settings under this test's own prefix, with few partitions: quick to create."""
    return TopicSettings(topic_prefix=topic_prefix, responses_partitions=2, offsets_partitions=4)


@pytest.fixture(scope="session")
def spark(kafka_jars: Path) -> Iterator[SparkSession]:
    """One small Spark session for all tests: UTC, two shuffle partitions, no UI, the project's jars."""
    from pyspark.sql import SparkSession

    from group_coordinator.coordinating.spark_tables.sinks import DELTA_SESSION_SETTINGS
    from streaming.session import jars_settings

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.daemon.module", "streaming.tuning.worker_daemon")
        .config("spark.sql.session.timeZone", "UTC")
        .config(map={**jars_settings("local[2]"), **DELTA_SESSION_SETTINGS})
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
