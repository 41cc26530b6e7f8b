"""No OffsetFetch sees an older offset than a commit that was answered before it was sent.

Both are events of one log, and all answers follow from it. So the promise holds whoever answers: the query or one of
several responders, before or after one is killed, behind any gateway, where requests that are in doubt come again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, cast

import pytest

from group_coordinator.coordinating.gateway.answer_sizes import AnswerSizes
from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.coordinator_client import EventsClient
from group_coordinator.coordinating.gateway.group_events import GroupEvent
from group_coordinator.coordinating.gateway.handover import TopicRecord
from group_coordinator.coordinating.gateway.metrics import GatewayMetrics
from group_coordinator.coordinating.responder.answering import AnsweringShard
from schemas.error_codes import ErrorCode
from schemas.events import decode_request_event, encode_tick
from schemas.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    Response,
)
from schemas.output_records import OutputRecord
from schemas.records_file import Record
from streaming.stored_group import ShardState
from tests.coordinating.gateway.told_loop import Loop, Producer
from tests.coordinating.responder.query_batches import states_after_batches
from tests.streaming.replays import CONFIG

OPERATOR = CONFIG.operator_config()
EMPTY = ShardState(batch_id=-1, start_offset=0, end_offset=0, clock_ms=0, groups={})
START_MS = 1_000_000
GROUPS, PARTITIONS = ("a", "b"), 2
GATEWAYS, CLIENTS, RESPONDERS, STEPS = 2, 5, 3, 3_000
ANSWER_TIMEOUT_S = GatewaySettings(bootstrap_servers="unused").answer_timeout_ms / 1_000
Place = tuple[str, int]
"""Group and partition."""


class World:
    """A log, those who answer from it, and clients behind gateways: each step is taken by one of them."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(f"answered commits {seed}")
        self.log: list[Record] = []
        self.answers: list[OutputRecord] = []
        """The responses topic, in the order in which it was written."""
        self.writers = [Writer(self, is_query=number == 0) for number in range(RESPONDERS + 1)]
        self.gateways = [Gateway(self, number) for number in range(GATEWAYS)]
        self.clients = [Client(self) for _ in range(CLIENTS)]
        self.committed_at: dict[int, int] = {}
        """Offset that was committed -> place of the commit in the log."""
        self.answered: defaultdict[Place, int] = defaultdict(lambda: -1)
        """The last place in the log of a commit that was answered."""
        self._commits = 0
        self.fetches = 0
        self.fetches_after_doubt = 0
        self.append(None, encode_tick(START_MS))

    def append(self, key: bytes | None, value: bytes) -> None:
        offset = len(self.log)
        self.log.append(Record(partition=0, offset=offset, timestamp_ms=START_MS, key=key, value=value))

    def next_offset(self) -> int:
        """Return an offset that nobody has committed yet. Clients go back, too."""
        self._commits += 1
        return self._commits if self.dice.random() < 0.5 else 1_000_000 - self._commits

    def step(self) -> None:
        dice = self.dice
        gateway = dice.choice(self.gateways)
        steps: dict[Callable[[], None], float] = {
            dice.choice(self.clients).ask: 6,
            gateway.write: 8,
            gateway.read: 8,
            gateway.lose_patience: 0.2,
            dice.choice(self.writers).answer: 12,
            dice.choice(self.writers[1:]).die: 0.5,
            partial(self.append, None, encode_tick(START_MS + len(self.log))): 1,
        }
        (step,) = dice.choices(list(steps), list(steps.values()))
        step()


class Writer:
    """A responder, or the query: it reads the log from somewhere on and writes answers."""

    def __init__(self, world: World, *, is_query: bool) -> None:
        self._world, self._is_query = world, is_query
        self._shard = AnsweringShard(OPERATOR, EMPTY)

    def answer(self) -> None:
        """Take an event, or the query a batch of them. A responder may be killed before it has written the answer."""
        log, dice = self._world.log, self._world.dice
        for record in log[self._shard.next_offset :][: 5 if self._is_query else 1]:
            answers = self._shard.take(record.key, record.value, record.offset or 0, record.timestamp_ms or 0)
            if not self._is_query and dice.random() < 0.02:
                return self.die()
            self._world.answers += answers

    def die(self) -> None:
        """Begin anew with a state of the query."""
        batch_records = self._world.dice.randrange(1, 10)
        states = [EMPTY, *states_after_batches(self._world.log, OPERATOR, batch_records)]
        self._shard = AnsweringShard(OPERATOR, self._world.dice.choice(states))


