"""The settings of the app."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from coordinator_state.config import GroupConfig, GroupSettings
from coordinator_state.consumer.assignors import server_assignor_problems
from coordinator_state.kafka_versions import OF_OLD_LOGS
from coordinator_state.rule_changes import RuleChange
from group_coordinator.coordinating.answer_sockets import AnswerSocketSettings
from group_coordinator.ground.settings.connection import ReaderSettings
from group_coordinator.ground.settings.kafka_properties import spark_options
from group_coordinator.ground.settings.loading import ENVIRONMENT_PREFIX, ConfigError, only_a_name
from group_coordinator.ground.settings.operations import OperationsSettings, SeriesSettings
from schemas.isolation import READER_PROPERTIES
from schemas.settings import setting, values_of
from streaming.operator_config import OperatorConfig
from streaming.reply_partitions import ReplyPartitions
from streaming.topics import RECORD_OVERHEAD_BYTES, TopicSettings

__all__ = ["ENVIRONMENT_PREFIX", "ConfigError", "StreamingConfig"]

_SIZE = re.compile(r"\d+([kmgtp]b?)?", re.IGNORECASE)
"""What Spark takes for a size of memory. With another one the JVM does not start, and prints it."""


@dataclass(frozen=True, kw_only=True)
class StreamingConfig(
    ReaderSettings, OperationsSettings, SeriesSettings, AnswerSocketSettings, GroupSettings, TopicSettings
):
    """Everything that can be set. Making one raises `ConfigError`."""

    shard: int | None = setting(
        None, "Run this shard only (from 0), the others elsewhere. Default: all of them in this process.")
    checkpoint: str = setting(
        "checkpoint", "Directory (or URI of a file system that Spark knows) of the queries' state; each shard has its "
        "own below it.")
    master: str = setting("local[*]", "Spark master. Under spark-submit its own holds.")
    spark: dict[str, str] = setting({}, "Further Spark settings (`spark.driver.memory` ...).")
    shuffle_partitions: int = setting(
        1, "Tasks among which the groups of a shard are divided; 1 spares the shuffle. Fixed for the life of a "
        "checkpoint.", at_least=1)
    group_buckets: int = setting(
        0, "Keys of Spark's state that the groups of a shard share; 0: each group is a key of its own. A thousand make "
        "batches that touch ten thousand groups twice as fast; the outputs are the same. Fixed for the life of a "
        "checkpoint.", at_least=0)
    trigger_interval_ms: int = setting(
        0, "Least time from one batch to the next; 0: at once. `run` with responders sets 2000 unless it is set, since "
        "nobody waits for the batches. Without them the clock does, where it is more than half of "
        "group_min_session_timeout_ms.", at_least=0)
    spark_niceness: int = setting(
        0, "Niceness of Spark's JVM and Python workers (Linux, `nice(2)`), where the command starts them. `run` "
        "with responders sets 15 unless it is set: nobody waits for them, so whoever answers comes first.", at_least=0,
        at_most=19)
    spark_idle_policy: bool = setting(
        False, "Let Spark's JVM and Python workers run only where a processor is idle (Linux, SCHED_IDLE of sched(7)), "
        "as long as batches end in time. Needs CAP_SYS_NICE or a limit of niceness (`ulimit -e`) of 20 less "
        "spark_niceness, to take it back; without, nothing changes. `run` with responders sets true unless it is "
        "set.")
    spark_tier4_factor: int = setting(
        1, "How many times as often as by default code of the driver's JVM must run before HotSpot's optimizing "
        "compiler takes it up (its options Tier4...Threshold), where the command starts that JVM. `run` with "
        "responders sets 10 unless it is set: a backlog is worked off a tenth slower, and whoever answers gets more of "
        "the processors.",
        at_least=1, at_most=1_000)
    max_events_per_batch: int = setting(
        10_000, "Most events that one batch takes: a backlog is worked off in batches of this size.", at_least=1)
    tick_interval_ms: int = setting(
        500, "How often the clock is written to the log: how late a timer may fire, and how often an idle app wakes. "
        "At most a quarter of group_min_session_timeout_ms.", at_least=10)
    topic_watch_interval_ms: int = setting(
        1_000, "How often is looked which topics there are: consumer groups are told of them, and committed offsets "
        "of one that is gone are dropped. A look takes at most a twentieth of the time, so it is less often where "
        "there are thousands of topics. 0: never, for clients whose topics are in another cluster.", at_least=0)
    ticker: bool = setting(
        True, "Write the clock. Off where the log brings its own ticks, as a recorded one does: without ticks no timer "
        "ever fires.")
    responder_alone_max_ms: int = setting(
        900_000, "How long a responder answers without a sign of the query of its shard. What it answers meanwhile, "
        "the query has to decide when it is back.", at_least=1_000)
    state_alarm_bytes: int = setting(
        536_870_912, "A shard whose groups take more bytes is said to be degraded, and rings an alarm: batches and the "
        "start of a responder become slow, and a responder takes twice as much memory.", at_least=1)
    health_file: str | None = setting(
        None, "A file whose time of change is the last sign of life: a batch that ended, a tick that Kafka took; of "
        "`responder`, a status of its responder. Old means unhealthy.")
    tuning_worker_daemon: bool = setting(
        True, "Start Spark's Python workers from a process that has imported what they need, where the master is "
        "local. Without it each worker spends a second of CPU on that.")
    tuning_state_worker: bool = setting(
        True, "Replace the part of Spark's Python workers that makes pandas frames for each group. Without it each "
        "group that a batch touches costs milliseconds. It needs tuning_worker_daemon, and the one version of PySpark "
        "whose inside it knows.")
    tuning_hadoop: bool = setting(
        True, "Let Spark's JVM set the permissions of checkpoint files itself, not by six processes a batch, and leave "
        "out settings of YARN and MapReduce that it packs anew for each batch.")
    tuning_heap: bool = setting(
        True, "Give memory that a large batch took back to the system. Without it Spark's JVM keeps what it once had.")
    tuning_class_archives: bool = setting(
        True, "Start Spark's JVM from an archive of its classes, where `make jars` has written one: it takes half of "
        "the CPU time.")

    rules_at_first: str = OF_OLD_LOGS
    """The rules of what comes before the first change of them; others for the log of another broker. No setting."""

    @property
    def group(self) -> GroupConfig:
        """The settings of the core, with the rules of a log that has yet to name some: `kafka_rules` is what a new log
        begins with."""
        values = values_of(GroupSettings, self) | {"kafka_rules": self.rules_at_first}
        return GroupConfig(**values, shard_count=self.shards)

    @property
    def topic_settings(self) -> TopicSettings:
        """How topics are named, created and checked."""
        return TopicSettings(**values_of(TopicSettings, self))

    def operator_config(
        self,
        partitions: Mapping[str, int] | None = None,
        partition: int = 0,
        *,
        is_live: bool = False,
        rule_changes: tuple[RuleChange, ...] = (),
    ) -> OperatorConfig:
        """Return the settings of a shard's operator. `partitions` are the counts that topics have; without them, our
        settings count. `rule_changes`: those of the shard's log.

        `is_live`: whether partitions may be added to the responses topic meanwhile.
        """
        topics, partition_counts = self.topics, partitions or {}
        return OperatorConfig(
            group=self.group,
            topics=topics,
            partition=partition,
            reply_partitions=ReplyPartitions(
                topics.responses,
                partition_counts.get(topics.responses, self.responses_partitions),
                self.client_properties if is_live else None,
            ),
            offsets_partitions=partition_counts.get(topics.offsets, self.offsets_partitions),
            output_max_bytes=self.output_max_bytes,
            rule_changes=rule_changes,
            group_buckets=self.group_buckets,
        )

    @property
    def shards_here(self) -> tuple[int, ...]:
        """The shards that this process runs."""
        return tuple(range(self.shards)) if self.shard is None else (self.shard,)

    @property
    def source_options(self) -> dict[str, str]:
        """The options of Spark's Kafka source, which asks for the partition's bounds, twice, after each poll of its
        consumer.

        So a poll takes ten times as many records as Kafka's default, which are no more bytes. And a broker answers a
        connection's requests one after the other, and by then the consumer has asked for what comes next: at the end of
        the log the bounds would wait with it. A fetch brings several of the largest events, not one (Kafka: 1 MiB): a
        backlog of them takes a fifth less time.
        """
        return {
            **spark_options(self.bootstrap_servers, self.kafka),
            "kafka.max.poll.records": "5000",
            "kafka.fetch.max.wait.ms": "0",
            "kafka.max.partition.fetch.bytes": "8388608",
            **{f"kafka.{name}": value for name, value in READER_PROPERTIES.items()},
        }

    @property
    def sink_options(self) -> dict[str, str]:
        """The options of Spark's Kafka sink.

        Its producer collects a while, 64 KiB at most: each request, of which a full batch would be dozens, is work
        for the broker and for whoever reads. No batch waits for that: its tasks end with `flush`.
        """
        return {
            **spark_options(self.bootstrap_servers, self.kafka),
            "kafka.acks": "all",
            "kafka.max.request.size": str(self.output_max_bytes),
            "kafka.buffer.memory": str(max(33_554_432, 4 * self.output_max_bytes)),
            "kafka.linger.ms": "10",
            "kafka.batch.size": "65536",
        }

    @property
    def tick_lead_ms(self) -> int:
        """How far the clock may run ahead of the query: half of the shortest session, so that an answer that comes late
        leaves its client time to speak again."""
        return self.group_min_session_timeout_ms // 2

    @property
    def tick_pause_ms(self) -> int:
        """Where the log takes no tick for so long, the clock has paused and sessions begin anew: half of the shortest session."""
        return self.group_min_session_timeout_ms // 2

    def problems(self) -> list[str]:
        """Return a sentence for each mistake."""
        problems = [*super().problems(), *self.operations_problems(), *self.series_problems()]
        if self.shard is not None and not 0 <= self.shard < self.shards:
            problems.append(f"shard is {self.shard}, but there are {self.shards} shards: it must be 0 to {self.shards - 1}.")
        if self.output_max_bytes < self.event_max_bytes + RECORD_OVERHEAD_BYTES:
            problems.append(
                f"output_max_bytes is {self.output_max_bytes}, but an event of event_max_bytes ({self.event_max_bytes}) "
                f"must fit into a dead letter: set it to {self.event_max_bytes + RECORD_OVERHEAD_BYTES} or more."
            )
        if self.tick_interval_ms > self.tick_pause_ms // 2 > 0:
            problems.append(
                f"tick_interval_ms is {self.tick_interval_ms}, but must be at most a quarter of group_min_session_timeout_ms "
                f"({self.group_min_session_timeout_ms})."
            )
        problems += [
            f"spark: {only_a_name(name)} is no setting of Spark, which all begin with `spark.`: Spark would pass over it."
            for name in self.spark
            if not name.startswith("spark.")
        ]
        problems += [
            f"spark: {only_a_name(name)} is no size: write a number and a unit, as 2g or 512m."
            for name, value in self.spark.items()
            if name.endswith(".memory") and not _SIZE.fullmatch(value)
        ]
        problems += server_assignor_problems(self.consumer_assignors)
        return problems + self.contradictions()
