"""The settings of a member: those of Kafka's consumer, with its names (in snake case), defaults and meaning.

Source: Kafka's `ConsumerConfig` (4.3). Durations are milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from schemas.settings import bounds_problems, setting, settings_of

DEFAULT_ASSIGNORS = ("range", "cooperative-sticky")


@dataclass(frozen=True, kw_only=True)
class MemberConfig:
    """The settings of one member. `problems()` returns one sentence for each mistake."""

    group_id: str
    """`group.id`: the group to be a member of."""
    client_id: str = setting(
        "member", "`client.id`: in front of the member id that the coordinator gives to a dynamic member.")
    group_protocol: Literal["classic", "consumer"] = setting(
        "classic", "`group.protocol`: classic, or consumer (KIP-848): the coordinator assigns.")
    group_instance_id: str | None = setting(
        None, "`group.instance.id`: makes the member static. It keeps its place over a restart within the session "
        "timeout (KIP-345).")
    client_rack: str = setting("", "`client.rack`: where the member runs; empty when that is unknown (KIP-881).")
    partition_assignment_strategy: tuple[str, ...] = setting(
        DEFAULT_ASSIGNORS, "`partition.assignment.strategy`: names of assignors, the preferred one first. Cooperative "
        "only if all of them are. Classic protocol only.")
    group_remote_assignor: str | None = setting(
        None, "`group.remote.assignor`: the coordinator's assignor that a member of the consumer protocol asks for; "
        "None: the coordinator chooses.")
    session_timeout_ms: int = setting(
        45_000, "`session.timeout.ms`: how long the coordinator waits for a sign of life before it expels the "
        "member.", at_least=1)
    heartbeat_interval_ms: int = setting(
        3_000, "`heartbeat.interval.ms`: time between two heartbeats; less than the session timeout, usually a third "
        "of it.", at_least=1)
    max_poll_interval_ms: int = setting(
        300_000, "`max.poll.interval.ms`: longest time between two polls; it is also the rebalance timeout that the "
        "member asks for.", at_least=1)
    enable_auto_commit: bool = setting(
        True, "`enable.auto.commit`: commit positions at an interval, before partitions are given up, and on close.")
    auto_commit_interval_ms: int = setting(
        5_000, "`auto.commit.interval.ms`: time between two automatic commits; positions that did not move are not "
        "sent again.", at_least=1)
    auto_offset_reset: Literal["earliest", "latest", "none"] = setting(
        "latest", "`auto.offset.reset`: where to begin in a partition without a committed offset; `none`: tell the "
        "application.")
    request_timeout_ms: int = setting(
        30_000, "`request.timeout.ms`: how long an answer may take; a JoinGroup may take as long as the rebalance and "
        "5 s.", at_least=1)
    default_api_timeout_ms: int = setting(
        60_000, "`default.api.timeout.ms`: how long a commit is tried again before it has failed.", at_least=1)
    retry_backoff_ms: int = setting(
        100, "`retry.backoff.ms`: pause before the first repetition of a request; it doubles with each "
        "one.", at_least=1)
    retry_backoff_max_ms: int = setting(1_000, "`retry.backoff.max.ms`: longest pause before a repetition.", at_least=1)
    metadata_max_age_ms: int = setting(
        300_000, "`metadata.max.age.ms`: how often the partition counts of the subscribed topics are looked up "
        "again.", at_least=1)
    max_poll_records: int = setting(500, "`max.poll.records`: most records that one poll returns.", at_least=1)

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def join_timeout_ms(self) -> int:
        """A JoinGroup may be unanswered for this long: the coordinator may park it for the rebalance timeout."""
        return max(self.request_timeout_ms, self.max_poll_interval_ms + JOIN_TIMEOUT_LAPSE_MS)

    @property
    def heartbeat_timeout_ms(self) -> int:
        """The next heartbeat waits this long for the answer to the last one: half a session at most.

        One lost answer must not cost the session: there is as much time again for another heartbeat.
        """
        return min(self.request_timeout_ms, max(self.heartbeat_interval_ms, self.session_timeout_ms // 2))

    def backoff_ms(self, attempt: int) -> int:
        """Pause before repetition number `attempt` (0 is the first), without Kafka's jitter."""
        doublings = min(attempt, 30)
        return min(self.retry_backoff_ms << doublings, self.retry_backoff_max_ms)

    def insist(self) -> None:
        """Raise ValueError if there is a mistake."""
        problems = self.problems()
        if problems:
            raise ValueError(" ".join(problems))

    def problems(self) -> list[str]:
        """Return one sentence for each mistake; the list is empty if there is none."""
        problems = bounds_problems(self)
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            problems.append(
                f"heartbeat_interval_ms ({self.heartbeat_interval_ms}) must be less than "
                f"session_timeout_ms ({self.session_timeout_ms})."
            )
        if not self.group_id:
            problems.append("group_id is empty.")
        if self.group_instance_id == "":
            problems.append("group_instance_id is empty; leave it out for a dynamic member.")
        if not self.partition_assignment_strategy:
            problems.append("partition_assignment_strategy names no assignor.")
        if len(set(self.partition_assignment_strategy)) < len(self.partition_assignment_strategy):
            problems.append("partition_assignment_strategy names an assignor twice.")
        for name in self._of_the_other_protocol():
            problems.append(f"{name} cannot be set with group_protocol {self.group_protocol}.")
        return problems

    def _of_the_other_protocol(self) -> list[str]:
        """Return the settings that have been set and mean nothing with this protocol, which Kafka refuses as well."""
        names = _CLASSIC_ONLY if self.group_protocol == "consumer" else _CONSUMER_ONLY
        own = settings_of(MemberConfig)
        return [name for name in names if getattr(self, name) != own[name].default]


_CLASSIC_ONLY = ("partition_assignment_strategy", "session_timeout_ms", "heartbeat_interval_ms")
"""With the consumer protocol the coordinator has these."""
_CONSUMER_ONLY = ("group_remote_assignor",)
JOIN_TIMEOUT_LAPSE_MS = 5_000
"""What a JoinGroup may take beyond the rebalance timeout, for small delays (a constant in Kafka's client)."""
