"""The groups as the coordinator last published them: the compacted assignments topic, as a table."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from gateway.topic_reader import TopicRecord
from schemas.history import GroupSnapshot, decode_snapshot
from schemas.messages import ListedGroup

_log = logging.getLogger(__name__)


class PublishedGroups:
    """Fed by a `TopicReader`; asked by the door."""

    def __init__(self) -> None:
        self._groups: dict[str, GroupSnapshot] = {}
        self._is_complete = False

    def take(self, records: list[TopicRecord]) -> None:
        for record in records:
            try:
                group_id = record.key.decode()
                if record.value is None:
                    self._groups.pop(group_id, None)
                else:
                    self._groups[group_id] = decode_snapshot(record.value)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                _log.warning("a record of the assignments topic is not understood: %s", error)

    def complete(self) -> None:
        """All that was there at the start has been taken."""
        self._is_complete = True

    def group(self, group_id: str) -> GroupSnapshot | None:
        """A group; None: there is none that is known."""
        return self._groups.get(group_id)

    def listed(self) -> Iterable[ListedGroup] | None:
        """All groups; None: they have not all been read yet."""
        if not self._is_complete:
            return None
        return [
            ListedGroup(group_id=group.group_id, protocol_type=group.protocol_type or "", group_state=group.state)
            for group in self._groups.values()
        ]
