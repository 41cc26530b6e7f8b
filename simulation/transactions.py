"""Producers that commit offsets in transactions, and what stands between them and the group: the brokers with their
log of transactions, a gateway, a relay for each shard.

A producer owns a partition, as the loop of a consumer does that transforms and produces. It fetches its stable offset,
commits a later one in a transaction, and ends that; at times it aborts, crashes, or is not heard. What the brokers have
decided is the truth: a fetch has it or is refused, and in the end every group has it, and nothing is pending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from uuid import NAMESPACE_OID, uuid5

from msgspec import Struct, field

from coordinator_state import decode_group
from group_coordinator.coordinating.transactions.fold import TransactionFold
from schemas.error_codes import ErrorCode
from schemas.events import decode_response_event, encode_request_event
from schemas.kafka.record_batches import RawRecord
from schemas.messages import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    Request,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from schemas.transaction_messages import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from simulation.checker import Violation
from simulation.scenario import ProducerPlan
from simulation.world import START_MS, World

_LATENCY_MS, _MARKER_MS = (2, 40), (5, 3_000)
_LOOK_MS, _POLL_MS, _SAVE_MS, _AGAIN_MS = 1_000, 300, 2_000, 250
_TIMEOUT_MS, _TRANSACTION_MS = 4_000, 12_000
_OPEN_BYTES_MAX = 1 << 20
_OUT_OF_ORDER = 45
_TOPIC = "orders"


class _Transactional(Struct):
    """What the brokers know of a transactional id."""

    producer_id: int
    epoch: int = 0
    begun_ms: int | None = None
    is_ending: bool = False
    sequences: dict[int, int] = field(default_factory=dict)
    """Shard -> the last sequence number of this epoch."""


class Brokers:
    """They keep the log of transactions, and decide. A transaction has an epoch of its own (KIP-890)."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.logs: list[list[RawRecord]] = [[] for _ in world.drivers]
        self.decided: dict[str, int] = {}
        """Transactional id -> the offset that its last committed transaction has committed."""
        self._known: dict[str, _Transactional] = {}

    def begin_anew(self, name: str) -> int | None:
        """Give a new epoch, with which older ones are fenced; None: a transaction ends first."""
        known = self._known.setdefault(name, _Transactional(len(self._known)))
        if known.begun_ms is not None and not known.is_ending:
            self._decide(name, known, committed=False)
        if known.is_ending:
            return None
        known.epoch += 1
        known.sequences.clear()
        return known.epoch

    def append(self, name: str, epoch: int, shard: int, sequence: int, key: bytes, value: bytes) -> int:
        """Append a commit; the first one begins the transaction. Return an error code."""
        known = self._known[name]
        if self.is_fenced(known.epoch, epoch):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if known.is_ending:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        last = known.sequences.get(shard, -1)
        if sequence == last:
            return ErrorCode.NONE  # for a repeat of the last one, which it may not be
        if sequence != last + 1:
            return _OUT_OF_ORDER
        known.sequences[shard] = sequence
        known.begun_ms = self._world.now_ms if known.begun_ms is None else known.begun_ms
        self._write(shard, RawRecord(0, self._now_ms, 0, key, value, known.producer_id, epoch, True))
        return ErrorCode.NONE

    @staticmethod
    def is_fenced(known_epoch: int, epoch: int) -> bool:
        return epoch != known_epoch

    def last_sequence(self, name: str, shard: int) -> int:
        return self._known[name].sequences.get(shard, -1)

    def producer_id(self, name: str) -> int:
        return self._known[name].producer_id

    def end(self, name: str, epoch: int, offset: int, *, committed: bool) -> int:
        """End a transaction in which this offset was the last one, as its producer has been told."""
        known = self._known[name]
        if epoch != known.epoch or known.is_ending:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if known.begun_ms is None:
            return ErrorCode.INVALID_TXN_STATE if committed else ErrorCode.NONE
        if committed:
            self.decided[name] = offset
        self._decide(name, known, committed=committed)
        return ErrorCode.NONE

    def look(self) -> None:
        """Abort what has been open for too long."""
        for name, known in self._known.items():
            is_open = known.begun_ms is not None and not known.is_ending
            if is_open and self._world.now_ms - (known.begun_ms or 0) > _TRANSACTION_MS:
                self._decide(name, known, committed=False)
        self._world.at(self._world.now_ms + _LOOK_MS, self.look)

    @property
    def has_open(self) -> bool:
        return any(known.begun_ms is not None for known in self._known.values())

    @property
    def _now_ms(self) -> int:
        return self._world.now_ms + self._world.broker_ahead_ms

    def _decide(self, name: str, known: _Transactional, *, committed: bool) -> None:
        known.is_ending = True
        dice = self._world.random_streams.of("marker", name, known.epoch)
        self._world.at(self._world.now_ms + dice.randint(*_MARKER_MS), lambda: self._mark(known, committed))

    def _mark(self, known: _Transactional, committed: bool) -> None:
        control = "COMMIT" if committed else "ABORT"
        for shard in known.sequences:
            marker = RawRecord(0, self._now_ms, 0, None, None, known.producer_id, known.epoch + 1, True, control)
            self._write(shard, marker)
        known.epoch += 1
        known.begun_ms = None
        known.is_ending = False
        known.sequences.clear()

    def _write(self, shard: int, record: RawRecord) -> None:
        log = self.logs[shard]
        log.append(record._replace(offset=len(log)))


