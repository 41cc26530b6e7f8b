"""Lives of groups, simulated: topics that get messages, members that read and commit, deploys, faults. Seeded.

The log of each topic knows what is true; what is judged comes from records of history and from polls of its bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from random import Random

from msgspec import Struct

from group_coordinator.ground.kafka_topics.bounds import Bounds, Reach
from group_coordinator.watching.dashboard.api_types import Group
from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.dashboard.lag import EndOffsets
from group_coordinator.watching.dashboard.rows import group_row
from group_coordinator.watching.dashboard.settings import HealthSettings
from group_coordinator.watching.observed.polled import PolledGroup, Polls
from schemas.history import (
    AssignedTopic,
    Cause,
    History,
    HistoryRecord,
    MemberIdentity,
    OffsetChange,
    OffsetsCommitted,
)
from tests.coordinator_state.harness import GroupHarness, of_type

START_MS = 1_767_225_600_000
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
STEP_MS, POLL_MS = 15 * SECOND, 30 * SECOND
TOPIC = "t"

Traffic = Callable[[int, Random], int]
"""Messages that come in a step that begins so long after the start."""


def steady(per_s: float) -> Traffic:
    return lambda at_ms, random: _whole(per_s * STEP_MS / SECOND, random)


def by_day(per_s: float, share_at_night: float = 0.0) -> Traffic:
    """Much at noon, little at night."""

    def traffic(at_ms: int, random: Random) -> int:
        light = max(share_at_night, math.sin(at_ms / DAY * 2 * math.pi))
        return _whole(per_s * light * STEP_MS / SECOND, random)

    return traffic


def bursts(size: int, every_ms: int, between_per_s: float = 0.0) -> Traffic:
    def traffic(at_ms: int, random: Random) -> int:
        burst = size if at_ms // STEP_MS % (every_ms // STEP_MS) == 7 else 0
        return burst + _whole(between_per_s * STEP_MS / SECOND, random)

    return traffic


def _whole(mean: float, random: Random) -> int:
    return int(mean) + (random.random() < mean % 1)


def facts_of(group: GroupHarness) -> GroupFacts:
    facts = GroupFacts(group.group_id)
    records: list[History] = of_type(group.outputs, HistoryRecord)  # type: ignore[arg-type]
    for record in records:
        facts.add(record)
    return facts


class Plan(Struct, frozen=True, kw_only=True):
    """How one group lives. It has one partition for each member."""

    name: str
    traffic: Traffic
    members: int = 1
    reads_per_s: float = 5_000.0
    commits_every_ms: int = STEP_MS
    commits_every_messages: int = 1
    """It commits only when it has read so many."""
    commits_same: bool = False
    """As Java's consumer does it."""
    markers: bool = False
    """Messages come in transactions: the end of the log lies one beyond the last message."""
    kept_ms: int | None = None
    """Retention, in segments of an eighth of it."""
    deploys_every_ms: int | None = None
    restore_ms: int = 20 * SECOND
    """So long a member takes after an assignment until it reads."""
    begins_ms: int = 0
    learns_ms: int = 0
    """So long it has no past by which its pace could be known."""
    from_beginning: bool = True
    first_gets: float = 1.0
    """Partition 0 gets so many times as much as each other."""
    overtaken: bool = False
    """Its commits go out together, and come in any order."""


class Log:
    """One partition."""

    def __init__(self, plan: Plan) -> None:
        self.begin = self.end = 0
        self._plan = plan
        self._segments: list[tuple[int, int]] = []
        """When each begins, and with which offset."""

    def grow(self, at_ms: int, messages: int) -> None:
        if messages:
            self.end += messages + self._plan.markers
        if self._plan.kept_ms is None:
            return
        if not self._segments or at_ms - self._segments[-1][0] > self._plan.kept_ms // 8:
            self._segments.append((at_ms, self.end))
        while len(self._segments) > 1 and at_ms - self._segments[1][0] > self._plan.kept_ms:
            del self._segments[0]
            self.begin = self._segments[0][1]

    @property
    def first_ms(self) -> int | None:
        return START_MS + self._segments[0][0] if self._segments else START_MS


