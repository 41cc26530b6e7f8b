"""A broker's request log as events: what `import kafka-request-log` writes, for a file or a topic.

One event for each group that a request names. Before each event there is a tick at its arrival, and a last one at the
end of the log, so that a replay has the broker's time to the millisecond.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from recordings.group_requests import GroupRequest
from recordings.kafka_request_log import RequestLog
from schemas.events import encode_request_event, encode_tick
from schemas.java_hash import group_partition
from schemas.records_file import Record


class ImportCounts(Struct):
    """What an import wrote."""

    events: int = 0
    ticks: int = 0
    groups: int = 0
    set_aside: int = 0
    """Requests that the broker answered without asking the group, for example while it was loading."""


class EventsImport:
    """The events of a request log that was read; iterate once, then look at `counts`."""

    def __init__(self, log: RequestLog, *, shard_count: int = 1) -> None:
        """`shard_count`: partitions of the events topic; a group's events go where Kafka's hash puts the group."""
        self.counts = ImportCounts()
        self._log = log
        self._shard_count = shard_count
        self._next_offset = [0] * shard_count
        self._clock_ms: list[int | None] = [None] * shard_count
        self._groups: set[str] = set()

    def __iter__(self) -> Iterator[Record]:
        for request in self._log.group_requests():
            if request.set_aside is None:
                yield from self._event(request)
            else:
                self.counts.set_aside += 1
        self.counts.groups = len(self._groups)
        if self._log.end_us is not None:
            for partition in range(self._shard_count):
                yield from self._tick(partition, _ms(self._log.end_us))

    def _event(self, request: GroupRequest) -> Iterator[Record]:
        partition = group_partition(request.group_id, self._shard_count)
        arrival_ms = _ms(request.logged.arrival_us)
        yield from self._tick(partition, arrival_ms)
        self.counts.events += 1
        self._groups.add(request.group_id)
        value = encode_request_event(
            request.logged.api,
            request.logged.api_version,
            request.request,
            request_id=request.request_id,
            reply_partition=0,
            client_id=request.logged.client_id,
            client_host=request.logged.client_host,
            new_member_id=request.new_member_id,
        )
        yield self._record(partition, arrival_ms, request.group_id.encode(), value)

    def _tick(self, partition: int, clock_ms: int) -> Iterator[Record]:
        """A tick, unless the clock already stands there."""
        last_ms = self._clock_ms[partition]
        if last_ms is None or clock_ms > last_ms:
            self._clock_ms[partition] = clock_ms
            self.counts.ticks += 1
            yield self._record(partition, clock_ms, None, encode_tick(clock_ms))

    def _record(self, partition: int, timestamp_ms: int, key: bytes | None, value: bytes) -> Record:
        offset = self._next_offset[partition]
        self._next_offset[partition] = offset + 1
        return Record(partition=partition, offset=offset, timestamp_ms=timestamp_ms, key=key, value=value)


def _ms(us: int) -> int:
    return us // 1000
