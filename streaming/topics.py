"""The coordinator's topics: their names, how they are created when absent, what is checked when they are present.

Topics are never left to the broker's auto-creation: a topic made so would have neither the right cleanup policy nor
the right number of partitions.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass

import msgspec
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, NewTopic, ResourceType

from group_coordinator.ground.errors import ExpectedError
from group_coordinator.ground.kafka_topics.clients import NamedAdminClient, login_problem
from group_coordinator.ground.settings.topic_names import TopicPrefix, Topics
from schemas.settings import setting

# Headers, key and the framing of a batch, beyond the record's value.
RECORD_OVERHEAD_BYTES = 65_536

LOG_APPEND_TIME = "LogAppendTime"
_DEFAULT_REPLICATION = 3
_HOUR_MS = 3_600_000
_NOT_YET = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE)


class TopicError(ExpectedError):
    """The topics are not as the coordinator needs them: one sentence for each mistake, all of them in `mistakes`."""

    def __init__(self, mistakes: list[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(mistakes))


@dataclass(frozen=True, kw_only=True)
class TopicSettings(TopicPrefix):
    """How the topics are named and created; `shards` and the size limits are also checked on topics that exist.

    This class is the one home of these settings. Fields without a text are none.
    """

    shards: int = setting(
        1, "Partitions of the events topic; each is one shard with its own query and clock. Fixed for the life of the "
        "topic.", at_least=1)
    responses_partitions: int = setting(
        8, "Partitions of the responses topic when it is created; a sender reads one of them.", at_least=1)
    offsets_partitions: int = setting(
        50, "Partitions of the offsets topic when it is created, as of Kafka's `__consumer_offsets`.", at_least=1)
    assignments_partitions: int = 1
    history_partitions: int = 1
    dead_letters_partitions: int = 1
    replication_factor: int | None = setting(
        None, "Replicas of topics that are created. Default: 3, or as many as there are brokers where they are "
        "fewer.", at_least=1)
    event_max_bytes: int = setting(
        1_048_588, "Largest event that the events topic takes, when it is created.", at_least=1_024)
    output_max_bytes: int = setting(
        4_194_304, "Largest record that is written; at least 64 KiB above the largest event, which must fit into a "
        "dead letter.")
    events_retention_ms: int = setting(
        -1, "How long events are kept, when the topic is created; -1: for ever. They are the log that all else follows "
        "from.", at_least=-1)
    responses_retention_ms: int = setting(
        _HOUR_MS, "How long answers are kept, when the topic is created.", at_least=-1)
    history_retention_ms: int = setting(
        -1, "How long history is kept, when the topic is created; -1: for ever.", at_least=-1)
    dead_letters_retention_ms: int = setting(
        -1, "How long dead letters are kept, when the topic is created; -1: for ever.", at_least=-1)

    responders: bool = setting(
        False, "Let responders answer ahead of the query: publish how far the query of each shard is, and compare what "
        "they answer with what the query answers. Without it no responder starts.")


_UNCOMPRESSED = "uncompressed"
_PROGRESS_SEGMENT_MS = "600000"
"""The topic gets some records a second, and is read from its beginning at each start: older ones must soon be gone."""


class TopicReport(msgspec.Struct, frozen=True, kw_only=True):
    """`ensure_topics` reports what it found and did."""

    topics: Topics
    partitions: Mapping[str, int]
    """Partition count of each topic, by its name."""
    created: tuple[str, ...]
    warnings: tuple[str, ...]
    """Sentences about what will work, but not as well as it could."""
    compressed_events: bool = False
    """Whether the events topic keeps batches as their senders compressed them: a small one may hold gigabytes."""


class _Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One topic as it is created."""

    name: str
    partitions: int
    config: dict[str, str]


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """One topic as it is."""

    partitions: int
    config: dict[str, str]

    @property
    def max_message_bytes(self) -> int:
        return int(self.config["max.message.bytes"])


def check_topics(admin: AdminClient, settings: TopicSettings, timeout_s: float = 30.0) -> None:
    """Check those that are there, and create none. Raises TopicError."""
    _raise_if(_mistakes(settings, _find(admin, _plans(settings), timeout_s)[0]))


