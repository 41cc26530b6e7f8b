"""A consumer group in one process, without Kafka and Spark: the real coordinator, real members, and virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from msgspec import UNSET

from coordinator_state import Answer, Coordinator, GroupConfig, Output
from coordinator_state.outputs import group_event
from group_coordinator.coordinating.members.config import MemberConfig
from group_coordinator.coordinating.members.effects import (
    Assigned,
    LogBoundsNeeded,
    Lost,
    PartitionCountsNeeded,
    Revoked,
    Send,
    TopicNamesNeeded,
)
from group_coordinator.coordinating.members.member import new_member
from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest
from schemas.consumer_protocol import TopicPartition
from schemas.events import decode_group_event, decode_response_event, encode_json, encode_request_event
from schemas.group_metadata_events import DescribedTopic, TopicMetadata

START_MS = 1_700_000_000_000
STEP_MS = 100
"""Members poll so often."""


def topic_id(name: str) -> str:
    """Return the id of a topic that exists in one process only."""
    return str(uuid5(NAMESPACE_DNS, name))


def names_of(topic_ids: Iterable[str], topics: Iterable[str]) -> dict[str, str]:
    """Return the names of those of these ids that belong to one of the topics."""
    names = {topic_id(name): name for name in topics}
    return {key: names[key] for key in topic_ids if key in names}


def topic_metadata(topics: Mapping[str, int], version: int) -> TopicMetadata:
    """Return what a group is told of these topics, which are all that there are. `topics`: name -> partitions."""
    described = tuple(
        DescribedTopic(name=name, topic_id=topic_id(name), partitions=((),) * number) for name, number in topics.items()
    )
    return TopicMetadata(version=version, topics=described, new_topics_version=version)


class LocalMember:
    """One member of a `LocalGroup`."""

    def __init__(self, group: LocalGroup, config: MemberConfig, topics: Iterable[str]) -> None:
        self.owned: set[TopicPartition] = set()
        """The partitions that the member may read now."""
        self.is_alive = True
        self._group = group
        name = f"{config.client_id}-{len(group.members)}"
        self._member = new_member(config, (f"{name}-{number}" for number in count()))
        self._member.start(group.now_ms, topics)

    def crash(self) -> None:
        """End without a word: the coordinator must notice."""
        self.is_alive = False
        self.owned.clear()

    def close(self, *, leave_group: bool | None = None) -> None:
        """Close as a client does: a dynamic member leaves the group, a static one stays; `leave_group` says otherwise.
        It is closed once `run` has let its last requests be answered."""
        self._member.close(self._group.now_ms, leave_group=leave_group)

    def act(self) -> None:
        """Poll, and do what the member says until it has nothing more to say."""
        self._member.advance_to(self._group.now_ms)
        if not self._member.is_closed:
            self._member.poll(self._group.now_ms)
        while effects := self._member.take_outputs():
            for effect in effects:
                self._heed(effect)
        self.is_alive = self.is_alive and not self._member.is_closed

    def receive(self, answer: Answer) -> None:
        """Take an answer, as the bytes that would lie on the responses topic."""
        self._member.receive(*decode_response_event(encode_json(answer.document())), self._group.now_ms)

    def _heed(self, effect: object) -> None:
        topics = self._group.topics
        match effect:
            case Send():
                self._group.ask(self, effect, self._member.config.client_id)
            case Assigned(partitions=partitions):
                self.owned |= set(partitions)
            case Revoked(partitions=partitions) | Lost(partitions=partitions):
                self.owned -= set(partitions)
            case PartitionCountsNeeded(topics=names):
                self._member.partitions_changed({name: topics.get(name, 0) for name in names})
            case TopicNamesNeeded(topic_ids=topic_ids):
                self._member.topic_names(names_of(topic_ids, topics))
            case LogBoundsNeeded(partitions=partitions):
                self._member.log_bounds(dict.fromkeys(partitions, (0, 0)))


class LocalGroup:
    """A group whose members join, crash and leave as a test says. Nothing waits: `run` lets virtual time pass."""

    def __init__(
        self, topics: Mapping[str, int], *, group_id: str = "group", config: GroupConfig | None = None
    ) -> None:
        """`topics`: name -> number of partitions. Without `config` a group of its first member need not wait for
        others (`group.initial.rebalance.delay.ms` is 0)."""
        self.topics = dict(topics)
        self.group_id = group_id
        self.coordinator = Coordinator(config or GroupConfig(group_initial_rebalance_delay_ms=0))
        self.now_ms = START_MS
        self.members: list[LocalMember] = []
        self.outputs: list[Output] = []
        """All that the coordinator has put out: answers, records, history."""
        self._offsets = count()
        self._asked: dict[str, LocalMember] = {}
        self._answers: list[Answer] = []

    def join(self, client_id: str, topics: Iterable[str], **settings: Any) -> LocalMember:
        """Start a member. `settings` are those of `MemberConfig`, such as `group_protocol` ("classic" or "consumer").
        Raises ValueError for settings that cannot work."""
        member = LocalMember(self, MemberConfig(group_id=self.group_id, client_id=client_id, **settings), topics)
        self.members.append(member)
        return member

    def run(self, duration_ms: int) -> None:
        """Let this much time pass, in steps of 100 ms."""
        for _ in range(0, duration_ms, STEP_MS):
            self.now_ms += STEP_MS
            self._take(self.coordinator.advance_to(self.now_ms))
            for member in self.members:
                if member.is_alive:
                    member.act()
            self._deliver()

    def ask(self, member: LocalMember, send: Send, client_id: str) -> None:
        """Carry a member's request to the coordinator. One of the consumer protocol brings along what the topics are:
        the coordinator asks nobody."""
        self._asked[send.request_id] = member
        needs_topics = isinstance(send.request, ConsumerGroupHeartbeatRequest)
        value = encode_request_event(
            send.api,
            send.api_version,
            send.request,
            request_id=send.request_id,
            reply_partition=0,
            client_id=client_id,
            topic_metadata=topic_metadata(self.topics, 1) if needs_topics else UNSET,
        )
        decoded = decode_group_event(self.group_id, value)
        event = group_event(decoded, next(self._offsets), self.now_ms, self.now_ms)
        self._take(self.coordinator.handle(self.group_id, event))

    def _take(self, outputs: list[Output]) -> None:
        self.outputs += outputs
        self._answers += [output for output in outputs if isinstance(output, Answer)]

    def _deliver(self) -> None:
        while self._answers:
            answer = self._answers.pop(0)
            member = self._asked.pop(answer.request_id)
            if member.is_alive:
                member.receive(answer)
                member.act()
