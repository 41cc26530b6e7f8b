"""A consumer group's own settings by Kafka's names, and the bounds of all groups by which they are judged.

Source: `GroupConfig`, `GroupCoordinatorConfig` (Kafka 4.3).
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.group_metadata_events import GroupConfiguration
from schemas.settings import setting

OWN_SETTINGS = {
    field.replace("_", "."): field for field in GroupConfiguration.__struct_fields__ if field.startswith("consumer_")
}
"""Kafka's name of a group's own setting -> the field of its event."""


@dataclass(frozen=True, kw_only=True)
class RetentionSettings:
    """How long committed offsets are kept."""

    offsets_retention_minutes: int = setting(
        10_080, "`offsets.retention.minutes`: how long offsets outlive their group, or a commit without a "
        "group.", at_least=1)


@dataclass(frozen=True, kw_only=True)
class OwnSettingsBounds:
    """The settings of all consumer groups of which one group may have others, and within which bounds."""

    group_consumer_session_timeout_ms: int = setting(
        45_000, "`group.consumer.session.timeout.ms`: how long a member of a consumer group may be silent.", at_least=1)
    group_consumer_min_session_timeout_ms: int = setting(
        45_000, "`group.consumer.min.session.timeout.ms`: smallest session timeout that a consumer group may have of "
        "its own.", at_least=1)
    group_consumer_max_session_timeout_ms: int = setting(
        60_000, "`group.consumer.max.session.timeout.ms`: largest session timeout that a consumer group may have of "
        "its own.", at_least=1)
    group_consumer_heartbeat_interval_ms: int = setting(
        5_000, "`group.consumer.heartbeat.interval.ms`: how often a member of a consumer group is told to send a "
        "heartbeat.", at_least=1)
    group_consumer_min_heartbeat_interval_ms: int = setting(
        5_000, "`group.consumer.min.heartbeat.interval.ms`: smallest heartbeat interval that a consumer group may have "
        "of its own.", at_least=1)
    group_consumer_max_heartbeat_interval_ms: int = setting(
        15_000, "`group.consumer.max.heartbeat.interval.ms`: largest heartbeat interval that a consumer group may have "
        "of its own.", at_least=1)
    group_consumer_assignment_interval_ms: int = setting(
        1_000, "`group.consumer.assignment.interval.ms`: least time between two target assignments of a consumer "
        "group.", at_least=0)
    group_consumer_min_assignment_interval_ms: int = setting(
        0, "`group.consumer.min.assignment.interval.ms`: smallest assignment interval that a consumer group may have "
        "of its own.", at_least=0)
    group_consumer_max_assignment_interval_ms: int = setting(
        15_000, "`group.consumer.max.assignment.interval.ms`: largest assignment interval that a consumer group may "
        "have of its own.", at_least=0)

    def of_all(self, name: str) -> int:
        """Return the setting of all groups beside an own one of this name (Kafka's)."""
        value: int = getattr(self, f"group_{OWN_SETTINGS[name]}")
        return value


def configuration_problems(bounds: OwnSettingsBounds, own: GroupConfiguration) -> list[str]:
    """Return a sentence for each setting that a group may not have; Kafka answers INVALID_CONFIG.

    Source: `GroupConfig.validate` (Kafka 4.3).
    """
    problems: list[str] = []
    for name in ("session_timeout_ms", "heartbeat_interval_ms", "assignment_interval_ms"):
        value: int | None = getattr(own, f"consumer_{name}")
        least, most = (getattr(bounds, f"group_consumer_{bound}_{name}") for bound in ("min", "max"))
        if value is not None and not least <= value <= most:
            problems.append(
                f"consumer.{name.replace('_', '.')} is {value}, but must be {least} to {most} "
                f"(group_consumer_min_{name}, group_consumer_max_{name})."
            )
    session_ms, interval_ms = own.consumer_session_timeout_ms, own.consumer_heartbeat_interval_ms
    session_ms = bounds.group_consumer_session_timeout_ms if session_ms is None else session_ms
    interval_ms = bounds.group_consumer_heartbeat_interval_ms if interval_ms is None else interval_ms
    if session_ms <= interval_ms:
        problems.append(
            f"The session timeout would be {session_ms} ms and the heartbeat interval {interval_ms} ms, but the "
            "session timeout must be larger."
        )
    return problems
