"""The settings of one consumer group: its own where it has one, within the coordinator's bounds.

Source: `GroupConfigManager`, `GroupConfig.evaluate` (Kafka 4.3).
"""

from __future__ import annotations

from coordinator_state.config import GroupConfig
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
