"""The bounds of a partition's log are its first and its next offset. Pure."""

from __future__ import annotations

from typing import NamedTuple

Partition = tuple[str, int]
"""Topic and partition number."""


class Bounds(NamedTuple):
    """A stretch of a partition: the whole log, or a part of it."""

    begin: int
    """Its first offset: what lies before it is no backlog, retention has removed it."""
    end: int
    """The offset behind its last record."""

    def unread(self, committed: int) -> int:
        """Return the number of messages behind a committed offset.

        What retention has removed is not to be read, and a log that was made anew is no negative lag.
        (kafka-consumer-groups counts the messages that are gone.)
        """
        return max(0, self.end - max(committed, self.begin))
