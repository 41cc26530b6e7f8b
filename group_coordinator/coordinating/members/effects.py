"""A group member emits requests to send, and notifications to its application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from schemas.consumer_protocol import TopicPartition
from schemas.error_codes import ErrorCode
from schemas.messages import NO_LEADER_EPOCH, Request


class OffsetAndMetadata(NamedTuple):
    """A committed position: the next offset to read, and what the application wants to remember with it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_LEADER_EPOCH


Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class Send(Struct, frozen=True, kw_only=True):
    """A request for the events topic: write it to partition `shard`, with the group id as its key."""

    request_id: str
    shard: int
    api: str
    api_version: int
    request: Request


class GaveUp(Struct, frozen=True, kw_only=True):
    """The answer to this request is not waited for any longer; should it still come, it is ignored."""

    request_id: str
    api: str


class Assigned(Struct, frozen=True, kw_only=True):
    """A rebalance is complete: these partitions are new (with eager assignors: all that the member has).

    Consume none of them before its `Positioned`. Told after every rebalance, also when nothing is new.
    """

    partitions: tuple[TopicPartition, ...]
    generation_id: int


class Revoked(Struct, frozen=True, kw_only=True):
    """These partitions must be given up; the next `poll` says that they have been. Positions may still be committed."""

    partitions: tuple[TopicPartition, ...]


class Lost(Struct, frozen=True, kw_only=True):
    """These partitions are gone, others may have them already: stop at once, commit nothing."""

    partitions: tuple[TopicPartition, ...]


class Positioned(Struct, frozen=True, kw_only=True):
    """The next offset to read of each newly assigned partition."""

    positions: dict[TopicPartition, int]


class LogBoundsNeeded(Struct, frozen=True, kw_only=True):
    """These partitions have no committed offset: answer with `log_bounds`, so that the reset policy can choose one."""

    partitions: tuple[TopicPartition, ...]


class NoOffsetToReset(Struct, frozen=True, kw_only=True):
    """These partitions have no committed offset (or none that exists), and `auto_offset_reset` is none."""

    partitions: tuple[TopicPartition, ...]


class PartitionCountsNeeded(Struct, frozen=True, kw_only=True):
    """The member leads and must know these topics: answer with `partitions_changed` (0 for one that does not exist)."""

    topics: tuple[str, ...]


class TopicNamesNeeded(Struct, frozen=True, kw_only=True):
    """The member has been assigned partitions of these topics, and must know their names: answer with `topic_names`."""

    topic_ids: tuple[str, ...]


class Committed(Struct, frozen=True, kw_only=True):
    """The coordinator has these offsets."""

    commit_id: int
    offsets: Offsets
    automatic: bool


class CommitFailed(Struct, frozen=True, kw_only=True):
    """The coordinator has refused these offsets, or has not been heard in time: the positions are not safe."""

    commit_id: int
    offsets: Offsets
    automatic: bool
    error_code: ErrorCode


class CoordinatorUnknown(Struct, frozen=True, kw_only=True):
    """The coordinator is not heard, or not there: look whether the shards are as many as they were.

    The member goes on trying; it keeps its partitions, since silence alone does not expel anybody.
    """

    reason: str


class PollIntervalExceeded(Struct, frozen=True, kw_only=True):
    """The application did not poll for `max.poll.interval.ms`: the member has left; the next poll joins again."""


class Failed(Struct, frozen=True, kw_only=True):
    """The end: nothing more will be sent. The application must close this member and repair the cause."""

    error_code: ErrorCode
    reason: str


class Closed(Struct, frozen=True, kw_only=True):
    """The member has closed: it has left the group, or (static) stays in it until its session expires."""


Notification = (
    Assigned
    | Revoked
    | Lost
    | Positioned
    | LogBoundsNeeded
    | NoOffsetToReset
    | PartitionCountsNeeded
    | TopicNamesNeeded
    | Committed
    | CommitFailed
    | CoordinatorUnknown
    | PollIntervalExceeded
    | Failed
    | Closed
)
Output = Send | GaveUp | Notification