class Life:
    """One group with its topic."""

    def __init__(self, plan: Plan, random: Random) -> None:
        self.plan, self._random = plan, random
        self.facts, self.ends = GroupFacts(plan.name), EndOffsets()
        self.logs = [Log(plan) for _ in range(plan.members)]
        self._read = [0] * plan.members
        self._committed = [0 if plan.from_beginning else -1] * plan.members
        self._committed_ms = [0] * plan.members
        self._polls, self._generation, self._reads_from_ms = Polls(), 0, 0
        self._rebalances: list[int] = []
        self.first_gets = plan.first_gets
        self.reads_per_s = [plan.reads_per_s] * plan.members
        self.stuck_from_ms: dict[int, int] = {}
        """Partitions whose member is in its handler, for ever."""
        self.silent_from_ms: dict[int, int] = {}
        """Partitions that are read, and for which nothing new is committed."""
        self.stable_ends: dict[int, int] = {}
        """Where a transaction does not end."""

    def step(self, at_ms: int) -> None:
        for number, log in enumerate(self.logs):
            messages = self.plan.traffic(at_ms, self._random)
            log.grow(at_ms, messages if number else int(messages * self.first_gets))
        if at_ms < self.plan.begins_ms:
            return
        if not self._generation or (self._rebalances and at_ms >= self._rebalances[0]):
            self._rebalance(at_ms)
        every_ms = self.plan.deploys_every_ms
        if every_ms and at_ms and at_ms % every_ms < STEP_MS:
            # Each member goes and comes again, one after the other.
            apart_ms = self._random.randrange(40, 70) * SECOND
            self._rebalances = [at_ms + apart_ms * number for number in range(2 * self.plan.members)]
        for number, log in enumerate(self.logs):
            if at_ms < self.stuck_from_ms.get(number, at_ms + 1):
                self._live(number, log, at_ms)

    def _live(self, number: int, log: Log, at_ms: int) -> None:
        plan = self.plan
        readable = min(log.end - plan.markers, self.stable_ends.get(number, log.end))
        if at_ms >= self._reads_from_ms:
            ahead = max(self._read[number], log.begin) + int(self.reads_per_s[number] * STEP_MS / SECOND)
            self._read[number] = max(self._read[number], min(readable, ahead))
        is_time = at_ms - self._committed_ms[number] >= plan.commits_every_ms + self._random.randrange(3) * SECOND
        waiting = self._read[number] - max(self._committed[number], 0)
        if at_ms >= self.silent_from_ms.get(number, at_ms + 1):
            if plan.commits_same and is_time:
                self.commit(number, self._committed[number], at_ms)
            return
        is_enough = waiting >= plan.commits_every_messages or (plan.commits_same and self._committed[number] >= 0)
        if is_time and is_enough:
            offset = self._read[number]
            if plan.overtaken and waiting > 40:
                for after_ms, behind in ((0, 9), (80, 30), (130, 12)):
                    self.commit(number, offset - behind, at_ms + after_ms)
            self.commit(number, offset, at_ms + 300 * plan.overtaken)

    def commit(self, number: int, offset: int, at_ms: int) -> None:
        before = self._committed[number]
        change = OffsetChange(TOPIC, number, offset, before if before >= 0 else None)
        cause = Cause(kind="observed", partition=0, offset=0)
        now_ms = START_MS + at_ms
        self.facts.follow(
            OffsetsCommitted("g", self.facts.epoch, 0, now_ms, now_ms, 1, cause, member_id=None, offsets=(change,))
        )
        self._committed[number], self._committed_ms[number] = offset, at_ms

    def _rebalance(self, at_ms: int) -> None:
        """All members are there again, one of them anew. What was read is committed before."""
        for number in range(self.plan.members):
            is_healthy = number not in self.silent_from_ms and number not in self.stuck_from_ms
            if is_healthy and self._read[number] > self._committed[number] >= 0:
                self.commit(number, self._read[number], at_ms)
        del self._rebalances[:1]
        self._generation += 1
        self._reads_from_ms = at_ms + self.plan.restore_ms
        self._members(at_ms, self.plan.members)

    def seek(self, number: int, offset: int) -> None:
        """Read from there on."""
        self._read[number] = offset

    def leave(self, at_ms: int) -> None:
        """Nobody is there any more."""
        self.stuck_from_ms = dict.fromkeys(range(self.plan.members), at_ms)
        self._members(at_ms, 0)

    def _members(self, at_ms: int, members: int) -> None:
        group = PolledGroup(
            group_id=self.plan.name,
            state="Stable" if members else "Empty",
            protocol_type="consumer",
            assignor="range",
            members={
                member_id: (
                    MemberIdentity(member_id=member_id, client_id=member_id, client_host="/10.0.0.1"),
                    (AssignedTopic(topic=TOPIC, partitions=(number,)),),
                )
                for number in range(members)
                for member_id in [f"m{number}" if number else f"m0.{self._generation}"]
            },
            offsets=None,
        )
        for update in self._polls.take(START_MS + at_ms, [group]):
            for record in update.history:
                self.facts.follow(record)

    def poll(self, at_ms: int, settings: HealthSettings) -> Group:
        reaches = {
            (topic, number): Reach(self.stable_ends.get(number, self.logs[number].end), self.logs[number].first_ms)
            for topic, number in self.ends.take_wanted()
        }
        bounds = {(TOPIC, number): Bounds(log.begin, log.end) for number, log in enumerate(self.logs)}
        self.ends.poll(START_MS + at_ms, bounds, reaches)
        return group_row(self.facts, self.ends, START_MS + at_ms, settings)


def live(life: Life, until_ms: int, settings: HealthSettings, from_ms: int = 0) -> Iterator[tuple[int, Group]]:
    """Live on, and yield when it was polled, and what is said of it then."""
    for at_ms in range(from_ms, until_ms, STEP_MS):
        life.step(at_ms)
        if at_ms % POLL_MS == 0:
            yield at_ms, life.poll(at_ms, settings)
