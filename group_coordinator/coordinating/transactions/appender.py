"""The gateway's side of the log of transactions: it appends commits inside the producers' own transactions.

No client's library does that for another one's transaction, so the requests are made here; kafka-python carries them.
Sequence numbers count the batches of a producer in a partition, and the producer itself writes none there: the appender
owns them. Where it does not know the last one, the partition's leader does. It may not guess: a number that is too low
is answered as a repetition, or lets the brokers refuse the right one until the transaction has ended.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

from kafka.errors import KafkaError
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer.produce import ProduceRequest
from kafka.protocol.producer.transaction import AddPartitionsToTxnRequest
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.structs import TopicPartition

from group_coordinator.coordinating.gateway.config import GatewayError
from group_coordinator.coordinating.gateway.transactions import OnCode
from group_coordinator.coordinating.gateway.versions import COMMIT_OF_VERSION_2, PRODUCE_OF_VERSION_2
from group_coordinator.coordinating.transactions.log_topic import TransactionLogError, insist_on_partitions
from group_coordinator.coordinating.transactions.producer_states import ANSWER_BYTES, DescribeProducers, ProducerStates
from group_coordinator.ground.kafka_topics.errors import TopicReadError
from group_coordinator.ground.monitoring.line_limit import LineLimit
from group_coordinator.watching.watch.python_client import PropertyError, python_properties
from schemas.error_codes import ErrorCode
from schemas.java_hash import group_partition
from schemas.messages import TxnOffsetCommitRequest
from schemas.transaction_messages import AddOffsetsToTxnRequest

_CONNECT_MS = 15_000
_PATIENCE_S = 5.0
"""A commit is not appended later: its producer may have begun another transaction under the same epoch."""
_RETRY_S = 0.1
_KNOWN_S = 5.0
"""So long a sequence number is believed to be the last one: another gateway may have appended since."""
_REMEMBERED_MAX = 20_000
"""Producers whose last sequence number is remembered, and transactional ids whose coordinator is."""
_SEQUENCES = 1 << 31
_BATCH_BYTES = 1_048_588
_TRANSACTION_KEY_TYPE, _ALL_REPLICAS, _MAGIC = 1, -1, 2
_PRODUCE_VERSION, _ADD_VERSION, _FIND_VERSION = 9, 3, 3
"""Later versions of AddPartitionsToTxn are for brokers alone."""
_OUT_OF_ORDER = frozenset({45, 46})
_MOVED = frozenset({3, 5, 6, 7, 13, 19, 20})
"""The leader is another, or not there for a moment: the same bytes are sent again."""
_OF_THE_LOG = frozenset({3, 29, 55})
_OF_THE_PRODUCER = frozenset({47, 48, 49, 51, 53, 90, 120})
"""Its transaction has ended, or is another's: so it is told, and nobody else."""
_log = logging.getLogger(__name__)
_lines = LineLimit(_log, logging.WARNING, "requests to the log of transactions")
_T = TypeVar("_T")


class _Last(NamedTuple):
    epoch: int
    sequence: int
    at_s: float


class _Commit(NamedTuple):
    request: TxnOffsetCommitRequest
    value: bytes
    produce_version: int
    since_s: float


