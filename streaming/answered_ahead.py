"""Before the queries go on: what responders have answered ahead of them must be decided by the same core."""

from __future__ import annotations

from pyspark.sql import SparkSession

from group_coordinator.kafka_topics.bounds import Bounds
from group_coordinator.kafka_topics.errors import NoSuchTopicError, TopicReadError, explaining
from group_coordinator.kafka_topics.reader import TopicReader, offset_of
from schemas.query_progress import ResponderClaim
from streaming.checkpoints import CheckpointError, committed_batch
from streaming.config import StreamingConfig
from streaming.core_hash import core_hash
from streaming.events_tail import open_reader
from streaming.progress_topic import ProgressPublisher, read_progress
from streaming.stored_group import CommittedBatch
from streaming.topics import TopicError, TopicReport, Topics


def begin_progress(
    spark: SparkSession, config: StreamingConfig, report: TopicReport, *, rebuild: bool
) -> ProgressPublisher | None:
    """Publish where the queries of this process begin; return what publishes how they go on, or None without the
    setting `responders`.

    Raises CheckpointError if a responder of another release, or with other settings, has answered what a query is to
    decide. That holds where responders are not wanted any more, too. Raises TopicError if the topic cannot be read.
    """
    topics = report.topics
    try:
        with explaining(config.client_properties), open_reader(config.client_properties) as reader:
            reader.partitions(topics.progress)
            hashes = {
                shard: core_hash(config.operator_config(report.partitions, shard)) for shard in config.shards_here
            }
            batches = {shard: committed_batch(spark, config, shard) for shard in config.shards_here}
            settled = [
                shard
                for shard, batch in batches.items()
                if is_settled_by_others(reader, topics, shard, batch, hashes[shard], is_anew=rebuild and batch is None)
            ]
    except NoSuchTopicError:
        return None
    except TopicReadError as problem:
        if config.responders:
            raise TopicError([str(problem)]) from problem
        return None  # the topic may be hidden from us, because it never was there
    publisher = ProgressPublisher(topics, hashes, config.client_properties)
    for shard in settled:
        publisher.withdraw_claim(shard)
    if not config.responders:
        publisher.close()
        return None
    for shard, batch in batches.items():
        publisher.begin(shard, batch)
    return publisher


def is_settled_by_others(
    reader: TopicReader,
    topics: Topics,
    shard: int,
    committed: CommittedBatch | None,
    own_hash: str,
    *,
    is_anew: bool = False,
) -> bool:
    """Return whether a responder with another hash has answered for the shard, and all of that is decided.

    `is_anew`: all is decided anew in any case. Raises CheckpointError if something is not decided, and KafkaException.
    """
    claim = read_progress(reader, topics.progress, shard).get(ResponderClaim)
    if not isinstance(claim, ResponderClaim) or claim.core_hash == own_hash:
        return False
    begin, end = reader.bounds_when_led(topics.events, shard)
    begin = max(begin, 0 if committed is None else committed.end_offset)
    for message in () if is_anew else reader.read({(topics.events, shard): Bounds(begin, end)}):
        if message.key() is not None:
            raise CheckpointError(
                "A responder of another release, or with other settings of the coordinator, has answered for shard "
                f"{shard}, and the query has not decided the event at offset {offset_of(message)} of {topics.events} "
                "yet: this release might decide otherwise than was answered. Start the former release with its "
                "settings once more, without gateways and responders, until it has read the log to its end. Then "
                "start this one (docs/operations.md)."
            )
    return True
