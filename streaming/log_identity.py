"""A checkpoint is of one log: it goes on from offsets of a topic, and a topic that was deleted and made anew has others
at them. So the ids of the topics are kept with the checkpoint, and another id is refused before anything is written.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaException
from pyspark.sql import SparkSession

from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.described import topic_ids_of
from group_coordinator.ground.settings.topic_names import Topics
from streaming.checkpoints import CheckpointError, Directory, checkpoint_of
from streaming.config import StreamingConfig
from streaming.events_tail import open_reader

_log = logging.getLogger(__name__)


def kept_topics(topics: Topics) -> tuple[str, ...]:
    """Return the topics that a checkpoint is of: the log, and the outputs that are written once."""
    return topics.events, topics.assignments, topics.offsets, topics.history


def require_same_log(spark: SparkSession, config: StreamingConfig, shards: Iterable[int]) -> None:
    """Raise CheckpointError if the checkpoint of one of these shards was made with other topics than those that are
    there, or if Kafka does not tell. Topics that are absent are others, so this is asked before they are made."""
    found = _found(config)
    for shard in shards:
        require_same_topics(spark, config, shard, found)


def _found(config: StreamingConfig) -> dict[str, str | None]:
    names = kept_topics(config.topics)
    try:
        return topic_ids_of(new_admin_client(config.client_properties), names)
    except (KafkaException, TimeoutError) as problem:
        raise CheckpointError(
            f"Kafka does not tell the ids of {names[0]} and its outputs, which are compared with the checkpoint's: "
            f"{problem}."
        ) from problem


def require_same_topics(
    spark: SparkSession, config: StreamingConfig, shard: int, found: Mapping[str, str | None]
) -> None:
    """Compare one shard's checkpoint with the topics that were found. Raises CheckpointError."""
    directory = Directory(spark, checkpoint_of(config, shard))
    if not directory.has_batches():
        return  # it begins at the beginning, whatever the log is
    events = config.topics.events
    noted = directory.topic_ids()
    if not noted:
        _require_fitting(directory, config, shard, events in found)
        if found.get(events) is not None:
            _log.warning(
                "The checkpoint %s does not say of which %s it is. Its offsets fit, so it is taken for one of the "
                "topic that is there, whose id is noted with it.", directory.path, events,
            )  # fmt: skip
            note_topics(directory, found)
        return
    for name, topic_id in noted.items():
        present = found.get(name)
        if name not in found or (present is not None and present != topic_id):
            raise CheckpointError(_another(name, events, directory.path, topic_id, present))


def note_topics(directory: Directory, found: Mapping[str, str | None]) -> None:
    """Write down which topics a checkpoint is of, as far as the brokers tell ids (before Kafka 2.8 they do not)."""
    directory.note_topic_ids({name: topic_id for name, topic_id in found.items() if topic_id is not None})


def note_new_checkpoints(spark: SparkSession, config: StreamingConfig) -> None:
    """Note the ids of the topics, which are there, with the checkpoints that have no batch yet. Raises CheckpointError.
    """
    found = _found(config)
    for shard in config.shards_here:
        directory = Directory(spark, checkpoint_of(config, shard))
        if not directory.has_batches():
            note_topics(directory, found)


def log_is_gone(topic: str, events: str) -> str:
    """Return what is said when a topic of the coordinator is deleted while it runs."""
    if topic != events:
        return (
            f"{topic} was deleted while the coordinator ran: what was written to it is gone. Delete the other output "
            "topics, name a new directory by --checkpoint and start once with --rebuild, which writes them anew from "
            "the events topic (docs/recovery.md)."
        )
    return f"{events} was deleted while the coordinator ran, and with it the log. {_NEW_PREFIX}"


_NEW_PREFIX = (
    "Save the committed offsets by `group-coordinator offsets export`, start under a new --topic-prefix and bring them "
    "back by `group-coordinator offsets import` (docs/recovery.md)."
)


def _another(name: str, events: str, path: str, topic_id: str, present: str | None) -> str:
    is_now = "it is not there any more" if present is None else f"the topic that is there has the id {present}"
    what = (
        f"The checkpoint {path} is of another {name} than there is: that one had the id {topic_id}, and {is_now}. "
        "Somebody deleted it"
    )
    if name == events:
        return (
            f"{what}, and with it the log that the groups follow from: going on would mix two logs. If it is another "
            f"cluster, name that one's checkpoint. Else: {_NEW_PREFIX}"
        )
    return (
        f"{what}. Name a new directory by --checkpoint and start once with --rebuild, which decides all events anew "
        "from the beginning of the events topic and writes the outputs again (docs/recovery.md)."
    )


def _require_fitting(directory: Directory, config: StreamingConfig, shard: int, is_there: bool) -> None:
    """Raise CheckpointError if the log does not reach as far as a checkpoint that does not name it."""
    events = config.topics.events
    planned = directory.planned_end(events, shard)
    end = 0
    if is_there:
        with open_reader(config.client_properties) as reader:
            end = reader.bounds_when_led(events, shard).end
    if planned is not None and planned > end:
        raise CheckpointError(
            f"The checkpoint {directory.path} is of another {events} than there is: it has read up to offset {planned} "
            f"of partition {shard}, and the topic {f'ends at {end}' if is_there else 'is not there'}. Somebody deleted "
            f"it, and with it the log that the groups follow from. If it is another cluster, name that one's "
            f"checkpoint. Else: {_NEW_PREFIX}"
        )