class Appender:
    """This transaction log (`group_coordinator.coordinating.gateway.transactions`) lies on a cluster of Kafka 3.0 or
    later. All but its construction, `connect` and `end` are for the event loop's thread."""

    def __init__(self, properties: Mapping[str, str], topic: str) -> None:
        """`properties` are librdkafka's, of the cluster behind the gateway."""
        self._properties, self._topic = properties, topic
        self._partitions = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._net: Any = None
        self._manager: Any = None
        self._states: ProducerStates | None = None
        self._last: OrderedDict[tuple[int, int], _Last] = OrderedDict()
        """(Producer id, partition) -> what was appended last. For the network's thread, as all below."""
        self._under_way: set[tuple[int, int]] = set()
        self._coordinators: OrderedDict[str, int] = OrderedDict()

    def connect(self, loop: asyncio.AbstractEventLoop, shards: int) -> None:
        """Find the topic. Blocks; raises GatewayError."""
        self._loop, self._partitions = loop, shards
        try:
            insist_on_partitions(self._properties, self._topic, shards)
            settings = python_properties(self._properties) | {
                "max_in_flight_requests_per_connection": 10_000, "receive_message_max_bytes": ANSWER_BYTES,
            }  # fmt: skip
        except (TransactionLogError, TopicReadError, PropertyError) as problem:
            raise GatewayError(f"Offsets in transactions cannot be offered. {problem}") from problem
        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what fails is answered, and told here
        self._net = NetworkSelector(**settings)
        self._manager = KafkaConnectionManager(self._net, **settings)
        self._states = ProducerStates(self._describe, self._manager.call_soon)
        self._net.start()
        try:
            self._manager.bootstrap(_CONNECT_MS)
            self._manager.run(self._know_leaders)
        except KafkaError as problem:
            raise GatewayError(f"The log of transactions cannot be reached: {problem}.") from problem

    def end(self) -> None:
        """Answer nobody any more."""
        if self._net is not None:
            self._manager.call_soon(self._manager.close)
            self._net.stop(1_000)

    def add(self, request: AddOffsetsToTxnRequest, on_code: OnCode) -> None:
        """Add the partition of the group to the producer's transaction."""
        self._submit(partial(self._add, request), on_code)

    def append(self, request: TxnOffsetCommitRequest, version: int, value: bytes, on_refused: OnCode) -> None:
        """Append a commit at once, or not at all: it must not come behind the end of its transaction. From version 5
        on the brokers refuse one that does."""
        produce_version = PRODUCE_OF_VERSION_2 if version >= COMMIT_OF_VERSION_2 else _PRODUCE_VERSION
        commit = _Commit(request, value, produce_version, time.monotonic())
        self._submit(
            partial(self._append, commit),
            lambda code: None if code is ErrorCode.NONE else on_refused(code),
        )

    def forget(self, producer_id: int) -> None:
        """Ask the leaders for this producer's sequence numbers next time."""
        for partition in range(self._partitions):
            self._manager.call_soon(partial(self._last.pop, (producer_id, partition), None))

    # ------------------------------------------------------------------------------------------ the network's thread

    def _submit(self, work: Callable[[], Awaitable[int]], on_code: OnCode) -> None:
        loop = self._loop
        assert loop is not None

        async def run() -> None:
            try:
                code = _code(await work())
            except KafkaError as problem:
                _lines.write("a request about the log of transactions failed: %s", problem)
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            except Exception:  # a defect must not leave a client without an answer
                _log.exception("a request about the log of transactions failed")
                code = ErrorCode.UNKNOWN_SERVER_ERROR
            if not loop.is_closed():
                loop.call_soon_threadsafe(on_code, code)

        self._manager.call_soon(run)

    async def _ask(self, node_id: int, request: Any) -> Any:
        """What waits for its connection is not sent later than this either."""
        patience_ms = int(_PATIENCE_S * 1_000)
        sent = self._manager.send(request, node_id=node_id, request_timeout_ms=patience_ms)
        return await self._manager.wait_for(sent, patience_ms)

    async def _know_leaders(self) -> None:
        await self._manager.cluster.add_topic(self._topic)

    async def _add(self, request: AddOffsetsToTxnRequest) -> int:
        transactional_id = request.transactional_id
        node_id = self._coordinators.get(transactional_id)
        if node_id is None:
            found = await self._ask(
                self._manager.least_loaded_node(),
                FindCoordinatorRequest[_FIND_VERSION](key=transactional_id, key_type=_TRANSACTION_KEY_TYPE),
            )
            if found.error_code:
                return int(found.error_code)
            node_id = int(found.node_id)
            _remember(self._coordinators, transactional_id, node_id)
        partition = group_partition(request.group_id, self._partitions)
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
            name=self._topic, partitions=[partition], version=_ADD_VERSION
        )
        try:
            answer = await self._ask(
                node_id,
                AddPartitionsToTxnRequest[_ADD_VERSION](
                    v3_and_below_transactional_id=transactional_id, v3_and_below_producer_id=request.producer_id,
                    v3_and_below_producer_epoch=request.producer_epoch, v3_and_below_topics=[topic],
                ),
            )  # fmt: skip
        except KafkaError:
            self._coordinators.pop(transactional_id, None)
            raise
        code = int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
        if code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
            self._coordinators.pop(transactional_id, None)
        elif code in _OF_THE_LOG:
            _lines.write("%s cannot be added to a transaction: the brokers answer %s", self._topic, code)
        return code

    async def _append(self, commit: _Commit) -> int:
        place = commit.request.producer_id, group_partition(commit.request.group_id, self._partitions)
        if place in self._under_way:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # it is never made to wait: it comes again
        self._under_way.add(place)
        try:
            return await self._append_alone(commit, place)
        finally:
            self._under_way.discard(place)

    async def _append_alone(self, commit: _Commit, place: tuple[int, int]) -> int:
        epoch = commit.request.producer_epoch
        sequence, has_asked_again = self._next_known(commit, place), False
        code: int = ErrorCode.REQUEST_TIMED_OUT
        while time.monotonic() - commit.since_s < _PATIENCE_S:
            try:
                if sequence is None:
                    sequence = await self._next_of_leader(place, epoch)
                    continue  # that may have taken long
                code = await self._produce(commit, place, sequence)
            except KafkaError as problem:
                _lines.write("%s-%d: no answer to an append: %s", self._topic, place[1], problem)
                code = ErrorCode.REQUEST_TIMED_OUT
            if code == ErrorCode.NONE:
                assert sequence is not None
                _remember(self._last, place, _Last(epoch, sequence, time.monotonic()))
                return code
            self._last.pop(place, None)
            if code in _OUT_OF_ORDER and not has_asked_again:
                sequence, has_asked_again = None, True
            elif code in _MOVED:
                await self._net.sleep(_RETRY_S)
                self._manager.cluster.request_update()
            else:
                break
        if code not in _OF_THE_PRODUCER:
            _lines.write("%s-%d: an append is refused with %s", self._topic, place[1], _code(code).name)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if code in _MOVED else code

    def _next_known(self, commit: _Commit, place: tuple[int, int]) -> int | None:
        """A new epoch begins with 0. Since transactions of version 2 each has one, nobody need be asked about a
        producer that commits often."""
        last, epoch = self._last.get(place), commit.request.producer_epoch
        if last is None or time.monotonic() - last.at_s > _KNOWN_S:
            return None
        if last.epoch == epoch:
            return (last.sequence + 1) % _SEQUENCES
        return 0 if last.epoch < epoch and commit.produce_version >= PRODUCE_OF_VERSION_2 else None

    async def _next_of_leader(self, place: tuple[int, int], epoch: int) -> int:
        """Ask the leader for the last number of the producer in the partition."""
        producer_id, partition = place
        assert self._states is not None
        state = await self._states.of(partition, producer_id)
        return 0 if state is None or state.epoch != epoch else (state.last_sequence + 1) % _SEQUENCES

    async def _describe(self, partition: int) -> bytes:
        answer: bytes = await self._ask(self._leader(partition), DescribeProducers.of(self._topic, partition))
        return answer

    async def _produce(self, commit: _Commit, place: tuple[int, int], sequence: int) -> int:
        producer_id, partition = place
        request, version = commit.request, commit.produce_version
        builder = DefaultRecordBatchBuilder(
            _MAGIC, 0, True, producer_id, request.producer_epoch, sequence, _BATCH_BYTES
        )
        builder.append(0, None, request.group_id.encode(), commit.value, [])
        data = ProduceRequest.TopicProduceData
        records = data.PartitionProduceData(index=partition, records=bytes(builder.build()), version=version)
        answer = await self._ask(
            self._leader(partition),
            ProduceRequest[version](
                transactional_id=request.transactional_id, acks=_ALL_REPLICAS, timeout_ms=int(_PATIENCE_S * 1_000),
                topic_data=[data(name=self._topic, partition_data=[records], version=version)],
            ),
        )  # fmt: skip
        return int(answer.responses[0].partition_responses[0].error_code)

    def _leader(self, partition: int) -> int:
        leader = self._manager.cluster.leader_for_partition(TopicPartition(self._topic, partition))
        if leader is None or leader < 0:
            raise KafkaError(f"{self._topic}-{partition} has no leader")
        return int(leader)


def _remember(kept: OrderedDict[Any, _T], key: object, value: _T) -> None:
    """Keep a value as the latest one, and forget the one that was used longest ago where there are too many."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > _REMEMBERED_MAX:
        kept.popitem(last=False)


def _code(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
