"""The part of a group's state that all kinds of group share, and the interface of the part that one kind has.

Dicts iterate in insertion order, and that order is part of the state: timers are in the order of arming.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from msgspec import Struct, field

from coordinator_state.offsets import OffsetExpirationCondition, Offsets
from coordinator_state.timers import TimerCause, Timers
from coordinator_state.topics_image import TopicsImage
from schemas.group_metadata_events import GroupConfiguration
from schemas.messages import DescribedGroup


class GroupBody(Protocol):
    """The state of one kind of group, and the questions that the shared rooms ask of it. It changes nothing outside of
    itself.

    Source: the interface `Group` (Kafka 4.3). The validations raise `Refusal`.
    """

    type_name: ClassVar[str]
    """The type that ListGroups answers."""

    @property
    def protocol_type(self) -> str | None: ...

    @property
    def generation_id(self) -> int:
        """The generation that history records name, or the epoch."""

    @property
    def state_name(self) -> str:
        """The state that DescribeGroups and ListGroups answer."""

    @property
    def is_empty(self) -> bool:
        """The group has no members; without offsets it can be removed."""

    @property
    def is_removed(self) -> bool:
        """Kafka has taken the group out of memory, without a tombstone: only those who read what is committed still see
        it."""

    @property
    def is_small(self) -> bool:
        """The group's record is surely small (`publication`), without a count of all that is in it."""

    @property
    def ongoing_seq(self) -> int | None:
        """The history record of something that goes on and that the next records follow from; None: nothing goes on."""

    @property
    def regex_refresh_began_ms(self) -> int | None:
        """Since when expressions are being resolved for the group, or for the group that it was. In Kafka the
        background executor knows the task by the group's id: it goes on through conversions. None: nothing goes on."""

    def instance_owner(self, group_instance_id: str) -> str | None:
        """Return the member that a group instance id belongs to."""

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None: ...

    def validate_offset_delete(self) -> None: ...

    def validate_delete_group(self) -> None: ...

    def is_subscribed_to_topic(self, topic: str) -> bool: ...

    def offset_expiration_condition(self) -> OffsetExpirationCondition | None:
        """Return the condition under which an offset expires; None if no offset expires as things stand."""

    def describe(self, group_id: str) -> DescribedGroup | None:
        """Return the group as DescribeGroups shows it; None: that request does not know groups of this kind."""

    def tombstone_keys(self, group_id: str) -> tuple[bytes, ...]:
        """Return the keys of the group's own records in the offsets log."""

    def timer_cause(self, name: str) -> TimerCause:
        """Return a timer's name in history, and the member that it belongs to."""

    def move_time(self, by_ms: int) -> None:
        """Move all times that the body keeps."""


class TopicRetention(Struct, array_like=True):
    """A summary of one topic's offsets, by which the retention check need not decode them: lower bounds, never too
    late."""

    count: int
    oldest_committed_ms: int
    earliest_expire_ms: int | None = None


class Group(Struct):
    """Everything that is known of one group."""

    group_id: str
    epoch: int
    body: GroupBody
    seq: int = 0
    now_ms: int = 0
    """The group's time; it never runs backwards."""
    timestamp_ms: int = 0
    """Append time of the last event; information only."""
    timers: Timers = field(default_factory=dict)
    is_logged: bool = False
    """It has a record in the offsets log. Until then Kafka neither describes nor lists it: both read what is
    committed."""
    retention: dict[str, TopicRetention] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=Offsets)
    offsets_bytes: int | None = 0
    """The size of the offsets; None: a state of version 1 had them, and the next commit counts them."""
    topics: TopicsImage | None = None
    """The cluster's topics; None: the group was told of none."""
    configuration: GroupConfiguration | None = None
    """The group's own settings. They belong to its id: they are there before it, and after."""
    next_publication_ms: int = 0
    """Before this the group is not published again; 0 for a group that is not large."""

    def size_of_offsets(self) -> int:
        """Return the size of the offsets, in bytes."""
        if self.offsets_bytes is None:
            self.offsets_bytes = self.offsets.count_bytes(self.group_id)
        return self.offsets_bytes

    def grow_offsets(self, by_bytes: int) -> None:
        """Add to the size of the offsets, in bytes; the change may be negative."""
        if self.offsets_bytes is not None:
            self.offsets_bytes += by_bytes
