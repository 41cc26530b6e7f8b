"""The auditor reads the responses topic and compares each answer of a responder with the query's, byte for byte.

A difference stops the responders of the shard and is said loudly: a responder that is wrong must not go on.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress

from confluent_kafka import KafkaException, Message
from msgspec import Struct

from group_coordinator.ground.kafka_topics.bounds import Bounds
from group_coordinator.ground.kafka_topics.errors import TopicReadError, explaining
from group_coordinator.ground.kafka_topics.follower import TopicFollower
from group_coordinator.ground.kafka_topics.reader import TopicReader, headers_of, offset_of, partition_of
from schemas.query_progress import (
    DECIDED_AT_HEADER,
    GATEWAY_PREFIX,
    RESPONDER_PREFIX,
    WRITER_HEADER,
    AnswerDifference,
)
from streaming.stored_group import CommittedBatch
from streaming.watcher import ShardProgress

REMEMBERED_ANSWERS_MAX = 200_000
"""Answers that wait for the query's, to be compared with them."""
SETTLED_ANSWERS_MAX = 50_000
"""Answers of the query that are remembered, and requests that have one, some 950 bytes for both. A copy comes a moment
later, and these are remembered also where nothing waits."""
_DIGITS_MAX = 19
"""Of a number in a header: it has 64 bits."""
_CLOCKS_DIFFER_MS = 10_000
"""Events have the brokers' time, answers that of their writer."""
_FETCHES = {"fetch.min.bytes": "1000000", "fetch.wait.max.ms": "500"}
"""Nobody waits for the auditor: it reads twice a second, and not whenever an answer has come."""
_PIECE_RECORDS, _REST_S = 15, 0.0003
"""How much it compares in one go, a third of a millisecond's work, before it makes room for those who answer. Linux
lets a thread that works on run until its next tick, 4 ms by default, also while others wait for the processor."""
_CONTRADICTED_LINES_MAX = 100
"""The metric counts them all."""
_log = logging.getLogger(__name__)

Identity = tuple[bytes, str, str]
"""Request id, epoch and seq."""


class _Answer(Struct):
    """One answer, as its writers have written it."""

    partition: int
    query: bytes | None = None
    """The digest of the query's answer."""
    query_offset: int | None = None
    responder: bytes | None = None
    """The digest of a responder's answer."""
    responder_offset: int | None = None
    shard: int = -1
    decided_at: int = -1
    read_until: int | None = None
    """The query's answer should lie before this offset, if it is there; None: this end is not known yet."""


class AuditCounts(Struct):
    """What the auditor has seen since its start."""

    compared: int = 0
    responder_first: int = 0
    """Answers, of those that were compared, that the responder had given before the query."""
    differences: int = 0
    forgotten: int = 0
    """Answers of responders that were not compared, because too many came in between."""
    contradicted: int = 0
    """Requests to which Kafka has two answers that differ, whoever wrote them; those of a responder and the query that
    are one answer count as differences."""
    differed_shards: set[int] = set()
    """The shards that a difference was found of: no responder answers for them any more."""


