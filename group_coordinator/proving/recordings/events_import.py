"""A broker's request log as events: what `import kafka-request-log` writes, for a file or a topic.

The log is followed first (`group_coordinator.proving.recordings.following`), so that a replay of the events does what
the broker did. There is one event for each group that a request names, in the order and at the time in which the broker
must have handled it, and events that say what requests do not: whom the broker elected, what a group was that is older
than the log, where it is not known. Before each event there is a tick at its time, and a last one at the end of the
log.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from group_coordinator.proving.recordings.following import FollowedGroup, Following
from group_coordinator.proving.recordings.group_requests import GroupRequest
from group_coordinator.proving.recordings.replay_state import GroupInput
from schemas.events import encode_json, encode_request_event, encode_tick
from schemas.java_hash import group_partition
from schemas.recorded import RecordedDeparture
from schemas.records_file import Record


class ImportCounts(Struct):
    """The counts of an import."""

    events: int = 0
    """Requests of the log."""
    inferred: int = 0
    """Requests that are not in the log, and that the broker must have got, and members that must have gone."""
    ticks: int = 0
    groups: int = 0
    set_aside: int = 0
    """Requests that are no events: the broker answered them without asking the group, or what the group was is not
    known."""


class EventsImport:
    """The events of a log that was followed; iterate once, then look at `counts`."""

    def __init__(self, following: Following, *, shard_count: int = 1) -> None:
        """`shard_count`: partitions of the events topic; a group's events go where Kafka's hash puts the group."""
        self.counts = ImportCounts(
            groups=len(following.groups),
            set_aside=sum(following.set_aside.values())
            + sum(sum(group.not_compared.values()) for group in following.groups),
        )
        self._following = following
        self._next_offset = [0] * shard_count
        self._clock_ms: list[int | None] = [None] * shard_count

    def __iter__(self) -> Iterator[Record]:
        inputs = [(item, group) for group in self._following.groups for item in group.inputs()]
        inputs.sort(key=lambda pair: pair[0].clock_ms)  # stable: the inputs of one group keep their order
        for item, group in inputs:
            yield from self._event(group, item)
        if self._following.end_ms is not None:
            for partition in range(len(self._next_offset)):
                yield from self._tick(partition, self._following.end_ms)

    def _event(self, group: FollowedGroup, item: GroupInput) -> Iterator[Record]:
        partition = group_partition(group.group_id, len(self._next_offset))
        yield from self._tick(partition, item.clock_ms)
        if isinstance(item.value, GroupRequest):
            if item.value.is_inferred:
                self.counts.inferred += 1
            else:
                self.counts.events += 1
            value = _request(item.value)
        else:
            self.counts.inferred += isinstance(item.value, RecordedDeparture)
            value = encode_json(item.value)
        yield self._record(partition, item.clock_ms, group.group_id.encode(), value)

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


def _request(request: GroupRequest) -> bytes:
    return encode_request_event(
        request.logged.api,
        request.logged.api_version,
        request.request,
        request_id=request.request_id,
        reply_partition=0,
        client_id=request.logged.client_id,
        client_host=request.logged.client_host,
        new_member_id=request.new_member_id,
        topic_metadata=request.topic_metadata,
        recorded=request.recorded,
    )