def ensure_topics(admin: AdminClient, settings: TopicSettings | None = None, timeout_s: float = 30.0) -> TopicReport:
    """Create the topics that are absent and check those that are present.

    Nothing is created when a topic that is present is wrong. Two processes may do this at once.
    Raises TopicError with every mistake, or when Kafka does not answer or refuses.
    """
    settings = settings or TopicSettings()
    plans = _plans(settings)
    topics, brokers = _find(admin, plans, timeout_s)
    _raise_if(_mistakes(settings, topics))
    absent = [plan for plan in plans if plan.name not in topics]
    if absent:
        replication = settings.replication_factor or min(_DEFAULT_REPLICATION, brokers)
        created = _create(admin, absent, replication, timeout_s)
        topics = _find_all(admin, plans, timeout_s)
        # A topic that somebody else made meanwhile, or a broker that does not do as told, is no better than an old one.
        _raise_if(_mistakes(settings, topics))
    else:
        created = []
    return TopicReport(
        topics=settings.topics,
        partitions={plan.name: topics[plan.name].partitions for plan in plans},
        created=tuple(created),
        warnings=tuple(_warnings(settings, topics)),
        compressed_events=topics[settings.topics.events].config["compression.type"] != _UNCOMPRESSED,
    )


def _plans(settings: TopicSettings) -> list[_Plan]:
    topics = settings.topics
    outputs = {"max.message.bytes": str(settings.output_max_bytes + RECORD_OVERHEAD_BYTES)}

    def kept(retention_ms: int) -> dict[str, str]:
        return {"cleanup.policy": "delete", "retention.ms": str(retention_ms)}

    events = {
        "message.timestamp.type": LOG_APPEND_TIME,
        "max.message.bytes": str(settings.event_max_bytes),
        # The limit above is one of batches as they are stored: compressed, a hundred bytes may be a record of a
        # megabyte.
        "compression.type": _UNCOMPRESSED,
    }
    compacted = {"cleanup.policy": "compact", **outputs}
    rows: list[tuple[str, int, dict[str, str]]] = [
        (topics.events, settings.shards, {**kept(settings.events_retention_ms), **events}),
        (topics.responses, settings.responses_partitions, {**kept(settings.responses_retention_ms), **outputs}),
        (topics.assignments, settings.assignments_partitions, compacted),
        (topics.offsets, settings.offsets_partitions, compacted),
        (topics.history, settings.history_partitions, {**kept(settings.history_retention_ms), **outputs}),
        (
            topics.dead_letters,
            settings.dead_letters_partitions,
            {**kept(settings.dead_letters_retention_ms), **outputs},
        ),
        (topics.topics, settings.shards, {"cleanup.policy": "compact"}),
        (topics.progress, settings.shards, {"cleanup.policy": "compact", "segment.ms": _PROGRESS_SEGMENT_MS}),
    ]
    if settings.responders:
        rows.append((topics.differences, 1, kept(-1)))
    return [_Plan(name=name, partitions=partitions, config=config) for name, partitions, config in rows]


def _find(admin: AdminClient, plans: list[_Plan], timeout_s: float) -> tuple[dict[str, _Found], int]:
    """Those of the planned topics that exist, and the number of brokers."""
    try:
        metadata = admin.list_topics(timeout=timeout_s)
    except KafkaException as problem:
        where, refused = "", None
        if isinstance(admin, NamedAdminClient):
            where, refused = f" at {admin.bootstrap_servers}", login_problem(admin.client_properties)
        silent = f"Kafka{where} does not answer within {timeout_s:g} s: {_text(problem)}. Check the bootstrap servers."
        raise TopicError([refused or silent]) from problem
    present = [plan.name for plan in plans if plan.name in metadata.topics]
    configs: dict[str, dict[str, str]] = {}
    mistakes: list[str] = []
    for name, future in _describe_configs(admin, present, timeout_s).items():
        try:
            configs[name] = {key: str(entry.value) for key, entry in future.result().items()}
        except KafkaException as problem:
            if problem.args[0].code() not in _NOT_YET:
                mistakes.append(f"{name}: its settings cannot be read: {_text(problem)}.")
    _raise_if(mistakes)
    topics = {
        name: _Found(partitions=len(metadata.topics[name].partitions), config=config)
        for name, config in configs.items()
    }
    return topics, len(metadata.brokers)


def _describe_configs(
    admin: AdminClient, names: list[str], timeout_s: float
) -> dict[str, Future[dict[str, ConfigEntry]]]:
    if not names:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    futures = admin.describe_configs(resources, request_timeout=timeout_s)
    return {resource.name: future for resource, future in futures.items()}


def _find_all(admin: AdminClient, plans: list[_Plan], timeout_s: float) -> dict[str, _Found]:
    """Return all planned topics, once the brokers know those that were just created."""
    deadline = time.monotonic() + timeout_s
    while True:
        topics, _ = _find(admin, plans, timeout_s)
        unseen = [plan.name for plan in plans if plan.name not in topics]
        if not unseen:
            return topics
        if time.monotonic() >= deadline:
            raise TopicError([f"{name} was created but is not to be seen after {timeout_s:g} s." for name in unseen])
        time.sleep(0.05)


