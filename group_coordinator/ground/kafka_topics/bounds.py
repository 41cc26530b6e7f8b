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
        (kafka-consumer-groups counts the messages that are gone, too: it is the sum of this and `gone`.)
        """
        return max(0, self.end - max(committed, self.begin))

    def gone(self, committed: int) -> int:
        """Return the number of messages behind a committed offset that are not there any more: retention or a request
        has deleted them."""
        return max(0, self.begin - committed)


class Reach(NamedTuple):
    """What a log says of itself beyond its bounds."""

    stable_end: int
    """Up to there consumers read that wait for the end of transactions (`isolation.level=read_committed`)."""
    first_ms: int | None
    """When its first record was written; None: it has none."""
