"""What responders have answered ahead of the queries: it must be decided by the same core, and the clock may go on as
far as it is answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from confluent_kafka import Message
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from coordinator_state import ClassicGroup, decode_group
from group_coordinator.ground.kafka_topics.bounds import Bounds
from group_coordinator.ground.kafka_topics.errors import NoSuchTopicError, TopicReadError, explaining
from group_coordinator.ground.kafka_topics.follower import TopicFollower
from group_coordinator.ground.kafka_topics.reader import TopicReader, offset_of, partition_of
from group_coordinator.ground.settings.topic_names import Topics
from schemas.query_progress import QueryProgress, ResponderClaim, ResponderProgress, decode_progress
from streaming.checkpoints import REMEDY, CheckpointError, committed_batch
from streaming.config import StreamingConfig
from streaming.core_hash import core_hash
from streaming.events_tail import last_tick_ms, open_reader
from streaming.progress_topic import ProgressPublisher, PublishedRecord, read_progress
from streaming.shard_state import read_shard_state
from streaming.stored_group import CommittedBatch, StateInPieces, StoredGroup
from streaming.topics import TopicError, TopicReport


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
            batches = {shard: committed_batch(spark, config, shard) for shard in config.shards_here}
            return _begin(reader, config, report, batches, partial(read_shard_state, spark, config), rebuild=rebuild)
    except NoSuchTopicError:
        return None
    except TopicReadError as problem:
        if config.responders:
            raise TopicError([str(problem)]) from problem
        return None  # the topic may be hidden from us, because it never was there


def _begin(
    reader: TopicReader,
    config: StreamingConfig,
    report: TopicReport,
    batches: Mapping[int, CommittedBatch | None],
    read_state: Callable[[int], StateInPieces],
    *,
    rebuild: bool,
) -> ProgressPublisher | None:
    topics, fences, ahead_max_ms = report.topics, dict[int, int](), config.group.tick_ahead_bound_ms
    hashes = {shard: core_hash(config.operator_config(report.partitions, shard)) for shard in batches}
    published = {shard: read_progress(reader, topics.progress, shard).get(QueryProgress) for shard in batches}

    def settled() -> list[int]:
        others = [
            shard
            for shard, batch in batches.items()
            if is_settled_by_others(
                reader, topics, shard, batch, hashes[shard],
                fence=fences.get(shard), is_anew=rebuild and batch is None,
            )
        ]  # fmt: skip
        for shard in others:
            batch, clock_ms = batches[shard], last_tick_ms(reader, topics.events, shard, ahead_max_ms)
            if batch is not None and clock_ms is not None and clock_ms > batch.clock_ms:
                require_nobody_waits(read_state, shard, clock_ms)
        return others

    before = settled()
    changed = [shard for shard in batches if shard in before or _is_of_another(published[shard], hashes[shard])]
    publisher = ProgressPublisher(topics, hashes, config.client_properties)
    for shard in changed:
        clock_ms = last_tick_ms(reader, topics.events, shard, ahead_max_ms)
        if clock_ms is not None:
            fences[shard] = publisher.fence(shard, clock_ms)
    for shard in {*before, *settled()}:
        publisher.withdraw_claim(shard)
    for shard in batches if config.responders else changed:  # those of another release end
        publisher.begin(shard, batches[shard], published[shard])
    # One may have begun since the look. Who claims from now on looks once more, before it answers, and refuses.
    since = settled()
    if not config.responders:
        for shard in since:
            publisher.withdraw_claim(shard)
        publisher.close()
        return None
    if rebuild or before or since:
        publisher.begins.clear()  # what was answered before may be of another release
    return publisher


def _is_of_another(published: PublishedRecord | None, own_hash: str) -> bool:
    last = None if published is None else published.record
    return isinstance(last, QueryProgress) and last.core_hash != own_hash


def is_settled_by_others(
    reader: TopicReader,
    topics: Topics,
    shard: int,
    committed: CommittedBatch | None,
    own_hash: str,
    *,
    fence: int | None = None,
    is_anew: bool = False,
) -> bool:
    """Return whether a responder with another hash has answered for the shard, and all of that is decided.

    `fence`: such a responder does not answer what comes after this place of the log. `is_anew`: all is decided anew in
    any case. Raises CheckpointError if something is not decided, and KafkaException.
    """
    published = read_progress(reader, topics.progress, shard).get(ResponderClaim)
    claim = None if published is None else published.record
    if not isinstance(claim, ResponderClaim) or claim.core_hash == own_hash:
        return False
    begin, end = reader.bounds_when_led(topics.events, shard)
    begin, end = max(begin, 0 if committed is None else committed.end_offset), end if fence is None else fence
    for message in () if is_anew else reader.read({(topics.events, shard): Bounds(begin, end)}):
        if message.key() is not None:
            raise _undecided(shard, f"the event at offset {offset_of(message)} of {topics.events}")
    return True


def require_nobody_waits(read_state: Callable[[int], StateInPieces], shard: int, clock_ms: int) -> None:
    """Raise CheckpointError if a member of a group waits, and a timer is due that may answer it: a responder fires it
    at its tick, the query a batch later. `clock_ms`: of the log."""
    try:
        groups = ((key, group) for piece in read_state(shard).pieces for key, group in piece.items())
        for key, group in groups:
            is_due = group.next_deadline_ms is not None and group.next_deadline_ms <= clock_ms
            if is_due and _has_waiting_members(group):
                raise _undecided(shard, f"what the members of group {key.decode(errors='replace')!r} are waiting for")
    except PySparkException as problem:
        raise CheckpointError(f"The state of shard {shard} cannot be read: {problem}. {REMEDY}") from problem


def _has_waiting_members(stored: StoredGroup) -> bool:
    body = decode_group(stored.membership, stored.offsets).body
    return isinstance(body, ClassicGroup) and any(
        member.awaiting_join is not None or member.awaiting_sync is not None for member in body.members.values()
    )


def _undecided(shard: int, what: str) -> CheckpointError:
    return CheckpointError(
        "A responder of another release, or with other settings of the coordinator, has answered for shard "
        f"{shard}, and the query has not decided {what} yet: this release might decide otherwise than was answered. "
        "Start the former release with its settings once more, without gateways and responders, until it has read the "
        "log to its end. Then start this one (docs/operations.md)."
    )


class AnsweredClocks:
    """Follows how far responders have answered, between `start` and `stop`."""

    def __init__(
        self,
        client_properties: Mapping[str, str],
        progress_topic: str,
        core_hashes: Mapping[int, str],
        on_answered: Callable[[int, int], None],
    ) -> None:
        """`core_hashes`: of the shards of this process. `on_answered` is called with a shard and the clock up to which
        a responder with its hash has answered; in a thread of its own."""
        self._core_hashes, self._on_answered = core_hashes, on_answered
        self._partitions = [(progress_topic, shard) for shard in core_hashes]
        self._properties = client_properties
        self._follower: TopicFollower | None = None

    def start(self) -> None:
        """Begin to read. Raises TopicError."""
        follower = TopicFollower(self._properties, "answered", self.take)
        try:
            follower.start(from_end=self._partitions)
        except TopicReadError as problem:
            raise TopicError([str(problem)]) from problem
        self._follower = follower

    def stop(self) -> None:
        if self._follower is not None:
            self._follower.stop()

    def take(self, messages: list[Message]) -> None:
        """Take records of the progress topic."""
        for message in messages:
            _, shard = partition_of(message)
            record = decode_progress(message.value() or b"")
            if isinstance(record, ResponderProgress) and record.core_hash == self._core_hashes[shard]:
                self._on_answered(shard, record.clock_ms)
