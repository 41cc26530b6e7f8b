"""Logs of several brokers together, of which one ends before the others: its members are heard no more, and did not
go."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from group_coordinator.proving.recordings.kafka_request_log import RequestLog

SHORTEST_SESSION_US = 6 * 1_000_000
"""What goes on for less shows no expiry."""
LONGEST_SILENCE_US = 60 * 1_000_000
"""Who was heard no longer ago than this, when the log ends, may still be a member."""


class EndedLog(Struct, frozen=True):
    """A file that ends while others go on."""

    file_index: int
    end_us: int
    groups: tuple[str, ...]
    """Those that had members then, as far as is known."""


def logs_that_end_early(log: RequestLog) -> Iterator[EndedLog]:
    """Yield the files that end earlier than those of other brokers, with no file of the same broker after them."""
    spans = [clock.span() for clock in log.clocks]
    for file_index, span in enumerate(spans):
        if (
            span is None
            or log.end_us is None
            or span[1] + SHORTEST_SESSION_US >= log.end_us
            or _goes_on(log, file_index)
        ):
            continue
        last = log.contents.last_requests
        groups = [
            group
            for group, (us, last_index, leaves) in last.items()
            if last_index == file_index and not leaves and us >= span[1] - LONGEST_SILENCE_US
        ]
        if groups:
            yield EndedLog(file_index, span[1], tuple(groups))


def _goes_on(log: RequestLog, file_index: int) -> bool:
    """Return whether another file has more of the same broker: it begins where this one ends, or shares connections
    with it."""
    span, connections = log.clocks[file_index].span(), log.clocks[file_index].connections
    addresses = {name.split("-", 1)[0] for name in connections}
    for other_index, other_clock in enumerate(log.clocks):
        other_span = other_clock.span()
        if other_index == file_index or span is None or other_span is None or other_span[1] <= span[1]:
            continue
        if connections.keys() & other_clock.connections.keys():
            return True
        if other_span[0] >= span[1] - LONGEST_SILENCE_US and addresses & {
            name.split("-", 1)[0] for name in other_clock.connections
        }:
            return True
    return False