def _create(admin: AdminClient, plans: list[_Plan], replication_factor: int, timeout_s: float) -> list[str]:
    futures: dict[str, Future[None]] = admin.create_topics(
        [NewTopic(plan.name, plan.partitions, replication_factor, config=plan.config) for plan in plans],
        operation_timeout=timeout_s,
        request_timeout=timeout_s,
    )
    created: list[str] = []
    mistakes: list[str] = []
    for plan in plans:
        try:
            futures[plan.name].result()
            created.append(plan.name)
        except KafkaException as problem:
            if problem.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                continue
            config = ", ".join(f"{name}={value}" for name, value in plan.config.items())
            mistakes.append(
                f"{plan.name} cannot be created: {_text(problem)}. "
                f"Create it yourself with {plan.partitions} partitions, {replication_factor} replicas and {config}."
            )
    _raise_if(mistakes)
    return created


def _mistakes(settings: TopicSettings, topics: Mapping[str, _Found]) -> list[str]:
    mistakes: list[str] = []
    events = topics.get(settings.topics.events)
    if events and events.partitions != settings.shards:
        mistakes.append(
            f"{settings.topics.events} has {events.partitions} partitions but --shards is {settings.shards}: "
            "each partition is one shard, and their number is fixed for the life of the topic."
        )
    for name, content in (
        (settings.topics.topics, "what it knows of the cluster's topics"),
        (settings.topics.progress, "how far its query is"),
    ):
        topic = topics.get(name)
        if topic and topic.partitions != settings.shards:
            mistakes.append(
                f"{name} has {topic.partitions} partitions but --shards is {settings.shards}: "
                f"each shard keeps in its own {content}. Delete the topic: it is made anew."
            )
    timestamp_type = events.config["message.timestamp.type"] if events else LOG_APPEND_TIME
    if timestamp_type != LOG_APPEND_TIME:
        mistakes.append(senders_times(settings.topics.events, timestamp_type))
    input_max_bytes = events.max_message_bytes if events else settings.event_max_bytes
    output_max_bytes = max(settings.output_max_bytes, input_max_bytes + RECORD_OVERHEAD_BYTES)
    if settings.output_max_bytes < input_max_bytes + RECORD_OVERHEAD_BYTES:
        mistakes.append(
            f"The output limit is {settings.output_max_bytes} bytes, but an event may have {input_max_bytes}, which "
            f"must fit into a dead letter: set it to {input_max_bytes + RECORD_OVERHEAD_BYTES} or more."
        )
    for plan in _plans(settings):
        topic = topics.get(plan.name)
        if topic is None:
            continue
        policy, planned = topic.config["cleanup.policy"], plan.config["cleanup.policy"]
        if policy != planned:
            mistakes.append(
                f"{plan.name} has cleanup.policy={policy}: {_POLICY_REASONS[planned]}; set it to {planned}."
            )
        if plan.name in settings.topics.outputs and topic.max_message_bytes < output_max_bytes:
            mistakes.append(
                f"{plan.name} has max.message.bytes={topic.max_message_bytes}, but records of {output_max_bytes} bytes "
                f"may be written to it: set it to {output_max_bytes + RECORD_OVERHEAD_BYTES}."
            )
    return mistakes


def senders_times(events: str, timestamp_type: str) -> str:
    """Return what is wrong with an events topic whose records have their senders' times."""
    return (
        f"{events} has message.timestamp.type={timestamp_type}: whoever sends a tick would say when it was sent, and "
        f"which ticks count is decided by that; set it to {LOG_APPEND_TIME}."
    )


_POLICY_REASONS = {
    "delete": "compaction would drop all records of a key but the last",
    "compact": "it is read as a table, and deletion by age would drop live groups and offsets",
}


def _warnings(settings: TopicSettings, described: Mapping[str, _Found]) -> list[str]:
    topics, warnings = settings.topics, []
    compression_type = described[topics.events].config["compression.type"]
    if compression_type != _UNCOMPRESSED:
        warnings.append(
            f"{topics.events} has compression.type={compression_type}: what a sender compressed may take a thousand "
            f"times as much memory as max.message.bytes allows; set it to {_UNCOMPRESSED}."
        )
    retention_ms = int(described[topics.events].config["retention.ms"])
    if 0 <= retention_ms < 24 * _HOUR_MS:
        warnings.append(
            f"{topics.events} has retention.ms={retention_ms}: a coordinator that is down for longer than that loses "
            "requests."
        )
    return warnings


def _raise_if(mistakes: list[str]) -> None:
    if mistakes:
        raise TopicError(mistakes)


def _text(problem: KafkaException) -> str:
    error = problem.args[0]
    return (error.str() if isinstance(error, KafkaError) else str(error)).rstrip(".")
