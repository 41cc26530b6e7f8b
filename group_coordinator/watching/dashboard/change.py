"""The settings under which a log is played again."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

GroupProtocol = Literal["classic", "consumer"]
"""Kafka's `group.protocol`, of a client."""


class Change(Struct, frozen=True, kw_only=True):
    """The changed settings; None leaves one as it was."""

    group_protocol: GroupProtocol | None = None
    """Every client's `group.protocol`."""
    session_timeout_ms: int | None = None
    """Every member's session timeout: its own in a classic group, the coordinator's setting in a consumer group."""
    heartbeat_interval_ms: int | None = None
    """The time between two heartbeats of a member; in a consumer group the coordinator's setting."""
    initial_delay_ms: int | None = None
    """The coordinator's `group_initial_rebalance_delay_ms`, of classic groups."""
    assignment_interval_ms: int | None = None
    """The coordinator's `group_consumer_assignment_interval_ms`, of consumer groups."""
    static_members: bool = False
    """Every client has its client id as its static id."""
    assignor: str | None = None
    """The assignor that all members offer, or ask the coordinator for."""
