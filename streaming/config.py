"""The settings of the app."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BeforeValidator, Field, create_model

from coordinator_state import GroupConfig
from schemas.isolation import READER_PROPERTIES
from streaming.kafka_clients import librdkafka_properties, properties_problems, spark_options
from streaming.operator_config import OperatorConfig
from streaming.reply_partitions import ReplyPartitions
from streaming.settings import (
    ENVIRONMENT_PREFIX,
    ConfigError,
    DocumentedSettings,
    field_docs,
    number,
    only_a_name,
    port_problems,
)
from streaming.topics import RECORD_OVERHEAD_BYTES, TopicSettings

__all__ = ["ENVIRONMENT_PREFIX", "ConfigError", "StreamingConfig"]


def _group_settings() -> dict[str, Any]:
    """The settings of the core as fields of ours. The number of shards is a setting of the topics."""
    docs, hints, defaults = field_docs(GroupConfig), get_type_hints(GroupConfig), GroupConfig()
    return {
        name: (Annotated[hints[name], BeforeValidator(number)], Field(default=getattr(defaults, name), description=docs[name]))
        for name in GroupConfig.__struct_fields__
        if name != "shard_count"
    }


_GroupSettings: type[DocumentedSettings] = create_model("_GroupSettings", __base__=DocumentedSettings, **_group_settings())


class StreamingConfig(_GroupSettings):  # type: ignore[misc, valid-type]
    """Everything that can be set. Building one raises `ConfigError`."""

    bootstrap_servers: str = "localhost:9092"
    """Kafka brokers to start from, `host:port`, separated by commas."""
    kafka: dict[str, str] = Field(default_factory=dict)
    """Properties of the Kafka clients with Java's names, for TLS and SASL (`security.protocol`, `sasl.jaas.config` ...)."""
    topic_prefix: str = "coordinator"
    """What the names of all topics begin with: `coordinator` gives `coordinator.events`, `coordinator.responses` ..."""
    shards: int = 1
    """Partitions of the events topic; each is one shard with its own query and clock. Fixed for the life of the topic."""
    shard: int | None = None
    """Run this shard only (from 0), the others elsewhere. Default: all of them in this process."""
    responses_partitions: int = 8
    """Partitions of the responses topic when it is created; a sender reads one of them."""
    offsets_partitions: int = 50
    """Partitions of the offsets topic when it is created, as of Kafka's `__consumer_offsets`."""
    replication_factor: int | None = None
    """Replicas of topics that are created. Default: 3, or as many as there are brokers where they are fewer."""
    event_max_bytes: int = 1_048_588
    """Largest event that the events topic takes, when it is created."""
    output_max_bytes: int = 4_194_304
    """Largest record that is written; at least 64 KiB above the largest event, which must fit into a dead letter."""
    events_retention_ms: int = -1
    """How long events are kept, when the topic is created; -1: for ever. They are the log that all else follows from."""
    responses_retention_ms: int = 3_600_000
    """How long answers are kept, when the topic is created."""
    history_retention_ms: int = -1
    """How long history is kept, when the topic is created; -1: for ever."""
    dead_letters_retention_ms: int = -1
    """How long dead letters are kept, when the topic is created; -1: for ever."""
    checkpoint: str = "checkpoint"
    """Directory (or URI of a file system that Spark knows) of the queries' state; each shard has its own below it."""
    master: str = "local[*]"
    """Spark master. Under spark-submit its own holds."""
    spark: dict[str, str] = Field(default_factory=dict)
    """Further Spark settings (`spark.driver.memory` ...)."""
    shuffle_partitions: int = 1
    """Tasks among which the groups of a shard are divided; 1 spares the shuffle. Fixed for the life of a checkpoint."""
    group_buckets: int = 0
    """Keys of Spark's state that the groups of a shard share; 0: each group is a key of its own. A thousand make
    batches that touch ten thousand groups twice as fast; the outputs are the same. Fixed for the life of a checkpoint."""
    trigger_interval_ms: int = 0
    """Least time from one batch to the next; 0: at once."""
    max_events_per_batch: int = 10_000
    """Most events that one batch takes: a backlog is worked off in batches of this size."""
    tick_interval_ms: int = 500
    """How often the clock is written to the log: how late a timer may fire, and how often an idle app wakes."""
    topic_watch_interval_ms: int = 1_000
    """How often is looked which topics there are: the committed offsets of one that is gone are dropped. A look takes at most a
    twentieth of the time, so it is less often where there are thousands of topics. 0: never, for clients whose topics are in
    another cluster."""
    ticker: bool = True
    """Write the clock. Off where the log brings its own ticks, as a recorded one does: without ticks no timer ever fires."""
    metrics_port: int = 0
    """Port of the endpoint with /metrics (Prometheus), /health/live and /health/ready. 0: there is none."""
    metrics_host: str = "127.0.0.1"
    """Address that the endpoint listens on. It has no password: beyond this machine (`0.0.0.0`) let only a trusted network reach it."""
    metrics_groups: int = 20
    """How many groups, those that stand out, have series of their own in the metrics. 0: none."""
    health_file: str | None = None
    """A file whose time of change is the last sign of life: a batch that ended, a tick that Kafka took. Old means unhealthy."""
    log_format: Literal["text", "json"] = "text"
    """Form of the log on standard error: lines for people, or one JSON object a line."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important that is logged. `info` has rebalances and expiries of groups, `debug` also refused requests."""
    tuning_worker_daemon: bool = True
    """Start Spark's Python workers from a process that has imported what they need, where the master is local. Without it each
    worker spends a second of CPU on that."""
    tuning_state_worker: bool = True
    """Replace the part of Spark's Python workers that makes pandas frames for each group. Without it each group that a batch touches
    costs milliseconds. It needs tuning_worker_daemon, and the one version of PySpark whose inside it knows."""
    tuning_hadoop: bool = True
    """Let Spark's JVM set the permissions of checkpoint files itself, not by six processes a batch, and leave out settings of YARN and
    MapReduce that it packs anew for each batch."""
    tuning_heap: bool = True
    """Give memory that a large batch took back to the system. Without it Spark's JVM keeps what it once had."""
    tuning_class_archives: bool = True
    """Start Spark's JVM from an archive of its classes, where `make jars` has written one: it takes half of the CPU time."""

    @property
    def group(self) -> GroupConfig:
        """The settings of the core."""
        fields = {name: getattr(self, name) for name in GroupConfig.__struct_fields__ if name != "shard_count"}
        return GroupConfig(**fields, shard_count=self.shards)

    @property
    def topic_settings(self) -> TopicSettings:
        """How topics are named, created and checked."""
        names = {name for name in TopicSettings.__struct_fields__ if name in type(self).model_fields}
        return TopicSettings(prefix=self.topic_prefix, **{name: getattr(self, name) for name in names})

    def operator_config(
        self, partitions: Mapping[str, int] | None = None, partition: int = 0, *, is_live: bool = False
    ) -> OperatorConfig:
        """What the operator of a shard is told. `partitions` are the counts that topics have; without them, our settings.

        `is_live`: whether partitions may be added to the responses topic meanwhile.
        """
        topics, found = self.topic_settings.topics, partitions or {}
        return OperatorConfig(
            group=self.group,
            topics=topics,
            partition=partition,
            reply_partitions=ReplyPartitions(
                topics.responses,
                found.get(topics.responses, self.responses_partitions),
                self.client_properties if is_live else None,
            ),
            offsets_partitions=found.get(topics.offsets, self.offsets_partitions),
            output_max_bytes=self.output_max_bytes,
            group_buckets=self.group_buckets,
        )

    @property
    def shards_here(self) -> tuple[int, ...]:
        """The shards that this process runs."""
        return tuple(range(self.shards)) if self.shard is None else (self.shard,)

    @property
    def client_properties(self) -> dict[str, str]:
        """Of confluent_kafka's clients."""
        return librdkafka_properties(self.bootstrap_servers, self.kafka)

    @property
    def source_options(self) -> dict[str, str]:
        """Of Spark's Kafka source, which asks for the partition's bounds, twice, after each poll of its consumer.

        So a poll takes ten times as many records as Kafka's default, which are no more bytes. And a broker answers a connection's requests one
        after the other, and by then the consumer has asked for what comes next: at the end of the log the bounds would wait with it.
        A fetch brings several of the largest events, not one (Kafka: 1 MiB): a backlog of them takes a fifth less time.
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
        """Of Spark's Kafka sink."""
        return {
            **spark_options(self.bootstrap_servers, self.kafka),
            "kafka.acks": "all",
            "kafka.max.request.size": str(self.output_max_bytes),
            "kafka.buffer.memory": str(max(33_554_432, 4 * self.output_max_bytes)),
        }

    @property
    def tick_lead_ms(self) -> int:
        """How far the clock may run ahead of the query: half of the shortest session, so that an answer that comes late
        leaves its client time to speak again."""
        return int(self.group.group_min_session_timeout_ms // 2)

    @property
    def tick_pause_ms(self) -> int:
        """Where the log takes no tick for so long, the clock has paused and sessions begin anew: half of the shortest session."""
        return int(self.group.group_min_session_timeout_ms // 2)

    def problems(self) -> list[str]:
        """What is wrong, one sentence for each mistake."""
        at_least = {
            "shards": 1,
            "responses_partitions": 1,
            "offsets_partitions": 1,
            "event_max_bytes": 1_024,
            "shuffle_partitions": 1,
            "group_buckets": 0,
            "max_events_per_batch": 1,
            "trigger_interval_ms": 0,
            "tick_interval_ms": 10,
            "topic_watch_interval_ms": 0,
            "metrics_groups": 0,
            "events_retention_ms": -1,
            "responses_retention_ms": -1,
            "history_retention_ms": -1,
            "dead_letters_retention_ms": -1,
        }
        if self.replication_factor is not None:
            at_least["replication_factor"] = 1
        found = [
            f"{name} is {getattr(self, name)}, but must be at least {least}."
            for name, least in at_least.items()
            if getattr(self, name) < least
        ]
        if self.shard is not None and not 0 <= self.shard < self.shards:
            found.append(f"shard is {self.shard}, but there are {self.shards} shards: it must be 0 to {self.shards - 1}.")
        found += port_problems("metrics_port", self.metrics_port)
        if not self.bootstrap_servers.strip():
            found.append("bootstrap_servers is empty.")
        if self.output_max_bytes < self.event_max_bytes + RECORD_OVERHEAD_BYTES:
            found.append(
                f"output_max_bytes is {self.output_max_bytes}, but an event of event_max_bytes ({self.event_max_bytes}) "
                f"must fit into a dead letter: set it to {self.event_max_bytes + RECORD_OVERHEAD_BYTES} or more."
            )
        if self.tick_interval_ms > self.tick_pause_ms // 2 > 0:
            found.append(
                f"tick_interval_ms is {self.tick_interval_ms}, but must be at most a quarter of group_min_session_timeout_ms "
                f"({self.group.group_min_session_timeout_ms})."
            )
        found += [
            f"spark: {only_a_name(name)} is no setting of Spark, which all begin with `spark.`: Spark would pass over it."
            for name in self.spark
            if not name.startswith("spark.")
        ]
        return found + properties_problems(self.kafka) + [p for p in self.group.problems() if "shard_count" not in p]
