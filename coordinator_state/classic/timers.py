"""The timers of a classic group, by name."""

from __future__ import annotations

JOIN = "join"
"""Initial delay and rebalance timeout: one timer, as in Kafka."""
SYNC = "sync"
"""Members that know of the generation must have sent SyncGroup."""
SESSION_PREFIX = "session:"


def is_left_over(name: str) -> bool:
    """Return whether a timer is of the time when this was a consumer group. A classic group does not look at it."""
    return name.startswith(("join:", "sync:"))


def session(member_id: str) -> str:
    """Name of a member's session timer; a handed-out member id that is not yet used has one too."""
    return SESSION_PREFIX + member_id


def member_of(name: str) -> str | None:
    """Return the member whose session timer this is; None for another timer."""
    return name[len(SESSION_PREFIX) :] if name.startswith(SESSION_PREFIX) else None
