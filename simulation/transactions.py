"""Producers that commit offsets in transactions, with what stands between them and the group (`transaction_log`).

A producer owns a partition, as the loop of a consumer does that transforms and produces. It fetches its stable offset,
commits a later one in a transaction, and ends that; at times it aborts, crashes, or is not heard. What the brokers have
decided is the truth: a fetch has it or is refused, and in the end every group has it, and nothing is pending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from uuid import NAMESPACE_OID, uuid5

from coordinator_state import decode_group
from schemas.error_codes import ErrorCode
from schemas.events import decode_response_event, encode_request_event
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
from simulation.transaction_log import Brokers, Gateway, Relay
from simulation.world import START_MS, World

_LATENCY_MS = 2, 40
_AGAIN_MS, _TIMEOUT_MS = 250, 4_000
_TOPIC = "orders"


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
            commits = self._dice("fate", "end").random() >= self.plan.aborts
            self._later(self._dice("work").choice((0, self.plan.pause_ms)), lambda: self._end(committed=commits))

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
