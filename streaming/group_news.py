"""What the consumer groups of a shard must be told of the cluster's topics. Pure.

A group publishes what it subscribes to, and Kafka's hash of the topics as it knows them. Where the hash is not that of
the topics as they are, the group is told of those that changed since the hashes were last the same, or else of all. A
group that waits for the topics of its expressions is told them, and one that should ask for them again is told that
there are new ones. Nothing is remembered over a restart: whoever begins anew compares.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Set
from sys import intern

from msgspec import Struct
from msgspec.structs import replace

from coordinator_state.consumer.metadata_hash import hash_of_hashes, topic_metadata_hash
from group_coordinator.ground.kafka_topics.cluster_topics import ClusterTopics
from schemas.group_metadata_events import RegexesResolved, TopicMetadata
from schemas.history import SnapshotSubscription
from schemas.topic_regexes import InvalidTopicRegex, matching_topics

KEPT_NAMES_MAX = 500_000
"""Of all expressions together, each of which counts as some more by its length, after which those that were asked for
first are forgotten."""
_NAME_CHARACTERS = 32


class MatchingTopics:
    """Of the topics in a table, but for the coordinator's own."""

    def __init__(self, table: ClusterTopics, own_prefix: str) -> None:
        """`own_prefix`: the names of the coordinator's topics begin so."""
        self._table, self._own_prefix = table, own_prefix
        self._matches: dict[str, frozenset[str]] = {}
        self._names = 0
        """About so many are kept."""

    def of(self, regex: str) -> frozenset[str]:
        """Return the topics whose whole name matches."""
        found = self._matches.get(regex)
        if found is None:
            found = self._matching(regex, self._table.names)
            self._keep(regex, found)
        return found

    def change(self, names: Set[str]) -> None:
        """Look again at these names, which came, changed or went."""
        present = [name for name in names if self._table.version_of(name) is not None]
        for regex, before in list(self._matches.items()):
            self._keep(regex, (before - names) | self._matching(regex, present))

    def may_concern(self, regex: str, names: Set[str]) -> bool:
        """Return whether one of these names may match."""
        found = self._matches.get(regex)
        return found is None or not names.isdisjoint(found)

    def _matching(self, regex: str, names: Set[str] | list[str]) -> frozenset[str]:
        try:
            matches = matching_topics(regex, names)
        except InvalidTopicRegex:  # this version of RE2 does not take what another one took
            return frozenset()
        return frozenset([name for name in matches if not name.startswith(self._own_prefix)])

    def _keep(self, regex: str, found: frozenset[str]) -> None:
        self._forget(regex)
        self._matches[regex] = found
        self._names += _names_of(regex, found)
        while self._names > KEPT_NAMES_MAX and len(self._matches) > 1:
            self._forget(next(iter(self._matches)))

    def _forget(self, regex: str) -> None:
        found = self._matches.pop(regex, None)
        if found is not None:
            self._names -= _names_of(regex, found)


def _names_of(regex: str, found: frozenset[str]) -> int:
    return len(found) + 1 + len(regex) // _NAME_CHARACTERS


KEPT_BYTES_MAX = 268_435_456
"""Of what groups subscribe to; a group beyond that is told of no change."""
_GROUP_BYTES = 1_000
_NAME_BYTES = 32
"""What a group, or one of its names, takes, about. The text of names is shared."""

_VERSION_END = 2**62
"""No topic has so many records: whoever told a group of such a version has made it up."""

_log = logging.getLogger(__name__)

Event = TopicMetadata | RegexesResolved


class _Group(Struct):
    """A group, and what it has been told."""

    subscription: SnapshotSubscription
    names: frozenset[str]
    """All that it subscribes to, by name or by an expression that is resolved."""
    known: tuple[int, frozenset[str]] | None = None
    """At this version of the topics the group knew all about these names."""
    told: tuple[int, int, frozenset[str]] | None = None
    """The hash that was to be reached when the group was last told of topics, and its own hash and its names then."""
    is_resolved: bool = False
    """It was told the topics of its expressions since it published this."""
    told_new: frozenset[str] = frozenset()
    """New topics that its expressions match, of which it was told."""


