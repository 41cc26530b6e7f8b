"""Lines of brokers' logs that name a static member and not its group: which group they are of.

Records tell it. A line may come before them, and then waits. Both are kept in a bounded number of bytes, since clients
choose the ids: beyond it the oldest are forgotten, and such a line of a member that was forgotten is told of no group.
"""

from __future__ import annotations

from collections import OrderedDict
from sys import getsizeof

from group_coordinator.watching.broker_logs.broker_lines import BrokerLine

MEMBERS_BYTES_MAX = 16 << 20
LINES_BYTES_MAX = 4 << 20
_MEMBER_BYTES, _LINE_BYTES = 250, 1_500
"""What an entry takes beside the characters of its ids."""


class MemberLines:
    """The groups of static members, and the lines that wait for them."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, str] = OrderedDict()
        """By member, the one that was told last at the end."""
        self._waiting: OrderedDict[str, list[BrokerLine]] = OrderedDict()
        self._group_bytes = self._waiting_bytes = 0

    def note(self, member_id: str, group_id: str) -> list[BrokerLine]:
        """Note whose member it is; return the lines that have waited for that."""
        if member_id in self._groups:
            self._groups.move_to_end(member_id)
            return []
        self._groups[member_id] = group_id
        self._group_bytes += _bytes_of(member_id, group_id)
        while self._group_bytes > MEMBERS_BYTES_MAX:
            self._group_bytes -= _bytes_of(*self._groups.popitem(last=False))
        lines = self._waiting.pop(member_id, [])
        self._waiting_bytes -= len(lines) * _line_bytes(member_id)
        return lines

    def group_of(self, member_id: str) -> str | None:
        """Return the group of a member; None if no record has told it."""
        return self._groups.get(member_id)

    def wait(self, member_id: str, line: BrokerLine) -> None:
        """Keep a line until the group of its member is told."""
        self._waiting.setdefault(member_id, []).append(line)
        self._waiting_bytes += _line_bytes(member_id)
        while self._waiting_bytes > LINES_BYTES_MAX:
            oldest, lines = next(iter(self._waiting.items()))
            del lines[0]
            self._waiting_bytes -= _line_bytes(oldest)
            if not lines:
                del self._waiting[oldest]


def _bytes_of(member_id: str, group_id: str) -> int:
    return _MEMBER_BYTES + getsizeof(member_id) + getsizeof(group_id)


def _line_bytes(member_id: str) -> int:
    return _LINE_BYTES + 2 * getsizeof(member_id)
