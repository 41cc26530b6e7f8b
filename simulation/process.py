"""A process with one group member polls, works, sends heartbeats and commits; it crashes, freezes and dawdles as the
scenario says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from re import fullmatch
from typing import Protocol
from uuid import NAMESPACE_OID, uuid5

from group_coordinator.coordinating.members.config import MemberConfig
from group_coordinator.coordinating.members.consumer_member import ConsumerGroupMember
from group_coordinator.coordinating.members.effects import (
    Assigned,
    GaveUp,
    LogBoundsNeeded,
    Lost,
    Notification,
    PartitionCountsNeeded,
    Revoked,
    Send,
    TopicNamesNeeded,
)
from group_coordinator.coordinating.members.member import new_member
from group_coordinator.coordinating.members.requests import request_ids
from schemas.consumer_protocol import TopicPartition
from schemas.events import decode_response_event
from simulation.scenario import MemberPlan

REQUEST_TIMEOUT_MS = 6_000
METADATA_REFRESH_MS = 5_000
TROUBLE_MARGIN_MS = 1_000


class Surroundings(Protocol):
    """A process sees the world through this interface."""

    now_ms: int
    topics: dict[str, int]

    def at(self, time_ms: int, action: Callable[[], None]) -> None: ...
    def carry_request(self, process: Process, send: Send) -> None: ...
    def names_of(self, topic_ids: tuple[str, ...]) -> dict[str, str]: ...
    def produced(self) -> int: ...
    def tell(self, who: str, text: str) -> None: ...


class Process:
    """One run of one member's program."""

    def __init__(
        self, world: Surroundings, plan: MemberPlan, run: int, shard_count: int
    ) -> None:
        self.world = world
        self.plan = plan
        self.name = f"{plan.name}#{run}" if run else plan.name
        self.began_ms = world.now_ms
        self.alive = True
        self.ended_ms: int | None = None
        self.frozen_until_ms = 0
        self.idle_until_ms = 0
        """Its application does not poll before this."""
        self.owned: dict[TopicPartition, None] = {}
        self.given_up: set[str] = set()
        """Ids of its heartbeats to a consumer group whose answers it does not await any more."""
        self.identities: list[tuple[int, str]] = []
        """From when on it had which member id."""
        self.troubles: list[tuple[int, int]] = []
        """When something was wrong with it, or between it and the broker."""
        config = _config(plan)
        self.join_timeout_ms = config.join_timeout_ms
        self.member = new_member(config, request_ids(uuid5(NAMESPACE_OID, self.name)), shard_count=shard_count)
        self._wake_at_ms: int | None = None
        self._refresh_at_ms = world.now_ms + METADATA_REFRESH_MS
        pattern = plan.pattern if isinstance(self.member, ConsumerGroupMember) else None
        self.member.start(self._local_ms(), () if pattern is not None else plan.topics)
        if isinstance(self.member, ConsumerGroupMember) and pattern is not None:
            self.member.subscribe_pattern(pattern)
        self._poll()

    # ------------------------------------------------------------------------------------------------- its life and
    # time

    @property
    def is_frozen(self) -> bool:
        return self.world.now_ms < self.frozen_until_ms

    @property
    def wanted_topics(self) -> tuple[str, ...]:
        """The topics that it subscribes to, by name or by a pattern."""
        pattern = self.member.pattern if isinstance(self.member, ConsumerGroupMember) else None
        if pattern is None:
            return self.member.subscription
        return tuple(topic for topic in self.world.topics if fullmatch(pattern, topic))

    def identity_at(self, time_ms: int) -> str | None:
        """Return its member id at that time; None if the process did not run."""
        if self.ended_ms is not None and self.ended_ms <= time_ms:
            return None
        return next((member_id for since_ms, member_id in reversed(self.identities) if since_ms <= time_ms), None)

    def was_well(self, from_ms: int, to_ms: int) -> bool:
        """Return whether the process and its network had no fault in all that time."""
        return self.began_ms <= from_ms and not any(
            trouble_from_ms <= to_ms and from_ms <= trouble_to_ms for trouble_from_ms, trouble_to_ms in self.troubles
        )

    def in_trouble(self, from_ms: int, for_ms: int) -> None:
        """Note trouble with this process, or between it and the broker; it may be felt a little later still."""
        self.troubles.append((from_ms, from_ms + for_ms + TROUBLE_MARGIN_MS))

    def end(self) -> None:
        """End the process without a LeaveGroup."""
        self.alive = False
        self.ended_ms = self.world.now_ms
        self.owned.clear()

    def close(self) -> None:
        """Close the process's member, then end it."""
        if self.alive:
            self.member.close(self._local_ms())
            self._act()

    def subscribe(self, topics: tuple[str, ...]) -> None:
        if self.alive:
            self.member.subscribe(topics)
            self._act()

    def freeze(self, for_ms: int) -> None:
        self.frozen_until_ms = max(self.frozen_until_ms, self.world.now_ms + for_ms)

    def receive(self, value: bytes) -> None:
        """Take an answer to one of the process's requests."""
        if not self.alive:
            return
        if self.is_frozen:
            self.world.at(self.frozen_until_ms, lambda: self.receive(value))
            return
        envelope, response = decode_response_event(value)
        self.member.receive(envelope, response, self._local_ms())
        self._act()

    def _local_ms(self) -> int:
        """Return the time of its own clock."""
        lived_ms = self.world.now_ms - self.began_ms
        return self.began_ms + self.plan.clock_ahead_ms + lived_ms * self.plan.clock_percent // 100

    def _world_ms(self, local_ms: int) -> int:
        """Return the world's time at which its own clock will show this."""
        lived_ms = local_ms - self.began_ms - self.plan.clock_ahead_ms
        return self.began_ms + -(-lived_ms * 100 // self.plan.clock_percent)

    # ----------------------------------------------------------------------------------------------------- what it does

    def _poll(self) -> None:
        if not self.alive:
            return
        now_ms = self.world.now_ms
        if not self.is_frozen and now_ms >= self.idle_until_ms:
            if self.member.may_process:
                self._work()
            if now_ms >= self._refresh_at_ms:
                self._refresh()
            self.member.poll(self._local_ms())
            self._act()
        self.world.at(now_ms + self.plan.poll_every_ms, self._poll)

    def _refresh(self) -> None:
        """Look up the topics again."""
        self._refresh_at_ms = self.world.now_ms + METADATA_REFRESH_MS
        topics = self.member.topics_of_interest
        self.member.partitions_changed({topic: self.world.topics.get(topic, 0) for topic in topics})

    def _work(self) -> None:
        """Process all records that there are."""
        end = self.world.produced()
        for partition, position in list(self.member.positions.items()):
            if partition in self.owned and position < end:
                self.member.processed(partition, end - 1)

    def _act(self) -> None:
        """Do what the member says, until it has nothing more to say."""
        while outputs := self.member.take_outputs():
            for output in outputs:
                if isinstance(output, Send):
                    self.world.carry_request(self, output)
                else:
                    self._heed(output)
        member_id = self.member.member_id
        if not self.identities or self.identities[-1][1] != member_id:
            self.identities.append((self.world.now_ms, member_id))
        if self.member.failure is not None or self.member.is_closed:
            code_and_reason = self.member.failure
            self.world.tell(
                self.name,
                "has closed" if code_and_reason is None else f"ends: {code_and_reason[0].name}, {code_and_reason[1]}",
            )
            self.end()
            return
        self._set_alarm()

    def _heed(self, output: GaveUp | Notification) -> None:
        match output:
            case Assigned(partitions=partitions, generation_id=generation_id):
                self.owned.update(dict.fromkeys(partitions))
                self.world.tell(self.name, f"gets {_named(partitions)} in generation {generation_id}")
            case Revoked(partitions=partitions):
                self._drop(partitions)
                self.world.tell(self.name, f"gives up {_named(partitions)}")
            case Lost(partitions=partitions):
                self._drop(partitions)
                self.world.tell(self.name, f"has lost {_named(partitions)}")
            case PartitionCountsNeeded(topics=topics):
                self.member.partitions_changed({topic: self.world.topics.get(topic, 0) for topic in topics})
            case TopicNamesNeeded(topic_ids=topic_ids):
                self.member.topic_names(self.world.names_of(topic_ids))
            case GaveUp(request_id=request_id, api="ConsumerGroupHeartbeat"):
                self.given_up.add(request_id)
            case LogBoundsNeeded(partitions=partitions):
                self.member.log_bounds(dict.fromkeys(partitions, (0, self.world.produced())))
            case _:
                pass

    def _drop(self, partitions: tuple[TopicPartition, ...]) -> None:
        for partition in partitions:
            self.owned.pop(partition, None)

    def _set_alarm(self) -> None:
        deadline_ms = self.member.next_deadline_ms()
        if deadline_ms is None:
            return
        at_ms = max(self._world_ms(deadline_ms), self.world.now_ms)
        if self._wake_at_ms is None or at_ms < self._wake_at_ms or self._wake_at_ms <= self.world.now_ms:
            self._wake_at_ms = at_ms
            self.world.at(at_ms, self._wake)

    def _wake(self) -> None:
        if not self.alive or self._wake_at_ms is None or self.world.now_ms < self._wake_at_ms:
            return
        if self.is_frozen:
            self.world.at(self.frozen_until_ms, self._wake)
            return
        self._wake_at_ms = None
        self.member.advance_to(self._local_ms())
        self._act()


def _named(partitions: tuple[TopicPartition, ...]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in partitions) or "nothing new"


def _config(plan: MemberPlan) -> MemberConfig:
    both = MemberConfig(
        group_id=plan.group_id,
        client_id=plan.name,
        group_instance_id=plan.instance_id,
        max_poll_interval_ms=plan.max_poll_interval_ms,
        auto_commit_interval_ms=plan.auto_commit_interval_ms,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        default_api_timeout_ms=2 * REQUEST_TIMEOUT_MS,
        auto_offset_reset="earliest",
    )
    if plan.protocol == "consumer":
        return replace(both, group_protocol="consumer", group_remote_assignor=plan.assignor)
    return replace(
        both,
        partition_assignment_strategy=plan.assignors,
        session_timeout_ms=plan.session_timeout_ms,
        heartbeat_interval_ms=plan.heartbeat_interval_ms,
    )
