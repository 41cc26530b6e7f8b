"""The timers of a classic group, by name."""

from __future__ import annotations

JOIN = "join"
"""Initial delay and rebalance timeout: one timer, as in Kafka."""
SYNC = "sync"
"""Members that know of the generation must have sent SyncGroup."""
SESSION_PREFIX = "session:"


def session(member_id: str) -> str:
    """Name of a member's session timer; a handed-out member id that is not yet used has one too."""
    return SESSION_PREFIX + member_id


def member_of(name: str) -> str | None:
    """Return the member whose session timer this is; None for another timer."""
    return name[len(SESSION_PREFIX) :] if name.startswith(SESSION_PREFIX) else None
