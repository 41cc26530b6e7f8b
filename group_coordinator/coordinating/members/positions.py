"""The positions in a member's partitions begin at the committed offset or by the reset policy, and go on with each
processed record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from group_coordinator.coordinating.members.commits import Commits
from group_coordinator.coordinating.members.effects import (
    LogBoundsNeeded,
    NoOffsetToReset,
    OffsetAndMetadata,
    Positioned,
)
from group_coordinator.coordinating.members.membership import Membership
from group_coordinator.coordinating.members.requests import PendingRequest
from schemas.consumer_protocol import TopicPartition
from schemas.error_codes import ErrorCode
from schemas.messages import (
    NO_OFFSET,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
)


class Positions:
    """The next offset to read of each owned partition, as far as it is known."""

    def __init__(self, membership: Membership, commits: Commits) -> None:
        self.known: dict[TopicPartition, int] = {}
        self._membership = membership
        self._commits = commits
        self._fetched_by: dict[TopicPartition, str | None] = {}
        """Partitions whose committed offset is asked for: the request whose answer counts, None: to be asked."""
        self._unbounded: dict[TopicPartition, None] = {}
        """Partitions whose position the reset policy has to choose."""
        self._ask_at_ms: int | None = None
        self._attempts = 0

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Find out where to begin in new partitions."""
        self._fetched_by.update(dict.fromkeys(partitions))
        self._fetch()

    def dropped(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop partitions that are no longer owned."""
        for partition in partitions:
            self.known.pop(partition, None)
            self._fetched_by.pop(partition, None)
            self._unbounded.pop(partition, None)
        self._commits.forget(partitions)

    def processed(self, partition: TopicPartition, offset: int) -> None:
        """Note that the record at this offset is processed. It is ignored for a partition that the member does not
        have."""
        if partition in self.known:
            self.known[partition] = offset + 1

    def to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions that the coordinator does not have yet."""
        committed = self._commits.committed
        return {
            partition: OffsetAndMetadata(offset)
            for partition, offset in self.known.items()
            if partition not in committed or committed[partition].offset != offset
        }

    def log_bounds(self, bounds: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Take the first offset and the end of partitions; the reset policy chooses between them."""
        latest = self._membership.config.auto_offset_reset == "latest"
        positions = {
            partition: end if latest else begin
            for partition, (begin, end) in bounds.items()
            if partition in self._unbounded
        }
        for partition in positions:
            del self._unbounded[partition]
        self._begin(positions)

    def out_of_range(self, partitions: Iterable[TopicPartition]) -> None:
        """Start these partitions anew by the reset policy: the log has nothing at their positions."""
        without_position = [partition for partition in partitions if self.known.pop(partition, None) is not None]
        self._reset(without_position)

    def fire_due(self) -> None:
        if self._ask_at_ms is not None and self._ask_at_ms <= self._membership.now_ms:
            self._fetch()

    def next_deadline_ms(self) -> int | None:
        return self._ask_at_ms

    def on_response(self, pending: PendingRequest, response: OffsetFetchResponse) -> None:
        group = response.groups[0]
        if group.error_code is not ErrorCode.NONE:
            self._refused(pending, group.error_code)
            return
        fetched: dict[TopicPartition, OffsetFetchResponsePartition] = {
            partition: item
            for topic in group.topics
            for item in topic.partitions
            if self._fetched_by.get(partition := TopicPartition(topic.name, item.partition_index)) == pending.request_id
        }
        errors = [item.error_code for item in fetched.values() if item.error_code is not ErrorCode.NONE]
        if errors:
            self._refused(pending, errors[0])
            return
        for partition in fetched:
            del self._fetched_by[partition]
        committed = {
            partition: OffsetAndMetadata(item.committed_offset, item.metadata or "", item.committed_leader_epoch)
            for partition, item in fetched.items()
            if item.committed_offset > NO_OFFSET
        }
        self._attempts = 0
        self._commits.committed.update(committed)
        self._begin({partition: position.offset for partition, position in committed.items()})
        self._reset([partition for partition in fetched if partition not in committed])

    def on_timeout(self, pending: PendingRequest) -> None:
        self._membership.coordinator_unknown("no answer in time")
        self._fetch_later(pending)

    def _refused(self, pending: PendingRequest, error_code: ErrorCode) -> None:
        if not self._membership.may_repeat_fetch(error_code):
            self._membership.fail(error_code, f"OffsetFetch was refused: {error_code.meaning}")
            return
        self._membership.note_error(error_code)
        self._fetch_later(pending)

    def _fetch_later(self, pending: PendingRequest) -> None:
        for partition, request_id in self._fetched_by.items():
            if request_id == pending.request_id:
                self._fetched_by[partition] = None
        self._ask_at_ms = self._membership.now_ms + self._membership.config.backoff_ms(self._attempts)
        self._attempts += 1

    def _fetch(self) -> None:
        self._ask_at_ms = None
        partitions = sorted(partition for partition, request_id in self._fetched_by.items() if request_id is None)
        if not partitions:
            return
        member_id, member_epoch = self._membership.fetches_as
        group = OffsetFetchRequestGroup(
            group_id=self._membership.config.group_id,
            member_id=member_id,
            member_epoch=member_epoch,
            topics=tuple(
                OffsetFetchRequestTopic(name=topic, partition_indexes=tuple(item.partition for item in items))
                for topic, items in groupby(partitions, key=lambda partition: partition.topic)
            ),
        )
        pending = self._membership.send("OffsetFetch", OffsetFetchRequest(groups=(group,), require_stable=True))
        self._fetched_by.update(dict.fromkeys(partitions, pending.request_id))

    def _begin(self, positions: dict[TopicPartition, int]) -> None:
        if positions:
            self.known.update(positions)
            self._membership.notify(Positioned(positions=positions))

    def _reset(self, partitions: list[TopicPartition]) -> None:
        if not partitions:
            return
        if self._membership.config.auto_offset_reset == "none":
            self._membership.notify(NoOffsetToReset(partitions=tuple(partitions)))
            return
        self._unbounded.update(dict.fromkeys(partitions))
        self._membership.notify(LogBoundsNeeded(partitions=tuple(partitions)))
