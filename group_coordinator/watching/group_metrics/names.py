"""Group ids as they are kept: they come from outside, and each may have 32 KB."""

from __future__ import annotations

from group_coordinator.ground.digests import digest

NAME_CHARACTERS_MAX = 300
_BEGINNING = 250


def kept_name(group_id: str) -> str:
    """Return the id. Of a very long id return its beginning, and a mark that distinguishes it in this process."""
    if len(group_id) <= NAME_CHARACTERS_MAX:
        return group_id
    return f"{group_id[:_BEGINNING]}... ({len(group_id)} characters, {digest(group_id).hex()})"