class Gateway:
    """It owns the sequence numbers; what it remembers of them, a restart forgets. That a commit was appended tells
    nobody anything: only the group answers."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._last: dict[tuple[str, int], tuple[int, int]] = {}

    def commit(self, name: str, epoch: int, shard: int, key: bytes, value: bytes) -> int | None:
        """Append a commit. Return what it is refused with; None: the group will answer."""
        known_epoch, last = self._last.get((name, shard), (-1, -1))
        sequence = self.next_sequence(last) if known_epoch == epoch else None
        for _ in range(2):
            if sequence is None:
                sequence = self._brokers.last_sequence(name, shard) + 1
            code = self._brokers.append(name, epoch, shard, sequence, key, value)
            if code == ErrorCode.NONE:
                self._last[name, shard] = epoch, sequence
                return None
            self._last.pop((name, shard), None)
            sequence = None
            if code != _OUT_OF_ORDER:
                break
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if code == _OUT_OF_ORDER else code

    @staticmethod
    def next_sequence(last: int) -> int:
        return last + 1

    def not_answered(self, name: str) -> None:
        for key in [key for key in self._last if key[0] == name]:
            del self._last[key]

    def restart(self) -> None:
        self._last.clear()


class Relay:
    """Makes events of one shard's log of transactions. When it comes back it begins at its saved position."""

    def __init__(self, world: World, brokers: Brokers, shard: int) -> None:
        self._world, self._log, self._shard = world, brokers.logs[shard], shard
        self._saved = 0, 0
        self.away_until_ms = 0
        self._start()

    def _start(self) -> None:
        self._next, written_to = self._saved
        self._fold = TransactionFold(
            self._shard, len(self._world.drivers), written_to=written_to, open_bytes_max=_OPEN_BYTES_MAX
        )
        self._saved_ms = self._world.now_ms

    def go_away(self, for_ms: int) -> None:
        self.away_until_ms = max(self.away_until_ms, self._world.now_ms + for_ms)
        self._start()

    def poll(self) -> None:
        now_ms = self._world.now_ms
        if now_ms >= max(self.away_until_ms, self._world.broker_back_ms):
            for record in self._log[self._next :]:
                for event in self._fold.take(record):
                    self._world.append(self._shard, event.group_id.encode(), event.value)
            self._next = len(self._log)
            if now_ms - self._saved_ms >= _SAVE_MS:
                self._saved, self._saved_ms = (self._fold.resume_offset(self._next), self._next), now_ms
        self._world.at(now_ms + _POLL_MS, self.poll)

    @property
    def is_done(self) -> bool:
        return self._next == len(self._log)