class Auditor:
    """Feed it the records of the responses topic, and what the queries have committed."""

    def __init__(
        self,
        core_hashes: Mapping[int, str],
        on_difference: Callable[[AnswerDifference], None],
        remembered_max: int = REMEMBERED_ANSWERS_MAX,
        *,
        begins: Mapping[int, CommittedBatch] | None = None,
    ) -> None:
        """`core_hashes`: of the shards of this process. `on_difference` is called in the thread that feeds.

        `begins`: the last batch of each shard before the first answer of its query that is fed; a shard without one
        begins with the first batch that is committed.
        """
        self._begins = dict(begins or {})
        self.counts = AuditCounts()
        self._core_hashes = core_hashes
        self._on_difference = on_difference
        self._remembered_max, self._settled_max = remembered_max, min(remembered_max, SETTLED_ANSWERS_MAX)
        self._given: OrderedDict[Identity, _Answer] = OrderedDict()
        """Answers that the query has given. (A large `dict` loses its first item slowly: 85 us of 200,000.)"""
        self._has_forgotten_given = False
        self._unconfirmed: OrderedDict[Identity, _Answer] = OrderedDict()
        """Answers of responders that the query has not given yet."""
        self._overdue: dict[Identity, _Answer] = {}
        """Those of them that the query should have given."""
        self._answered: OrderedDict[bytes, tuple[str, str, bytes]] = OrderedDict()
        """Request id -> epoch, seq and digest of the first answer."""
        self._positions: dict[int, int] = {}
        self._baselines = {shard: batch.end_offset for shard, batch in self._begins.items()}
        """The end of the first batch that was seen of a shard: answers to what lies before were given before."""
        self._decided: dict[int, int] = {}
        """Shard -> what is decided by events before this offset, the query has answered."""
        self._has_news = False
        """A batch was committed since the last look."""
        self._lock = threading.Lock()

    def take(self, message: Message) -> None:
        """Take an answer."""
        _, partition = partition_of(message)
        key, value, offset = bytes(message.key() or b""), message.value() or b"", offset_of(message)
        self._positions[partition] = offset + 1
        headers = headers_of(message)
        identity = key, headers.get("epoch", ""), headers.get("seq", "")
        digest = hashlib.blake2b(value, digest_size=16, salt=partition.to_bytes(8, "big")).digest()
        writer = headers.get(WRITER_HEADER)
        self._compare_with_first(identity, digest, partition, offset)
        if writer is None:
            self._take_of_query(identity, partition, digest, offset)
            return
        shard = _number(writer.removeprefix(RESPONDER_PREFIX).removeprefix(GATEWAY_PREFIX))
        decided_at = _number(headers.get(DECIDED_AT_HEADER, ""))
        if shard not in self._core_hashes:
            return  # whoever runs the query of that shard compares
        begin = self._begins.get(shard)
        if begin is not None and decided_at < (begin.start_offset or 0):
            return  # the query has given it before
        answer = self._given.get(identity) or self._unconfirmed.get(identity)
        if answer is None:
            answer = _Answer(partition, shard=shard, decided_at=decided_at)
            if self._has_forgotten_given and decided_at < self._decided.get(shard, 0):
                self._forget_one()  # the query has given it before, perhaps
                return
            self._unconfirmed[identity] = answer
            while len(self._unconfirmed) > self._remembered_max:
                self._confirmed(next(iter(self._unconfirmed)))
                self._forget_one()
        self._take_of_responder(identity, answer, digest, offset, shard)

    def _compare_with_first(self, identity: Identity, digest: bytes, partition: int, offset: int) -> None:
        """Whoever may write to the topic can write an answer, and write it as the query's."""
        request_id, epoch, seq = identity
        first = self._answered.setdefault(request_id, (epoch, seq, digest))
        if len(self._answered) > self._settled_max:
            self._answered.popitem(last=False)
        if first[:2] != (epoch, seq) and first[2] != digest:
            self._contradicted(identity, partition, offset, "It has another epoch or seq.")

    @property
    def remembered_requests(self) -> int:
        """How many answered requests are remembered."""
        return len(self._answered)

    def _contradicted(self, identity: Identity, partition: int, offset: int, detail: str) -> None:
        self.counts.contradicted += 1
        if self.counts.contradicted <= _CONTRADICTED_LINES_MAX:
            _log.error(
                "Kafka has two different answers to the request %s: %s The later one is at partition %d of the "
                "responses topic, offset %d. Either a client has written one of them (who may write to this topic is a "
                "matter of its ACLs), or the events topic has the request twice. The metric responder_differences "
                "counts them.", identity[0].decode(errors="replace"), detail, partition, offset,
            )  # fmt: skip

    def _take_of_query(self, identity: Identity, partition: int, digest: bytes, offset: int) -> None:
        answer = self._confirmed(identity) or self._given.get(identity) or _Answer(partition)
        before, answer.query, answer.query_offset = answer.query, digest, offset
        is_new = before is None
        if before not in (None, digest):
            self._contradicted(identity, partition, offset, "It has other bytes.")
        self._given[identity] = answer
        if len(self._given) > self._settled_max:
            self._given.popitem(last=False)
            self._has_forgotten_given = True
        if answer.responder is None:
            return
        self.counts.compared += is_new
        self.counts.responder_first += is_new
        if answer.responder != digest:
            self._differ(identity, answer, "The two answers have other bytes.")

    def _take_of_responder(self, identity: Identity, answer: _Answer, digest: bytes, offset: int, shard: int) -> None:
        before, answer.responder, answer.responder_offset, answer.shard = answer.responder, digest, offset, shard
        if answer.query is not None:
            self.counts.compared += before is None
            if answer.query != digest:
                self._differ(identity, answer, "The two answers have other bytes.")
        elif before not in (None, digest):
            self._differ(identity, answer, "The answers of two responders have other bytes.")

    def batch_ended(self, progress: ShardProgress) -> None:
        """Note that a batch is committed, so that all its answers lie on the topic. May be called in any thread."""
        if progress.start_offset is not None and progress.end_offset is not None:
            with self._lock:
                self._baselines.setdefault(progress.shard, progress.end_offset)
                self._decided[progress.shard] = progress.start_offset
                self._has_news = True

    def look_for_missing(self, end_of: Callable[[int], int | None]) -> None:
        """Look for answers of responders that the query should have given and has not. `end_of` returns the present
        end of a partition of the responses topic, or None if it is not known."""
        with self._lock:
            has_news, self._has_news = self._has_news, False
            decided, baselines = dict(self._decided), dict(self._baselines)
        if has_news:  # only then: this is called after every poll, and many answers wait for their batch
            self._overdue |= {
                identity: answer
                for identity, answer in self._unconfirmed.items()
                if baselines.get(answer.shard, 2**63) <= answer.decided_at < decided.get(answer.shard, 0)
            }
        ends: dict[int, int | None] = {}
        for identity, answer in list(self._overdue.items()):
            if answer.read_until is None:
                if answer.partition not in ends and None not in ends.values():  # each question may take its full time
                    ends[answer.partition] = end_of(answer.partition)
                answer.read_until = ends.get(answer.partition)
            elif self._positions.get(answer.partition, 0) >= answer.read_until:
                self._confirmed(identity)
                self._differ(identity, answer, "The query has not given this answer.")

    def _confirmed(self, identity: Identity) -> _Answer | None:
        """Wait no longer for the query's answer; return what waited for it."""
        self._overdue.pop(identity, None)
        return self._unconfirmed.pop(identity, None)

    def _differ(self, identity: Identity, answer: _Answer, detail: str) -> None:
        self.counts.differences += 1
        self.counts.differed_shards.add(answer.shard)
        request_id, epoch, seq = identity
        difference = AnswerDifference(
            core_hash=self._core_hashes[answer.shard],
            shard=answer.shard,
            request_id=request_id.decode(errors="replace"),
            epoch=_number(epoch),
            seq=_number(seq),
            detail=detail,
            responses_partition=answer.partition,
            responder_offset=answer.responder_offset,
            query_offset=answer.query_offset,
        )
        _log.error(
            "An answer of the responder of shard %d differs from the query's: %s Request %s, epoch %s, seq %s, "
            "partition %d of the responses topic, offsets %s and %s. The shard's responders stop.",
            answer.shard, detail, difference.request_id, epoch, seq, answer.partition, answer.responder_offset,
            answer.query_offset,
        )  # fmt: skip
        self._on_difference(difference)

    def _forget_one(self) -> None:
        self.counts.forgotten += 1
        if self.counts.forgotten == 1:
            _log.warning(
                "Some answers of responders are not compared with the query's: more than %d others came in between. "
                "The metric responder_answers_forgotten counts them.", self._remembered_max,
            )  # fmt: skip