class GroupNews:
    """One for a shard."""

    def __init__(self, table: ClusterTopics, own_prefix: str, event_bytes_max: int) -> None:
        """`own_prefix`: topics whose names begin so are the coordinator's, and match no expression."""
        self._table = table
        self._event_bytes_max = event_bytes_max
        self._matching = MatchingTopics(table, own_prefix)
        self._groups: dict[str, _Group] = {}
        self._bytes = 0
        self._to_look_at: dict[str, None] = {}
        self._looked_at_version = -1
        self._hashes: dict[str, int] = {}
        """By topic name, of topics that exist; dropped when the topic changes."""
        self._is_full = False
        self.largest_version_told = -1
        """The largest version that a group says it was told of, by somebody who may know."""

    def published(self, news: Mapping[str, SnapshotSubscription | None]) -> None:
        """Take in what groups have published; None: it is no consumer group any more."""
        for group_id, subscription in news.items():
            before = self._groups.pop(group_id, None)
            self._bytes -= 0 if before is None else kept_bytes(group_id, before.subscription)
            self._to_look_at.pop(group_id, None)
            if subscription is None:
                continue
            if subscription.topics_version < _VERSION_END:
                self.largest_version_told = max(self.largest_version_told, subscription.topics_version)
            if not (subscription.topics or subscription.regexes or subscription.resolving_since_ms is not None):
                continue
            group = _group(subscription, before)
            if self._bytes + kept_bytes(group_id, subscription) > KEPT_BYTES_MAX:
                self._warn_once()
                continue
            self._bytes += kept_bytes(group_id, subscription)
            self._groups[group_id] = group
            self._to_look_at[group_id] = None

    def due(self) -> Iterator[tuple[str, list[Event]]]:
        """Yield what groups are to be told, each with its events. What was not `told` comes again."""
        self._note_changes()
        for group_id in list(self._to_look_at):
            events = list(self._events(self._groups[group_id]))
            if events:
                yield group_id, events
            else:
                del self._to_look_at[group_id]

    def told(self, group_ids: Iterable[str]) -> None:
        """Note that these groups' events are in the log."""
        for group_id in group_ids:
            del self._to_look_at[group_id]
            self._note_told(self._groups[group_id])

    def _note_changes(self) -> None:
        """Have all groups looked at again that may subscribe to a topic that has changed."""
        table, since = self._table, self._looked_at_version
        if table.version == since:
            return
        self._looked_at_version = table.version
        changed = table.changed_since(since)
        for name in changed:
            self._hashes.pop(name, None)
        self._matching.change(changed)
        for group_id, group in self._groups.items():
            may_match = any(self._matching.may_concern(regex, changed) for regex in group.subscription.regexes)
            if may_match or not changed.isdisjoint(group.names):
                self._to_look_at[group_id] = None

    def _events(self, group: _Group) -> Iterator[Event]:
        subscription = group.subscription
        names = dict.fromkeys(self._compare(group))
        since_ms = subscription.resolving_since_ms
        if since_ms is None:
            new = self._new_matches(subscription)
            if not new <= group.told_new:
                names |= dict.fromkeys(sorted(new))
                yield TopicMetadata(version=self._table.version, topics=(), new_topics_version=self._table.version)
            yield from self._table.metadata(names, self._event_bytes_max)
        elif group.is_resolved:
            yield from self._table.metadata(names, self._event_bytes_max)
        else:
            resolved = {regex: tuple(sorted(self._matching.of(regex))) for regex in subscription.regexes}
            matches = dict.fromkeys([name for topics in resolved.values() for name in topics])
            names |= dict.fromkeys(self._unknown(group, matches))
            yield from self._table.metadata(names, self._event_bytes_max)
            yield from self._results(resolved, since_ms)

    def _note_told(self, group: _Group) -> None:
        subscription = group.subscription
        expected = self._expected_hash(group.names)
        if expected != subscription.metadata_hash:
            group.told = expected, subscription.metadata_hash, group.names
        if subscription.resolving_since_ms is None:
            group.told_new = self._new_matches(subscription)
        else:
            group.is_resolved = True

    def _compare(self, group: _Group) -> Iterable[str]:
        """Return the names that the group subscribes to and must be told of, by the hash that it has published."""
        expected, own, told = self._expected_hash(group.names), group.subscription.metadata_hash, group.told
        if expected == own:
            group.known, group.told = (self._table.version, group.names), None
            return ()
        if told == (expected, own, group.names):
            return ()  # it has yet to take in what it was told
        if told is not None and told[0] == expected:
            return sorted(group.names)  # it has taken that in, and something else is missing
        return self._unknown(group, sorted(group.names))

    def _unknown(self, group: _Group, names: Iterable[str]) -> Iterable[str]:
        """Return those of the names that the group may not know as they are."""
        if group.known is None:
            return names
        version, known_names = group.known
        unknown = []
        for name in names:
            changed = self._table.version_of(name)
            if name not in known_names or changed is None or changed > version:
                unknown.append(name)
        return unknown

    def _new_matches(self, subscription: SnapshotSubscription) -> frozenset[str]:
        """Return the topics that match an expression and are not among those of its last resolution."""
        new: set[str] = set()
        for regex, topics in subscription.regexes.items():
            if topics is not None:
                new |= set(self._matching.of(regex)) - set(topics)
        return frozenset(new)

    def _results(self, resolved: dict[str, tuple[str, ...]], since_ms: int) -> Iterator[RegexesResolved]:
        """Yield one event, or one for each expression where all would be too much for one."""
        size = sum([len(name) + 4 for topics in resolved.values() for name in topics])
        is_one = size <= self._event_bytes_max
        for part in [resolved] if is_one else [{regex: topics} for regex, topics in resolved.items()]:
            yield RegexesResolved(version=self._table.version, resolved=part, began_ms=since_ms)

    def _expected_hash(self, names: Iterable[str]) -> int:
        hashes: dict[str, int] = {}
        for name in names:
            hashed = self._hashes.get(name)
            if hashed is None and (topic := self._table.described(name)) is not None:
                hashed = self._hashes[name] = topic_metadata_hash(topic.topic_id, name, topic.partitions)
            if hashed is not None:
                hashes[name] = hashed
        return hash_of_hashes(hashes)

    def _warn_once(self) -> None:
        if not self._is_full:
            self._is_full = True
            _log.warning(
                "Consumer groups subscribe to more than can be kept (%d bytes): some hear of changed topics only when "
                "a member joins.", KEPT_BYTES_MAX,
            )  # fmt: skip


def _group(subscription: SnapshotSubscription, before: _Group | None) -> _Group:
    matches = [name for topics in subscription.regexes.values() for name in topics or ()]
    names = frozenset([intern(name) for name in (*subscription.topics, *matches)])
    if before is None:
        return _Group(subscription, names)
    # A group that still waits may have been told, or it waits anew: the clock may have stood in between, so it is told.
    return replace(before, subscription=subscription, names=names, is_resolved=False)


def kept_bytes(group_id: str, subscription: SnapshotSubscription) -> int:
    """Return what it takes to keep what a group subscribes to, about."""
    names = len(subscription.topics) + sum(len(topics or ()) for topics in subscription.regexes.values())
    return _GROUP_BYTES + len(group_id) + sum(map(len, subscription.regexes)) + _NAME_BYTES * names
