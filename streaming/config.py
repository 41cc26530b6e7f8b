"""The settings of the app: flags, environment, a TOML file, defaults, in this order of precedence.

Every setting is a field of `StreamingConfig`, documented by the string below it, from which `--help` is made. The
environment names it GROUP_COORDINATOR_<NAME>; tables (`kafka`, `spark`) are JSON there and tables in TOML.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from pydantic import BeforeValidator, Field, ModelWrapValidatorHandler, ValidationError, create_model, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from coordinator_state import GroupConfig
from streaming.kafka_clients import librdkafka_properties, properties_problems, spark_options
from streaming.operator_config import OperatorConfig
from streaming.topics import RECORD_OVERHEAD_BYTES, TopicSettings

ENVIRONMENT_PREFIX = "GROUP_COORDINATOR_"


class ConfigError(RuntimeError):
    """The settings cannot be used: one sentence for each mistake, all of them in `problems`."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def _field_docs(kind: type) -> dict[str, str]:
    """The string below each field of a class, as in its source."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    assert isinstance(tree.body[0], ast.ClassDef)
    body = tree.body[0].body
    return {
        field.target.id: inspect.cleandoc(doc.value.value).replace("\n", " ")
        for field, doc in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        and isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant) and isinstance(doc.value.value, str)
    }  # fmt: skip


def _group_settings() -> dict[str, Any]:
    """The settings of the core as fields of ours. The number of shards is a setting of the topics."""
    docs, hints, defaults = _field_docs(GroupConfig), get_type_hints(GroupConfig), GroupConfig()
    return {
        name: (Annotated[hints[name], BeforeValidator(_number)], Field(default=getattr(defaults, name), description=docs[name]))
        for name in GroupConfig.__struct_fields__
        if name != "shard_count"
    }


def _number(value: Any) -> Any:
    """The environment has text only, which a choice of numbers would refuse."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


_GroupSettings: type[BaseSettings] = create_model("_GroupSettings", __base__=BaseSettings, **_group_settings())


class StreamingConfig(_GroupSettings):  # type: ignore[misc, valid-type]
    """Everything that can be set. Building one raises `ConfigError`."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, extra="forbid", frozen=True, use_attribute_docstrings=True
    )

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
    shuffle_partitions: int = 2
    """Tasks among which the groups of a shard are divided. Fixed for the life of a checkpoint."""
    trigger_interval_ms: int = 0
    """Least time from one batch to the next; 0: at once."""
    max_events_per_batch: int | None = None
    """Most events that one batch takes. Default: all that there are."""
    tick_interval_ms: int = 500
    """How often the clock is written to the log: how late a timer may fire, and how often an idle app wakes."""
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

    @classmethod
    def load(cls, flags: Mapping[str, Any] | None = None, file: Path | None = None) -> StreamingConfig:
        """The settings from flags (those that were given), the environment and a TOML file. Raises `ConfigError`."""
        if file is not None and not file.is_file():
            raise ConfigError([f"The settings file {file} does not exist."])

        class FromFile(cls):  # type: ignore[misc, valid-type]
            @classmethod
            def settings_customise_sources(
                cls,
                settings_cls: type[BaseSettings],
                init_settings: PydanticBaseSettingsSource,
                env_settings: PydanticBaseSettingsSource,
                **_: PydanticBaseSettingsSource,
            ) -> tuple[PydanticBaseSettingsSource, ...]:
                return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, file)

        try:
            loaded: StreamingConfig = FromFile(**(flags or {}))
        except ValueError as problem:  # TOML or an environment variable's JSON cannot be parsed.
            raise ConfigError([f"The settings cannot be read: {problem}."]) from problem
        return loaded

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

    def operator_config(self, partitions: Mapping[str, int] | None = None, partition: int = 0) -> OperatorConfig:
        """What the operator of a shard is told. `partitions` are the counts that topics have; without them, our settings."""
        topics, found = self.topic_settings.topics, partitions or {}
        return OperatorConfig(
            group=self.group,
            topics=topics,
            partition=partition,
            responses_partitions=found.get(topics.responses, self.responses_partitions),
            offsets_partitions=found.get(topics.offsets, self.offsets_partitions),
            output_max_bytes=self.output_max_bytes,
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
        """Of Spark's Kafka source."""
        return spark_options(self.bootstrap_servers, self.kafka)

    @property
    def sink_options(self) -> dict[str, str]:
        """Of Spark's Kafka sink."""
        return {
            **self.source_options,
            "kafka.acks": "all",
            "kafka.max.request.size": str(self.output_max_bytes),
            "kafka.buffer.memory": str(max(33_554_432, 4 * self.output_max_bytes)),
        }

    @property
    def tick_lead_ms(self) -> int:
        """How far the clock may run ahead of the query: half of the shortest session, so that an answer that comes late
        leaves its client time to speak again."""
        return int(self.group.group_min_session_timeout_ms // 2)

    def problems(self) -> list[str]:
        """What is wrong, one sentence for each mistake."""
        at_least = {
            "shards": 1,
            "responses_partitions": 1,
            "offsets_partitions": 1,
            "event_max_bytes": 1_024,
            "shuffle_partitions": 1,
            "trigger_interval_ms": 0,
            "tick_interval_ms": 10,
            "metrics_port": 0,
            "metrics_groups": 0,
            "events_retention_ms": -1,
            "responses_retention_ms": -1,
            "history_retention_ms": -1,
            "dead_letters_retention_ms": -1,
        }
        if self.max_events_per_batch is not None:
            at_least["max_events_per_batch"] = 1
        if self.replication_factor is not None:
            at_least["replication_factor"] = 1
        found = [
            f"{name} is {getattr(self, name)}, but must be at least {least}."
            for name, least in at_least.items()
            if getattr(self, name) < least
        ]
        if self.shard is not None and not 0 <= self.shard < self.shards:
            found.append(f"shard is {self.shard}, but there are {self.shards} shards: it must be 0 to {self.shards - 1}.")
        if not self.bootstrap_servers.strip():
            found.append("bootstrap_servers is empty.")
        if self.output_max_bytes < self.event_max_bytes + RECORD_OVERHEAD_BYTES:
            found.append(
                f"output_max_bytes is {self.output_max_bytes}, but an event of event_max_bytes ({self.event_max_bytes}) "
                f"must fit into a dead letter: set it to {self.event_max_bytes + RECORD_OVERHEAD_BYTES} or more."
            )
        if self.tick_interval_ms > self.tick_lead_ms > 0:
            found.append(
                f"tick_interval_ms is {self.tick_interval_ms}, but must be at most half of group_min_session_timeout_ms "
                f"({self.group.group_min_session_timeout_ms})."
            )
        return found + properties_problems(self.kafka) + [p for p in self.group.problems() if "shard_count" not in p]

    @model_validator(mode="wrap")
    @classmethod
    def _all_problems_at_once(cls, data: Any, handler: ModelWrapValidatorHandler[StreamingConfig]) -> StreamingConfig:
        try:
            config, problems = handler(data), []
        except ValidationError as error:
            problems = [_sentence(dict(each)) for each in error.errors()]
            wrong = {each["loc"][0] for each in error.errors()}
            config = handler({name: value for name, value in data.items() if name not in wrong})
        problems += config.problems()
        if problems:
            raise ConfigError(problems)
        return config


def _sentence(error: dict[str, Any]) -> str:
    name = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        return f"There is no setting {name}."
    wanted = error["msg"].removeprefix("Input should be ")
    return f"{name} is {msgspec.json.encode(error['input'], enc_hook=repr).decode()}, but must be {wanted}."