class Gateway:
    """The gateway's own client of the coordinator; what it has sent lies in its queue for a while."""

    def __init__(self, world: World, reply_partition: int) -> None:
        self._world, self._reply_partition = world, reply_partition
        self._producer, self._loop = Producer(), Loop()
        self._client = EventsClient(
            GatewaySettings(bootstrap_servers="unused"), GatewayMetrics(), AnswerSizes(), lambda problem: None
        )
        self._client.attach(cast(Any, self._loop), cast(Any, self._producer), 1, reply_partition)
        self._written = self._read = 0

    def ask(self, api: str, request: OffsetCommitRequest | OffsetFetchRequest, group: str, client: Client) -> None:
        event = GroupEvent(
            group_id=group, api=api, api_version=8, client_id="c", client_host="/h", new_member_id=None, request=request
        )
        self._client.ask(event, client.take)

    def write(self) -> None:
        """Have the log take the first event of the queue."""
        for _, value, key, _ in self._producer.sent[self._written :][:1]:
            self._written += 1
            self._world.append(key, value)
            _, request = decode_request_event(key.decode(), value)
            if isinstance(request, OffsetCommitRequest):
                self._world.committed_at[offset_of(request)] = len(self._world.log) - 1

    def read(self) -> None:
        """Take the next answers of its partition; those that nobody waits for any more are dropped."""
        new = self._world.answers[self._read :][: self._world.dice.randrange(1, 6)]
        self._read += len(new)
        self._client.read(
            [
                TopicRecord(answer.key or b"", answer.value, 0)
                for answer in new
                if answer.partition == self._reply_partition
            ]
        )

    def lose_patience(self) -> None:
        """What was sent is in doubt; the log may take it still."""
        self._loop.now_s += ANSWER_TIMEOUT_S
        self._client.sweep()


class Client:
    """Commits and fetches, one request at a time; after a doubt it asks through another gateway."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._gateway = world.dice.choice(world.gateways)
        self._waits = self._was_in_doubt = False
        self._place: Place = "", 0
        self._committed = -1
        self._floor = -1
        """The place in the log of the last commit that was answered before the fetch was sent."""

    def ask(self) -> None:
        if self._waits:
            return
        self._waits, dice = True, self._world.dice
        group, partition = self._place = dice.choice(GROUPS), dice.randrange(PARTITIONS)
        if dice.random() < 0.5:
            self._committed = self._world.next_offset()
            self._gateway.ask("OffsetCommit", commit(group, partition, self._committed), group, self)
        else:
            self._floor = self._world.answered[self._place]
            everything = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=None),))
            self._gateway.ask("OffsetFetch", everything, group, self)

    def take(self, response: Response) -> None:
        self._waits = False
        if isinstance(response, OffsetCommitResponse):
            self._take_committed(response)
        elif isinstance(response, OffsetFetchResponse):
            self._take_fetched(response)

    def _take_committed(self, response: OffsetCommitResponse) -> None:
        ((partition,),) = [topic.partitions for topic in response.topics]
        if partition.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            return self._doubt()
        assert partition.error_code is ErrorCode.NONE
        answered = self._world.answered
        answered[self._place] = max(answered[self._place], self._world.committed_at[self._committed])

    def _take_fetched(self, response: OffsetFetchResponse) -> None:
        (group,) = response.groups
        if group.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            return self._doubt()
        assert group.error_code is ErrorCode.NONE
        offsets = {
            partition.partition_index: partition.committed_offset
            for topic in group.topics
            for partition in topic.partitions
        }
        offset = offsets.get(self._place[1])
        assert (-1 if offset is None else self._world.committed_at[offset]) >= self._floor
        self._world.fetches += self._floor >= 0
        self._world.fetches_after_doubt += self._was_in_doubt

    def _doubt(self) -> None:
        self._was_in_doubt = True
        self._gateway = self._world.dice.choice(self._world.gateways)


def commit(group: str, partition: int, offset: int) -> OffsetCommitRequest:
    partitions = (OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset),)
    return OffsetCommitRequest(group_id=group, topics=(OffsetCommitRequestTopic(name="t", partitions=partitions),))


def offset_of(request: OffsetCommitRequest) -> int:
    (topic,) = request.topics
    (partition,) = topic.partitions
    return partition.committed_offset


@pytest.mark.parametrize("seed", range(10))
def test_no_fetch_sees_an_older_offset_than_a_commit_that_was_answered(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    assert world.fetches > 10
    assert world.fetches_after_doubt
    by_request: defaultdict[bytes, set[bytes | None]] = defaultdict(set)
    for answer in world.answers:
        by_request[answer.key or b""].add(answer.value)
    assert all(len(values) == 1 for values in by_request.values()), "whoever answers says the same"
    assert len(world.answers) > len(by_request)