class TransactionalProducer:
    """One loop that owns partition 0 of a topic for its group."""

    def __init__(self, world: World, transactions: Transactions, plan: ProducerPlan) -> None:
        self.plan, self.name = plan, plan.name
        self._world, self._transactions = world, transactions
        self._shard = world.shard_of(plan.group_id)
        self._epoch: int | None = None
        self._step = 0
        """Counts what it waits for: an answer or a timer of an earlier step means nothing any more."""
        self._position = 0
        self.is_idle = True

    def turn(self) -> None:
        """Begin with what is committed."""
        self.is_idle = self._transactions.is_over
        if self.is_idle:
            return
        if self._epoch is None:
            self._epoch = self._transactions.brokers.begin_anew(self.name)
            if self._epoch is None:
                self._later(_AGAIN_MS, self.turn)
                return
        asked = (OffsetFetchRequestTopic(name=_TOPIC, partition_indexes=(0,)),)
        group = OffsetFetchRequestGroup(group_id=self.plan.group_id, topics=asked)
        self._expects = self._transactions.brokers.decided.get(self.name, -1)
        self._send("OffsetFetch", 9, OffsetFetchRequest(groups=(group,), require_stable=True), self._append)

    def in_trouble(self, from_ms: int, for_ms: int) -> None:
        """Nobody asks how a producer is."""

    def receive(self, value: bytes) -> None:
        """Take an answer of the group."""
        envelope, response = decode_response_event(value)
        if envelope.request_id != self._request_id(self._step):
            return
        if isinstance(response, OffsetFetchResponse):
            self._fetched(response)
        elif isinstance(response, TxnOffsetCommitResponse):
            self._committed(response.topics[0].partitions[0].error_code)

    # ------------------------------------------------------------------------------------------------------ its steps

    def _fetched(self, response: OffsetFetchResponse) -> None:
        partition = response.groups[0].topics[0].partitions[0]
        if partition.error_code is ErrorCode.UNSTABLE_OFFSET_COMMIT:
            self._later(_AGAIN_MS, self.turn)
            return
        if partition.committed_offset != self._expects:
            self._transactions.accuse(
                "FetchesAreStable", f"{self.name} fetches {partition.committed_offset}, and {self._expects} is decided",
                self.plan.group_id,
            )  # fmt: skip
        self._position = max(partition.committed_offset, 0)
        self._go_on()

    def _go_on(self) -> None:
        self._position += self._dice("offset").randint(1, 9)
        self._commit()

    def _commit(self) -> None:
        assert self._epoch is not None
        brokers = self._transactions.brokers
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=self._position)
        request = TxnOffsetCommitRequest(
            transactional_id=self.name, group_id=self.plan.group_id, producer_id=brokers.producer_id(self.name),
            producer_epoch=self._epoch, topics=(TxnOffsetCommitRequestTopic(name=_TOPIC, partitions=(partition,)),),
        )  # fmt: skip
        self._send("TxnOffsetCommit", 5, request, self._carry(self._epoch))

    def _committed(self, code: ErrorCode) -> None:
        if code is ErrorCode.INVALID_PRODUCER_EPOCH:
            self._crash("is fenced")
        elif code is not ErrorCode.NONE:
            self._later(_AGAIN_MS, self._commit)
        elif self._dice("fate").random() < self.plan.crashes:
            self._crash("crashes in its transaction")
        elif self._dice("more").random() < self.plan.goes_on:
            self._go_on()
        else:
            self._end(committed=self._dice("fate", "end").random() >= self.plan.aborts)

    def _end(self, *, committed: bool) -> None:
        assert self._epoch is not None
        code = self._transactions.brokers.end(self.name, self._epoch, self._position, committed=committed)
        self._world.tell(self.name, f"{'commits' if committed else 'aborts'} {self._position}")
        if code != ErrorCode.NONE:
            self._crash("is fenced at the end")
            return
        self._epoch += 1
        self._later(self._dice("pause").choice((0, 20, self.plan.pause_ms)), self.turn)

    def _crash(self, text: str) -> None:
        self._world.tell(self.name, text)
        self._epoch = None
        if self._dice("gateway").random() < self.plan.crashes:
            self._transactions.gateway.restart()
        self._later(self._dice("back").randint(0, 3_000), self.turn)

    def _not_answered(self) -> None:
        self._transactions.gateway.not_answered(self.name)
        if self._dice("patience").random() < 0.5:
            self._crash("is not heard, and begins anew")
        else:
            self.turn()

    # ------------------------------------------------------------------------------------------------------ its network

    def _send(self, api: str, version: int, request: Request, arrive: Callable[[bytes], None]) -> None:
        """Send a request, which may be lost, or come again much later."""
        self._step += 1
        request_id, dice = self._request_id(self._step), self._dice("network")
        value = encode_request_event(
            api, version, request, request_id=request_id, reply_partition=0, client_id=self.name
        )
        self._transactions.answers_to(request_id, self)
        if dice.random() >= self.plan.losses:
            self._world.at(self._world.now_ms + dice.randint(*_LATENCY_MS), lambda: arrive(value))
            if dice.random() < self.plan.copies:
                self._world.at(self._world.now_ms + dice.randint(*_LATENCY_MS) * 150, lambda: arrive(value))
        step = self._step
        self._world.at(
            self._world.now_ms + _TIMEOUT_MS, lambda: self._not_answered() if self._step == step else None
        )

    def _append(self, value: bytes) -> None:
        self._world.append(self._shard, self.plan.group_id.encode(), value)

    def _carry(self, epoch: int) -> Callable[[bytes], None]:
        step, key = self._step + 1, self.plan.group_id.encode()

        def arrive(value: bytes) -> None:
            if self._epoch == epoch and self._step > step:
                return  # a copy of what was answered, in the same transaction: Kafka too would take it for a later one
            code = self._transactions.gateway.commit(self.name, epoch, self._shard, key, value)
            if code is not None and self._step == step:
                self._committed(ErrorCode(code))

        return arrive

    def _later(self, after_ms: int, do: Callable[[], None]) -> None:
        self._step += 1
        step = self._step
        self._world.at(self._world.now_ms + after_ms, lambda: do() if self._step == step else None)

    def _dice(self, *question: str) -> Random:
        return self._world.random_streams.of("producer", self.name, self._step, *question)

    def _request_id(self, step: int) -> str:
        return str(uuid5(NAMESPACE_OID, f"{self.name}/{step}"))


