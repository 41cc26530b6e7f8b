"""An offsets log read as a whole."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator_state.replay import StoredGroup, StoredGroups


def replay_offsets_log(records: Iterable[tuple[bytes, bytes | None]]) -> dict[str, StoredGroup]:
    """The groups that the (key, value) records of an offsets log leave behind, by id. Raises `DecodeError`."""
    stored = StoredGroups()
    for key, value in records:
        stored.replay(key, value)
    return stored.groups