class AuditorThread:
    """Feeds an auditor from the responses topic between `start` and `stop`."""

    def __init__(self, auditor: Auditor, client_properties: Mapping[str, str], topic: str, partitions: int) -> None:
        self._auditor, self._topic, self._partitions = auditor, topic, partitions
        self._failure: TopicReadError | None = None
        self._follower = TopicFollower(
            {**client_properties, **_FETCHES}, "auditor", self._take, on_failure=self._failed,
            on_poll=lambda: auditor.look_for_missing(self._end_of),
        )  # fmt: skip

    def start(self, since_ms: int | None = None) -> None:
        """Begin to read at the end, or at the answers since then. Raises TopicReadError."""
        self._follower.start(
            from_end=[(self._topic, number) for number in range(self._partitions)], since_ms=since_ms
        )

    def stop(self) -> None:
        self._follower.stop()

    def require_alive(self) -> None:
        """Raise the error that ended the thread: nobody would compare what responders answer, and nothing say so."""
        if self._failure is not None:
            raise self._failure

    def _failed(self, failure: TopicReadError) -> None:
        self._failure = failure

    def _take(self, messages: list[Message]) -> None:
        for number, message in enumerate(messages, start=1):
            self._auditor.take(message)
            if number % _PIECE_RECORDS == 0:
                time.sleep(_REST_S)

    def _end_of(self, partition: int) -> int | None:
        with suppress(KafkaException):
            return self._follower.reader.bounds(self._topic, partition).end
        return None


def undecided_since_ms(
    client_properties: Mapping[str, str], events_topic: str, begins: Mapping[int, CommittedBatch]
) -> int | None:
    """Return since when responders may have answered what the queries have yet to decide; None: there is nothing.

    `begins`: the last batch of each shard. Raises TopicReadError.
    """
    times_ms: list[int] = []
    with explaining(client_properties), TopicReader(client_properties, "auditor") as reader:
        for shard, batch in begins.items():
            log = reader.bounds_when_led(events_topic, shard)
            begin = max(log.begin, batch.start_offset or 0)
            first = next(reader.read({(events_topic, shard): Bounds(begin, log.end)}), None)
            if first is not None:
                times_ms.append(first.timestamp()[1])
    return min(times_ms) - _CLOCKS_DIFFER_MS if times_ms else None


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) <= _DIGITS_MAX else -1
