"""The settings of the coordinator: Kafka's own, with Kafka's names (in snake case), defaults and meaning.

Source: `GroupCoordinatorConfig` (Kafka 4.3). They are part of what the output is a function of: change one and the same
log may give other decisions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from coordinator_state.consumer_settings import ConsumerGroupSettings
from schemas.group_settings import RetentionSettings
from schemas.settings import bounds_problems, setting

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a new member may wait for its first join phase to end (a constant in Kafka)."""


@dataclass(frozen=True, kw_only=True)
class GroupSettings(ConsumerGroupSettings, RetentionSettings):
    """How groups are coordinated. This class is the one home of these settings."""

    group_min_session_timeout_ms: int = setting(
        6_000, "`group.min.session.timeout.ms`: smallest session timeout that a JoinGroup may ask for. Half of it is "
        "how far the clock may run ahead of the query, and how long the log may be without a tick before the clock "
        "counts as paused and sessions begin anew.", at_least=1)
    group_max_session_timeout_ms: int = setting(
        1_800_000, "`group.max.session.timeout.ms`: largest session timeout that a JoinGroup may ask for.", at_least=1)
    group_initial_rebalance_delay_ms: int = setting(
        3_000, "`group.initial.rebalance.delay.ms`: how long an empty group waits for more members after the "
        "first.", at_least=0)
    group_max_size: int = setting(2_147_483_647, "`group.max.size`: most members of a group.", at_least=1)
    offset_metadata_max_bytes: int = setting(
        4_096, "`offset.metadata.max.bytes`: longest metadata of a committed offset (UTF-16 units, as in "
        "Kafka).", at_least=0)
    offsets_retention_check_interval_ms: int = setting(
        600_000, "`offsets.retention.check.interval.ms`: offsets expire only at multiples of this.", at_least=1)
    offsets_retention_check_phase_ms: int = setting(
        0, "Shifts those multiples, so that a history recorded by another coordinator can be reproduced.", at_least=0)
    group_max_bytes: int = setting(
        1_048_576, "Most bytes that the ids, metadata and assignments of one group's members may take together: what "
        "keeps its record and its answers within the topics' limits. Kafka's limit is that of one record "
        "(`max.message.bytes`).", at_least=1_000)
    member_max_protocols: int = setting(
        100, "Most protocols that one JoinGroup may list; more get INCONSISTENT_GROUP_PROTOCOL (Kafka has no such "
        "limit).", at_least=1)
    group_offsets_max_bytes: int = setting(
        2_097_152, "Most bytes that the committed offsets of one group may take: each 100, its metadata, and the names "
        "of its group and topic. What goes beyond gets INVALID_COMMIT_OFFSET_SIZE (Kafka has no such "
        "limit).", at_least=100)
    offset_commit_value_version: Literal[3, 4] = setting(
        4, "Version of offset commit values in the offsets log: 4 as Kafka 4.1 and later write, 3 as earlier ones and "
        "for older readers.")
    tick_ahead_max_ms: int = setting(
        -1, "How far a tick may be ahead of its own record's timestamp, which the broker gives; one further ahead is "
        "malformed and moves nothing. -1: half of group_min_session_timeout_ms.", at_least=-1)

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000

    @property
    def tick_ahead_bound_ms(self) -> int:
        """`tick_ahead_max_ms`, or its default."""
        return self.group_min_session_timeout_ms // 2 if self.tick_ahead_max_ms < 0 else self.tick_ahead_max_ms

    def contradictions(self) -> list[str]:
        """Return a sentence for each contradiction between settings that are within their bounds."""
        problems = []
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            problems.append(
                f"group_min_session_timeout_ms ({self.group_min_session_timeout_ms}) is larger than "
                f"group_max_session_timeout_ms ({self.group_max_session_timeout_ms})."
            )
        if self.offset_commit_value_version not in (3, 4):
            problems.append(f"offset_commit_value_version is {self.offset_commit_value_version}, but must be 3 or 4.")
        return [*problems, *self.consumer_contradictions()]


@dataclass(frozen=True, kw_only=True)
class GroupConfig(GroupSettings):
    """The settings, and what a coordinator of groups must know besides."""

    shard_count: int = 1
    """Partitions of the events topic; a group that Kafka's hash puts on another gets NOT_COORDINATOR."""

    @cached_property
    def _by_rules(self) -> dict[str, GroupConfig]:
        return {self.kafka_rules: self}

    def under(self, kafka_rules: str) -> GroupConfig:
        """Return these settings with other rules."""
        known = self._by_rules.get(kafka_rules)
        if known is None:
            known = self._by_rules[kafka_rules] = replace(self, kafka_rules=kafka_rules)
        return known

    def problems(self) -> list[str]:
        """Return a sentence for each mistake; none if the settings are valid."""
        return bounds_problems(self) + self.contradictions()
