"""The settings of one consumer group: its own where it has one, within the coordinator's bounds.

Source: `GroupConfigManager`, `GroupConfig.evaluate` (Kafka 4.3).
"""

from __future__ import annotations

from coordinator_state.config import GroupConfig, GroupSettings
from coordinator_state.consumer_settings import MemberIntervals
from coordinator_state.step import Step
from schemas.group_metadata_events import GroupConfiguration


def member_intervals(config: GroupConfig, own: GroupConfiguration | None) -> MemberIntervals:
    """Return the intervals of a group with these settings of its own."""
    if own is None:
        return config.member_intervals
    of_all = config.member_intervals
    return MemberIntervals(
        config.bounded("session_timeout_ms", own.consumer_session_timeout_ms, of_all.session_timeout_ms),
        config.bounded("heartbeat_interval_ms", own.consumer_heartbeat_interval_ms, of_all.heartbeat_interval_ms),
    )


def configuration_problems(config: GroupSettings, own: GroupConfiguration) -> list[str]:
    """Return a sentence for each setting that a group may not have; Kafka answers INVALID_CONFIG.

    Source: `GroupConfig.validate` (Kafka 4.3).
    """
    problems: list[str] = []
    for name in ("session_timeout_ms", "heartbeat_interval_ms", "assignment_interval_ms"):
        value: int | None = getattr(own, f"consumer_{name}")
        least, most = (getattr(config, f"group_consumer_{bound}_{name}") for bound in ("min", "max"))
        if value is not None and not least <= value <= most:
            problems.append(
                f"consumer.{name.replace('_', '.')} is {value}, but must be {least} to {most} "
                f"(group_consumer_min_{name}, group_consumer_max_{name})."
            )
    session_ms, interval_ms = own.consumer_session_timeout_ms, own.consumer_heartbeat_interval_ms
    session_ms = config.group_consumer_session_timeout_ms if session_ms is None else session_ms
    interval_ms = config.group_consumer_heartbeat_interval_ms if interval_ms is None else interval_ms
    if session_ms <= interval_ms:
        problems.append(
            f"The session timeout would be {session_ms} ms and the heartbeat interval {interval_ms} ms, but the "
            "session timeout must be larger."
        )
    return problems


def session_timeout_ms(step: Step) -> int:
    """Return how long a native member may be silent."""
    return member_intervals(step.config, _own(step)).session_timeout_ms


def heartbeat_interval_ms(step: Step) -> int:
    """Return how often a member is told to send a heartbeat."""
    return member_intervals(step.config, _own(step)).heartbeat_interval_ms


def assignment_interval_ms(step: Step) -> int:
    """Return the least time between two target assignments."""
    config, own = step.config, _own(step)
    return config.bounded(
        "assignment_interval_ms",
        None if own is None else own.consumer_assignment_interval_ms,
        config.group_consumer_assignment_interval_ms,
    )


def _own(step: Step) -> GroupConfiguration | None:
    return step.configuration if step.group is None else step.group.configuration
