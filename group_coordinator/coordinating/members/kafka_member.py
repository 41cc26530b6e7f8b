"""A group member for a program: Kafka's consumer with a coordinator that is not in the broker.

    from group_coordinator.coordinating.members.kafka_member import Member

    with Member("localhost:9092", "billing", ["orders"]) as member:
        for record in member:
            handle(record)

Group requests go to the events topic, answers come from the responses topic, records are read from their partitions
directly: no Kafka group protocol is spoken.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from group_coordinator.coordinating.members.config import MemberConfig
from group_coordinator.coordinating.members.consumer_member import ConsumerGroupMember
from group_coordinator.coordinating.members.effects import (
    Assigned,
    Closed,
    CommitFailed,
    Committed,
    Failed,
    Lost,
    NoOffsetToReset,
    Notification,
    OffsetAndMetadata,
    PollIntervalExceeded,
    Positioned,
    Revoked,
)
from group_coordinator.coordinating.members.host import HostedMember, MemberHost
from group_coordinator.coordinating.members.member_machine import MemberMachine
from group_coordinator.coordinating.members.partition_reader import PartitionReader, Record
from schemas.consumer_protocol import TopicPartition
from schemas.error_codes import ErrorCode

_TURN_S = 0.05
"""How long to wait for records before the member is polled again."""
_NO_PATTERNS = "A member subscribes to a regular expression only with group_protocol consumer."

PartitionsCallback = Callable[["Member", tuple[TopicPartition, ...]], None]


class MemberError(RuntimeError):
    """The member has ended; `error_code` says why."""

    def __init__(self, error_code: ErrorCode, reason: str) -> None:
        super().__init__(f"{error_code.name}: {reason}")
        self.error_code = error_code


class CommitError(RuntimeError):
    """Offsets have not been committed; `error_code` says why, `offsets` which."""

    def __init__(self, failure: CommitFailed) -> None:
        super().__init__(f"{failure.error_code.name}: {failure.error_code.meaning}")
        self.error_code = failure.error_code
        self.offsets = failure.offsets


class NoOffsetError(RuntimeError):
    """Partitions have no committed offset to begin at, and `auto_offset_reset` is none."""

    def __init__(self, partitions: tuple[TopicPartition, ...]) -> None:
        super().__init__(f"no committed offset, and no reset policy, for {', '.join(map(str, partitions))}")
        self.partitions = partitions


class Member:
    """One member of a group. A context manager, and an iterator over the records of its partitions.

    Not for several threads at once. Records count as processed when the next ones are asked for.
    """

    def __init__(
        self,
        connection: str | MemberHost,
        group_id: str,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        prefix: str = "coordinator",
        consume: bool = True,
        on_assign: PartitionsCallback | None = None,
        on_revoke: PartitionsCallback | None = None,
        on_lost: PartitionsCallback | None = None,
        client_properties: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        """`connection`: bootstrap servers, or a host that several members share (with its prefix and properties).

        `pattern`: a regular expression (RE2) for whole names of topics, instead of `topics`, with `group_protocol`
        consumer. `consume`: False for a member that is only to be a member; its program tells what it has processed.
        `settings`: of `MemberConfig`. Raises HostError when the coordinator's topics are not there, ValueError for
        settings that cannot work.
        """
        self.config = MemberConfig(group_id=group_id, **settings)
        if pattern is not None and self.config.group_protocol != "consumer":
            raise ValueError(_NO_PATTERNS)
        self._owns_host = isinstance(connection, str)
        self._host = (
            MemberHost(connection, prefix=prefix, client_properties=client_properties)
            if isinstance(connection, str)
            else connection
        )
        self._callbacks = {Assigned: on_assign, Revoked: on_revoke, Lost: on_lost}
        self._reader: PartitionReader | None = None
        self._consumes = consume
        self._buffer: deque[Record] = deque()
        """Records that have been read and not been handed out."""
        self._delivered: dict[TopicPartition, int] = {}
        self._closed = False
        try:
            self._hosted: HostedMember = self._host.add(self.config, topics)
            if pattern is not None:
                self.subscribe_pattern(pattern)
        except BaseException:
            self._close_host()
            raise

    # --------------------------------------------------------------------------------------------------------- reading

    def poll(self, timeout_s: float = 1.0) -> list[Record]:
        """Return records of the member's partitions, at most `max_poll_records`; none when the time is up.

        Records that were handed out before count as processed now. Callbacks are called in here.
        Raises MemberError when the member has ended for good, NoOffsetError when there is nowhere to begin.
        """
        self._wait_for_records(timeout_s)
        count = min(len(self._buffer), self.config.max_poll_records) if self._machine.may_process else 0
        return [self._deliver() for _ in range(count)]

    def __iter__(self) -> Iterator[Record]:
        """Records one by one, until the member is closed. One counts as processed when the next is asked for."""
        while not self._closed:
            self._wait_for_records(_TURN_S)
            if self._buffer and self._machine.may_process:
                yield self._deliver()

    def processed(self, partition: TopicPartition, offset: int) -> None:
        """Note that the record at this offset is processed, in programs that read by themselves (`consume=False`)."""
        with self._host.changed:
            self._machine.processed(partition, offset)

    # ------------------------------------------------------------------------------------------------------ committing

    def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None, *, wait: bool = True
    ) -> None:
        """Commit these offsets (the next to read), or else everything that was handed out.

        Waits for the answer and raises CommitError if it is a refusal; with `wait=False` a refusal is only logged.
        """
        self._mark_processed()
        offsets_given = (
            None if offsets is None else {partition: _with_metadata(offset) for partition, offset in offsets.items()}
        )
        hosted = self._hosted
        with self._host.changed:
            commit_id = self._machine.commit(offsets_given)
            if not wait:
                self._host.act_for(hosted)
                return
            hosted.commits_awaited.add(commit_id)
            self._host.act_for(hosted)
            self._host.wait_for(lambda: commit_id in hosted.commits_ended)
            hosted.commits_awaited.discard(commit_id)
            outcome: Committed | CommitFailed = hosted.commits_ended.pop(commit_id)
        if isinstance(outcome, CommitFailed):
            raise CommitError(outcome)

    # --------------------------------------------------------------------------------------------- subscribing, ending

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics instead; the next poll rejoins. Without any, leave the group."""
        self._hosted.run(lambda machine, _: machine.subscribe(topics))

    def subscribe_pattern(self, pattern: str) -> None:
        """Subscribe to the topics whose whole names match this expression (RE2), instead of what was before.

        The coordinator resolves it. Raises ValueError in the classic protocol, which has no such thing.
        """
        machine = self._machine
        if not isinstance(machine, ConsumerGroupMember):
            raise ValueError(_NO_PATTERNS)
        self._hosted.run(lambda _, __: machine.subscribe_pattern(pattern))

    def close(self, *, leave_group: bool | None = None) -> None:
        """Commit what was handed out, if that is automatic, and leave: a static member stays unless told to leave."""
        self._mark_processed()
        self._close(leave_group)

    def abandon(self) -> None:
        """Fall silent, as after a crash: nothing is committed, no LeaveGroup is sent, and the session expires in its
        time."""
        if not self._closed:
            self._closed = True
            self._leave_host()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self._delivered.clear()  # what was being processed has failed
        self.close()

    # -------------------------------------------------------------------------------------------------- what the member
    # is

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that the member owns."""
        return self._machine.assignment

    @property
    def machine(self) -> MemberMachine:
        """The state machine: state, ids, positions. Only look."""
        return self._machine

    # ---------------------------------------------------------------------------------------------------------- inside

    @property
    def _machine(self) -> MemberMachine:
        return self._hosted.machine

    def _wait_for_records(self, timeout_s: float) -> None:
        """Poll the member, do what it says, and read on, until there are records or the time is up."""
        if self._closed:
            raise RuntimeError("the member is closed")
        self._mark_processed()
        until_s = time.monotonic() + timeout_s
        while True:
            self._poll_machine()
            if self._buffer and self._machine.may_process:
                return
            left_s = until_s - time.monotonic()
            self._read(min(max(left_s, 0), _TURN_S))
            if left_s <= 0:
                return

    def _poll_machine(self) -> None:
        self._heed()
        self._hosted.run(self._poll_if_all_is_heeded)
        self._heed()

    def _poll_if_all_is_heeded(self, machine: MemberMachine, now_ms: int) -> None:
        """To the machine, a poll says that the program has handled all that it was told, which may have become more."""
        if not self._hosted.inbox:
            machine.poll(now_ms)

    def _read(self, wait_s: float) -> None:
        """Read records into the buffer; without partitions to read, wait for what the member says next."""
        if self._reader is None or not self._reader.reading or not self._machine.may_process:
            self._host.wait_for(lambda: bool(self._hosted.inbox), wait_s)
            return
        self._buffer.extend(self._reader.read(self.config.max_poll_records, wait_s))
        if self._reader.lost_offsets:
            lost_offsets, self._reader.lost_offsets = self._reader.lost_offsets, []
            self._hosted.run(lambda machine, _: machine.out_of_range(lost_offsets))

    def _deliver(self) -> Record:
        record = self._buffer.popleft()
        self._delivered[record.topic_partition] = record.offset
        return record

    def _mark_processed(self) -> None:
        delivered, self._delivered = self._delivered, {}
        if delivered:
            with self._host.changed:
                for partition, offset in delivered.items():
                    self._machine.processed(partition, offset)

    def _heed(self) -> None:
        """Act on what the member has said, in order."""
        while self._hosted.inbox:
            self._heed_one(self._hosted.inbox.popleft())

    def _heed_one(self, notification: Notification) -> None:
        match notification:
            case Assigned(partitions=partitions):
                self._call_back(Assigned, partitions)
            case Revoked(partitions=partitions) | Lost(partitions=partitions):
                self._stop_reading(partitions)
                self._call_back(type(notification), partitions)
            case Positioned(positions=positions):
                self._start_reading(positions)
            case NoOffsetToReset(partitions=partitions):
                raise NoOffsetError(partitions)
            case Failed(error_code=error_code, reason=reason):
                raise MemberError(error_code, reason)
            case PollIntervalExceeded() | Closed():
                pass

    def _call_back(self, kind: type[Notification], partitions: tuple[TopicPartition, ...]) -> None:
        callback = self._callbacks[kind]
        if callback is not None:
            callback(self, partitions)

    def _start_reading(self, positions: Mapping[TopicPartition, int]) -> None:
        owned = {partition: offset for partition, offset in positions.items() if partition in self._machine.assignment}
        if not self._consumes or not owned:
            return
        if self._reader is None:
            self._reader = PartitionReader(self._host.properties)
        self._reader.begin(owned)

    def _stop_reading(self, partitions: tuple[TopicPartition, ...]) -> None:
        """The buffer too: what is in it will be read by others, or again."""
        if self._reader is not None:
            self._reader.drop(partitions)
            dropped = frozenset(partitions)
            self._buffer = deque(record for record in self._buffer if record.topic_partition not in dropped)

    def _close(self, leave_group: bool | None) -> None:
        if self._closed:
            return
        self._closed = True
        hosted = self._hosted
        try:
            hosted.run(lambda machine, now_ms: machine.close(now_ms, leave_group=leave_group))
            while True:
                self._handle_while_closing()
                if hosted.machine.is_closed:
                    return
                hosted.run(self._poll_if_all_is_heeded)
                self._host.wait_for(lambda: bool(hosted.inbox), _TURN_S)
        finally:
            self._leave_host()

    def _leave_host(self) -> None:
        self._host.remove(self._hosted)
        if self._reader is not None:
            self._reader.close()
        self._close_host()

    def _handle_while_closing(self) -> None:
        """Only the loss of partitions still matters."""
        while self._hosted.inbox:
            notification = self._hosted.inbox.popleft()
            if isinstance(notification, Revoked | Lost):
                self._heed_one(notification)

    def _close_host(self) -> None:
        if self._owns_host:
            self._host.close()


def _with_metadata(offset: int | OffsetAndMetadata) -> OffsetAndMetadata:
    return offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