class Transactions:
    """All that a world has of them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.brokers = Brokers(world)
        self.gateway = Gateway(self.brokers)
        self.relays = [Relay(world, self.brokers, shard) for shard in range(len(world.drivers))]
        self.producers = [TransactionalProducer(world, self, plan) for plan in world.scenario.producers]
        self.is_over = False
        self.problems: list[Violation] = []

    def start(self) -> None:
        self._world.relay_goes_away = lambda fault: self.relays[fault.shard].go_away(fault.for_ms)
        self.brokers.look()
        for relay in self.relays:
            relay.poll()
        for producer in self.producers:
            self._world.at(START_MS + producer.plan.start_ms, producer.turn)

    def answers_to(self, request_id: str, producer: TransactionalProducer) -> None:
        self._world.senders[request_id] = producer

    @property
    def is_done(self) -> bool:
        """Whether nobody begins a transaction any more, and all that were begun have ended, for the relays too."""
        producers_rest = all(producer.is_idle for producer in self.producers)
        return producers_rest and not self.brokers.has_open and all(relay.is_done for relay in self.relays)

    def accuse(self, rule: str, message: str, group_id: str) -> None:
        self.problems.append(Violation(rule, message, group_id, self._world.now_ms))

    def check_end(self) -> Iterator[Violation]:
        """Check that every group has what the brokers have decided, and nothing is pending."""
        yield from self.problems
        for producer in self.producers:
            group_id = producer.plan.group_id
            blobs = self._world.drivers[self._world.shard_of(group_id)].states.get(group_id)
            offsets = None if blobs is None else decode_group(*blobs).offsets
            found = None if offsets is None else offsets.get(_TOPIC, 0)
            committed, decided = -1 if found is None else found.offset, self.brokers.decided.get(producer.name, -1)
            if committed != decided:
                message = f"{group_id} has {committed}, and {decided} is decided"
                yield Violation("OffsetsAsDecided", message, group_id, self._world.now_ms)
            if offsets is not None and offsets.has_pending:
                yield Violation("TransactionsEnd", f"{group_id} waits for ever", group_id, self._world.now_ms)
