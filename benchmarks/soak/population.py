"""Very many real members in one process, in groups that are disturbed all the time.

Members crash and come back, leave and come back, are bounced (static ones), and whole groups end for good while new
ones take their place. So everything that a coordinator keeps for members and groups must also be given back.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from group_coordinator.coordinating.members.config import MemberConfig
from group_coordinator.coordinating.members.effects import Assigned, Lost, Revoked
from group_coordinator.coordinating.members.host import HostedMember, MemberHost
from schemas.consumer_protocol import TopicPartition

STATIC_EVERY = 5
"""Each group of this number has static members."""
KINDS = ("crash", "leave", "bounce", "replace")


@dataclass
class Pace:
    """The rates at which the population acts."""

    groups: int
    members: int
    heartbeat_interval_s: float
    """Between two heartbeats of a member; the session is three of them."""
    ramp_s: float
    """In what time all the groups come to be."""
    churn_per_minute: float
    """Which share of the groups is disturbed in a minute."""
    replaced: float = 0.25
    """Which share of the disturbances ends a whole group for good."""


class Participant:
    """One member and its program, which does no more than count."""

    def __init__(self, host: MemberHost, pace: Pace, group_id: str, number: int, topic: str, *, static: bool) -> None:
        self.group_id, self.number, self.is_static = group_id, number, static
        interval_ms = int(pace.heartbeat_interval_s * 1_000)
        config = MemberConfig(
            group_id=group_id, client_id=f"{group_id}-{number}",
            group_instance_id=f"{group_id}-{number}" if static else None,
            session_timeout_ms=3 * interval_ms, heartbeat_interval_ms=interval_ms, max_poll_interval_ms=4 * interval_ms,
            auto_commit_interval_ms=2 * interval_ms, request_timeout_ms=interval_ms,
            default_api_timeout_ms=2 * interval_ms,
            auto_offset_reset="earliest", metadata_max_age_ms=600_000,
        )  # fmt: skip
        self.hosted: HostedMember = host.add(config, [topic])
        self.poll_at_s = 0.0
        self._owned: set[TopicPartition] = set()
        self._poll_every_s = pace.heartbeat_interval_s

    @property
    def is_over(self) -> bool:
        return self.hosted.machine.is_closed or self.hosted.machine.failure is not None

    def live(self, now_s: float) -> None:
        """Poll as a consumer does: again and again, and at once where there is something to do."""
        if now_s < self.poll_at_s and not self.hosted.machine.is_rejoining and not self.hosted.inbox:
            return
        self.poll_at_s = now_s + self._poll_every_s
        while self.hosted.inbox:
            match self.hosted.inbox.popleft():
                case Assigned(partitions=partitions):
                    self._owned.update(partitions)
                case Revoked(partitions=partitions) | Lost(partitions=partitions):
                    self._owned.difference_update(partitions)
                case _:
                    pass
        if self.hosted.machine.may_process:
            for partition in sorted(self._owned & self.hosted.machine.positions.keys()):
                self.hosted.machine.processed(partition, self.hosted.machine.positions[partition] + 1)
        self.hosted.run(lambda machine, now_ms: machine.poll(now_ms))

    def close(self, *, leave_group: bool | None = None) -> None:
        self.hosted.run(lambda machine, now_ms: machine.close(now_ms, leave_group=leave_group))


@dataclass
class Population:
    """All members of the soak. `step` it about once a second."""

    host: MemberHost
    pace: Pace
    topic: str
    seed: int = 1
    disturbed: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    """How members ended that nobody had ended: there should be none."""

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._groups: dict[str, list[Participant]] = {}
        self._closing: list[Participant] = []
        self._due: list[tuple[float, str, int]] = []
        self._made = 0
        self._began_s = time.monotonic()
        self._churned = 0.0

    @property
    def member_count(self) -> int:
        return sum(map(len, self._groups.values()))

    @property
    def stable_count(self) -> int:
        """Members with partitions or none, whose last rebalance is complete."""
        return sum(not member.hosted.machine.is_rejoining for member in self._everybody())

    def step(self) -> None:
        now_s = time.monotonic()
        age_s = now_s - self._began_s
        group_count = min(self.pace.groups, int(self.pace.groups * age_s / self.pace.ramp_s) + 1)
        while len(self._groups) < group_count:
            self._new_group()
        self._churn(age_s)
        for due_s, group_id, number in [due for due in self._due if due[0] <= now_s]:
            self._due.remove((due_s, group_id, number))
            self._join(group_id, number)
        for participant in [*self._everybody(), *self._closing]:
            participant.live(now_s)
        self._bury()

    def _everybody(self) -> Iterator[Participant]:
        for group in self._groups.values():
            yield from group

    def _new_group(self) -> None:
        group_id = f"soak-{self._made}"
        self._groups[group_id] = []
        self._made += 1
        for number in range(self.pace.members):
            self._join(group_id, number)

    def _join(self, group_id: str, number: int) -> None:
        if group_id in self._groups:
            static = int(group_id.rpartition("-")[2]) % STATIC_EVERY == 0
            self._groups[group_id].append(
                Participant(self.host, self.pace, group_id, number, self.topic, static=static)
            )

    def _churn(self, age_s: float) -> None:
        due = max(0.0, age_s - self.pace.ramp_s) / 60 * self.pace.churn_per_minute * self.pace.groups
        while self._churned + 1 <= due:
            self._churned += 1
            self._disturb()

    def _disturb(self) -> None:
        group_id = self._chance.choice(list(self._groups))
        participants = self._groups[group_id]
        if not participants:
            return
        victim = self._chance.choice(participants)
        kind = "replace" if self._chance.random() < self.pace.replaced else self._chance.choice(("crash", "leave"))
        if kind == "replace":
            for member in self._groups.pop(group_id):
                member.close(leave_group=True)
                self._closing.append(member)
            self._new_group()
        else:
            participants.remove(victim)
            if victim.is_static or kind == "crash":
                kind = "bounce" if victim.is_static else "crash"
                self.host.remove(victim.hosted)
            else:
                victim.close()
                self._closing.append(victim)
            self._due.append((time.monotonic() + self._chance.uniform(1, 10), group_id, victim.number))
        self.disturbed[kind] += 1

    def _bury(self) -> None:
        """Forget who has ended, and begin anew those who failed."""
        for member in [member for member in self._closing if member.is_over]:
            self._closing.remove(member)
            self.host.remove(member.hosted)
        for group_id, participants in self._groups.items():
            for participant in [participant for participant in participants if participant.is_over]:
                failure = participant.hosted.machine.failure
                self.failures[failure[0].name if failure else "closed"] += 1
                participants.remove(participant)
                self.host.remove(participant.hosted)
                self._due.append((time.monotonic() + 1, group_id, participant.number))
