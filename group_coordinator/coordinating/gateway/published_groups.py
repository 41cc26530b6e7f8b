"""The groups as the coordinator last published them: the compacted assignments topic, as a table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from sys import intern

import msgspec
from msgspec import Struct

from group_coordinator.coordinating.gateway.handover import TopicRecord
from group_coordinator.coordinating.gateway.metrics import GatewayMetrics
from schemas.foreign_json import json_decoder
from schemas.group_metadata_events import GroupConfiguration
from schemas.group_states import GroupState
from schemas.light_snapshot import LightSnapshot
from schemas.messages import ListedGroup
from schemas.query_progress import ChangedGroup

_GROUP_BYTES = 300
"""What a group takes besides its names, at most."""
_log = logging.getLogger(__name__)


class _AssignedTopic(Struct, frozen=True, gc=False):
    topic: str


class _SnapshotMember(Struct, frozen=True, gc=False):
    partitions: tuple[_AssignedTopic, ...] | None = None


class PublishedGroup(Struct, frozen=True):
    """What the gateway needs of a group; metadata and assignments, which may be megabytes, are dropped."""

    group_id: str
    state: str
    protocol_type: str | None
    assigned_topics: tuple[str, ...] = ()
    """The topics of which a member of a classic group has partitions."""
    is_consumer_group: bool = False
    """It is of the consumer kind (KIP-848)."""
    subscribed_topics: frozenset[str] = frozenset()
    """The topics that a member of a consumer group names."""
    topics_version: int = -1
    """The last version of the cluster's topics that a consumer group was told of."""
    epoch: int = -1
    seq: int = -1
    """It was so from this output on."""

    def is_later_than(self, changed: ChangedGroup) -> bool:
        """Return whether this was published with a later output than a responder speaks of."""
        return (self.epoch, self.seq) > (changed.epoch, changed.seq)

    def hears_of(self, topic: str, version: int | None) -> bool:
        """Return whether the group knows this version of a topic, or the watcher sees that it does not. None: the topic
        does not exist."""
        return topic in self.subscribed_topics and (version is None or version <= self.topics_version)

    @property
    def size(self) -> int:
        """About what it takes in memory."""
        names = 8 * len(self.assigned_topics) + 64 * len(self.subscribed_topics)
        return _GROUP_BYTES + _text_bytes(self.group_id) + names


def _text_bytes(text: str) -> int:
    """Return an upper bound: a character beyond ASCII takes up to four bytes."""
    return len(text) if text.isascii() else 4 * len(text)


_Snapshot = LightSnapshot[tuple[_SnapshotMember, ...]]
_decode: Callable[[bytes], _Snapshot] = json_decoder(_Snapshot)


class PublishedGroups:
    """A `TopicFollower` feeds the groups; the request router reads them."""

    def __init__(self, bytes_max: int, metrics: GatewayMetrics | None = None) -> None:
        """Groups beyond `bytes_max` are not kept, so they are not listed; `metrics` counts them."""
        self._metrics = metrics or GatewayMetrics()
        self._bytes_max = bytes_max
        self._groups: dict[str, PublishedGroup] = {}
        self.configured: dict[str, GroupConfiguration] = {}
        """The groups' own settings; also those of groups that are not there."""
        self._bytes = 0
        self._is_complete = False

    def __len__(self) -> int:
        """Return the number of known groups."""
        return len(self._groups)

    @property
    def kept_bytes(self) -> int:
        """The memory that the groups take, about."""
        return self._bytes

    def take(self, records: list[TopicRecord]) -> None:
        for record in records:
            try:
                group_id = record.key.decode()
                group = None if record.value is None else _decode(record.value)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                _log.warning("a record of the assignments topic is not understood: %s", error)
                continue
            self._forget(group_id)
            if group is None:
                continue
            if group.configuration is not None:
                self._keep_configuration(group_id, group.configuration)
            if group.state != GroupState.DEAD:
                self._keep(group_id, group)

    def complete(self) -> None:
        """Note that all records that existed at the start have been read."""
        self._is_complete = True

    def group(self, group_id: str) -> PublishedGroup | None:
        """Return a group; None if it is not known."""
        return self._groups.get(group_id)

    def listed(self, changed: Mapping[str, ChangedGroup]) -> Iterable[ListedGroup] | None:
        """Return all groups, each as it is by the later of two outputs: what is published, or what responders say has
        `changed`. None: the groups have not all been read yet."""
        if not self._is_complete:
            return None
        return [*self._listed_as_published(changed), *self._listed_as_changed(changed)]

    def _listed_as_published(self, changed: Mapping[str, ChangedGroup]) -> Iterator[ListedGroup]:
        for group in self._groups.values():
            now = changed.get(group.group_id)
            if now is None or group.is_later_than(now):
                yield ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=group.state,
                    group_type="consumer" if group.is_consumer_group else "classic",
                )

    def _listed_as_changed(self, changed: Mapping[str, ChangedGroup]) -> Iterator[ListedGroup]:
        for now in changed.values():
            group = self._groups.get(now.group_id)
            if now.state is not None and (group is None or not group.is_later_than(now)):
                yield ListedGroup(
                    group_id=now.group_id,
                    protocol_type=now.protocol_type,
                    group_state=now.state,
                    group_type=now.group_type,
                )

    def _forget(self, group_id: str) -> None:
        if self.configured.pop(group_id, None) is not None:
            self._bytes -= _GROUP_BYTES + _text_bytes(group_id)
        group = self._groups.pop(group_id, None)
        if group is not None:
            self._bytes -= group.size

    def _keep(self, group_id: str, snapshot: _Snapshot) -> None:
        subscription, topics = snapshot.subscription, set[str]()
        if subscription is None:
            topics = {assigned.topic for member in snapshot.members for assigned in member.partitions or ()}
        group = PublishedGroup(
            group_id,
            intern(snapshot.state),
            None if snapshot.protocol_type is None else intern(snapshot.protocol_type),
            tuple([intern(topic) for topic in sorted(topics)]),
            subscription is not None,
            frozenset([intern(topic) for topic in subscription.topics] if subscription else ()),
            -1 if subscription is None else subscription.topics_version,
            snapshot.epoch,
            snapshot.seq,
        )
        if self._bytes + group.size <= self._bytes_max:
            self._groups[group_id] = group
            self._bytes += group.size
        else:
            self._warn_once()

    def _keep_configuration(self, group_id: str, own: GroupConfiguration) -> None:
        size = _GROUP_BYTES + _text_bytes(group_id)
        if self._bytes + size <= self._bytes_max:
            self.configured[group_id] = own
            self._bytes += size
        else:
            self._warn_once()

    def _warn_once(self) -> None:
        self._metrics.groups_left_out += 1
        if self._metrics.groups_left_out == 1:
            _log.warning(
                "there are more groups than find room in listed_bytes_max (%d bytes): ListGroups does not name all",
                self._bytes_max,
            )
