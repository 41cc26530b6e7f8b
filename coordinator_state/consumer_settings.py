"""The settings of consumer groups (KIP-848): Kafka's own, with Kafka's names (in snake case), defaults and meaning.

Source: `GroupCoordinatorConfig`, `GroupConfig` (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from coordinator_state.kafka_versions import OF_NEW_LOGS, KafkaVersion, rules_named
from schemas.group_settings import OwnSettingsBounds
from schemas.settings import setting

MIGRATION_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
REGEX_REFRESH_MIN_INTERVAL_MS = 10_000
"""Least time between two resolutions of a group's expressions (a constant in Kafka)."""
METADATA_REFRESH_INTERVAL_MS = 2_147_483_647
"""Period in which a group looks at its topics again though nothing was said of them (a constant in Kafka)."""


class MemberIntervals(NamedTuple):
    """What the native members of a consumer group have to keep."""

    session_timeout_ms: int
    """How long one may be silent."""
    heartbeat_interval_ms: int
    """How often one is told to send a heartbeat."""


@dataclass(frozen=True, kw_only=True)
class ConsumerGroupSettings(OwnSettingsBounds):
    """How consumer groups are coordinated."""

    group_consumer_max_size: int = setting(
        2_147_483_647, "`group.consumer.max.size`: most members of a consumer group.", at_least=1)
    group_consumer_assignors: str = setting(
        "uniform,range", "`group.consumer.assignors`: the server-side assignors, separated by commas; the first one is "
        "taken where no member asks for one. Besides Kafka's, those that installed packages register as "
        "`group_coordinator.server_assignors`; they must be installed wherever shards run, executors and responders "
        "included.")
    group_consumer_migration_policy: str = setting(
        "bidirectional", "`group.consumer.migration.policy`: whether groups with members become consumer groups and "
        "back: bidirectional, upgrade, downgrade or disabled.")
    group_consumer_regex_refresh_interval_ms: int = setting(
        600_000, "`group.consumer.regex.refresh.interval.ms`: how often a consumer group's regular expressions are "
        "resolved again though no topic was created.", at_least=10_000)

    group_topics_max_bytes: int = setting(
        4_194_304, "Most bytes that a group may keep of the cluster's topics: of each its name, 60, and for each "
        "partition the names of its replicas' racks and one for each. What would go beyond is kept out, and history "
        "says so (Kafka keeps topics once for all groups).", at_least=1_000)
    group_consumer_bug_fixes_enable: bool = setting(
        False, "Decide otherwise than Kafka 4.3 where it has a defect: a classic member that goes on with the consumer "
        "protocol is not fenced by its old timers; an upgrade that fails leaves parked requests alone; a JoinGroup "
        "whose rebalance timeout is -1 takes its session timeout instead; one that is refused leaves its group alone; "
        "partitions are not assigned to a member whose new expression is not resolved yet as if it subscribed to all "
        "the group's topics.")

    group_consumer_hash_order: bool = setting(
        False, "Assignors go through a group's members in the order of a broker's hash maps, not in the order in which "
        "they joined: who gets one partition more is then the same member as there. For events of a broker's log.")

    kafka_rules: str = setting(
        OF_NEW_LOGS, "The Kafka version as whose coordinator groups are decided, in a log that begins now: 3.9 (and "
        "all before), 4.0, 4.1, 4.2, 4.3 or 4.4. The log keeps it; `group-coordinator rules` changes it.")

    @cached_property
    def kafka_version(self) -> KafkaVersion:
        """What the rules say."""
        return rules_named(self.kafka_rules)

    @property
    def consumer_assignors(self) -> tuple[str, ...]:
        """The names of the server-side assignors; the first is the default."""
        return tuple(name.strip() for name in self.group_consumer_assignors.split(",") if name.strip())

    @cached_property
    def member_intervals(self) -> MemberIntervals:
        """The intervals of a group that has none of its own. Every heartbeat needs them."""
        return MemberIntervals(
            self.bounded("session_timeout_ms", None, self.group_consumer_session_timeout_ms),
            self.bounded("heartbeat_interval_ms", None, self.group_consumer_heartbeat_interval_ms),
        )

    def bounded(self, name: str, own: int | None, of_all: int) -> int:
        """Return a group's own setting, or that of all groups, within the setting's bounds."""
        least: int = getattr(self, f"group_consumer_min_{name}")
        most: int = getattr(self, f"group_consumer_max_{name}")
        return min(max(of_all if own is None else own, least), most)

    @property
    def may_upgrade(self) -> bool:
        """A classic group with members may become a consumer group."""
        return self._migration_policy in ("bidirectional", "upgrade")

    @property
    def may_downgrade(self) -> bool:
        """A consumer group whose last native member goes may become a classic group."""
        return self._migration_policy in ("bidirectional", "downgrade")

    @property
    def takes_classic_members(self) -> bool:
        """Members of the classic protocol may join a consumer group that has members."""
        return self._migration_policy != "disabled"

    @property
    def _migration_policy(self) -> str:
        return self.group_consumer_migration_policy.lower()

    def consumer_contradictions(self) -> Iterator[str]:
        """Yield a sentence for each contradiction; Kafka does not start with one."""
        for name in ("session_timeout", "heartbeat_interval", "assignment_interval"):
            least, value, most = [
                getattr(self, f"group_consumer_{bound}{name}_ms") for bound in ("min_", "", "max_")
            ]
            if not least <= value <= most:
                yield (
                    f"group_consumer_{name}_ms is {value}, but must be group_consumer_min_{name}_ms ({least}) to "
                    f"group_consumer_max_{name}_ms ({most})."
                )
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            yield (
                f"group_consumer_heartbeat_interval_ms ({self.group_consumer_heartbeat_interval_ms}) is not smaller "
                f"than group_consumer_session_timeout_ms ({self.group_consumer_session_timeout_ms})."
            )
        if self._migration_policy not in MIGRATION_POLICIES:
            yield (
                f"group_consumer_migration_policy is {self.group_consumer_migration_policy!r}, but must be one of "
                f"{', '.join(MIGRATION_POLICIES)}."
            )
        try:
            rules_named(self.kafka_rules)
        except ValueError as problem:
            yield str(problem)
        names = self.consumer_assignors
        if not names or len(set(names)) < len(names):
            yield (
                f"group_consumer_assignors is {self.group_consumer_assignors!r}, but must name one or more assignors, "
                "each once."
            )
