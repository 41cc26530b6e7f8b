"""The settings of one consumer group: its own where it has one, within the coordinator's bounds.

Source: `GroupConfigManager`, `GroupConfig.evaluate` (Kafka 4.3).
"""

from __future__ import annotations

from coordinator_state.step import Step


def session_timeout_ms(step: Step) -> int:
    """Return how long a native member may be silent."""
    return _setting(step, "session_timeout_ms")


def heartbeat_interval_ms(step: Step) -> int:
    """Return how often a member is told to send a heartbeat."""
    return _setting(step, "heartbeat_interval_ms")


def assignment_interval_ms(step: Step) -> int:
    """Return the least time between two target assignments."""
    return _setting(step, "assignment_interval_ms")


def _setting(step: Step, name: str) -> int:
    config = step.config
    own = step.configuration if step.group is None else step.group.configuration
    value: int | None = None if own is None else getattr(own, f"consumer_{name}")
    if value is None:
        value = getattr(config, f"group_consumer_{name}")
    least: int = getattr(config, f"group_consumer_min_{name}")
    most: int = getattr(config, f"group_consumer_max_{name}")
    return min(max(value, least), most)
