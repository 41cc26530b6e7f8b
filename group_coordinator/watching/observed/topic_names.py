"""The names of topics that records of groups tell: those of every version name topics by their ids, some by both.

Kafka 4.0 writes id and name of all topics of a consumer group (ConsumerGroupPartitionMetadata), share groups those
whose state they keep. Else the id of a target is that of one of the topics that its member subscribes to: server-side
assignors give out no others, and topics of one target have different names. If one topic is left, that is its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from group_coordinator.watching.observed.offsets_log import LogRecord

_CLIENT_ASSIGNORS = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""Those of Kafka's clients, which give out no topic that nobody subscribes to. Of others nothing is known."""


class NamesInRecords:
    """Learns names from the records of all groups, as they come."""

    def __init__(self, known: Mapping[str, str]) -> None:
        """`known`: the names that there are at any time, by id in hexadecimal digits."""
        self._known = known
        self._subscriptions: dict[tuple[str, object], tuple[tuple[str, ...], str]] = {}
        """Group and member -> topics and expression that it subscribes to."""
        self._regexes: dict[tuple[str, object], tuple[str, ...]] = {}
        """Group and expression -> its topics."""
        self._waiting: dict[tuple[str, object], dict[object, dict[str, Any]]] = {}
        """Targets of members whose expression was not resolved yet: a compacted log has the last time alone."""
        self._candidates: dict[str, frozenset[str]] = {}
        """Topic id -> names that it may have."""
        self._beside: dict[str, set[str]] = {}
        """Topic id -> all topics of the targets that have it."""
        self.unnamed: dict[str, None] = {}
        """The ids of targets and assignments for which no name has been told, in hexadecimal digits."""

    def take(self, record: LogRecord) -> dict[str, str]:
        """Take a record; return the names that are known by it, by id in hexadecimal digits."""
        name, value = record.name, record.value
        if name.endswith("PartitionMetadata"):
            return {} if value is None else _both(value)
        if name.endswith("GroupMemberMetadata"):
            self._subscribed(record.group_id, record.key.get("member_id"), value)
        elif name == "ConsumerGroupRegularExpression":
            return self._resolved(record.group_id, record.key.get("regular_expression"), value)
        elif value is not None and name.endswith("GroupTargetAssignmentMember"):
            return self._assigned(record.group_id, record.key.get("member_id"), value)
        elif value is not None and name.endswith("GroupCurrentMemberAssignment"):
            self._note_ids(value.get("assigned_partitions"))
        return {}

    def named(self, topic_ids: Iterable[str]) -> dict[str, str]:
        """Note that these ids have names; return the names of others that are known by it."""
        beside = set[str]()
        for topic_id in topic_ids:
            self.unnamed.pop(topic_id, None)
            self._candidates.pop(topic_id, None)
            beside |= self._beside.pop(topic_id, set())
        return self._found(sorted(beside.intersection(self._candidates)))

    def _note_ids(self, topics: object) -> list[str]:
        topic_ids = [topic["topic_id"].hex() for topic in topics] if isinstance(topics, tuple) else []
        self.unnamed |= dict.fromkeys(topic_id for topic_id in topic_ids if topic_id not in self._known)
        return topic_ids

    def _subscribed(self, group_id: str, member_id: object, value: dict[str, Any] | None) -> None:
        _, before = self._subscriptions.pop((group_id, member_id), ((), ""))
        if value is None or "subscribed_topic_names" not in value:
            self._waiting.get((group_id, before), {}).pop(member_id, None)
            return
        classic = value.get("classic_member_metadata")
        if classic is None or {protocol["name"] for protocol in classic["supported_protocols"]} <= _CLIENT_ASSIGNORS:
            regex = value.get("subscribed_topic_regex") or ""
            self._subscriptions[group_id, member_id] = value["subscribed_topic_names"], regex

    def _resolved(self, group_id: str, regex: object, value: dict[str, Any] | None) -> dict[str, str]:
        if value is None:
            self._regexes.pop((group_id, regex), None)
            self._waiting.pop((group_id, regex), None)
            return {}
        self._regexes[group_id, regex] = value["topics"]
        waiting = self._waiting.pop((group_id, regex), {}).items()
        return {each: name for target in waiting for each, name in self._assigned(group_id, *target).items()}

    def _assigned(self, group_id: str, member_id: object, value: dict[str, Any]) -> dict[str, str]:
        topic_ids = self._note_ids(value.get("topic_partitions"))
        names, regex = self._subscriptions.get((group_id, member_id), ((), ""))
        if regex and (group_id, regex) not in self._regexes:
            self._waiting.setdefault((group_id, regex), {})[member_id] = value
            return {}
        possible = frozenset((*names, *self._regexes.get((group_id, regex), ())))
        without_name = [topic_id for topic_id in topic_ids if possible and topic_id not in self._known]
        for topic_id in without_name:
            self._candidates[topic_id] = self._candidates.get(topic_id, possible) & possible
            self._beside.setdefault(topic_id, set()).update(topic_ids)
        return self._found(without_name)

    def _found(self, topic_ids: Iterable[str]) -> dict[str, str]:
        """Return the names of those topics that can have one name only."""
        left = {each: self._candidates[each].difference(map(self._known.get, self._beside[each])) for each in topic_ids}
        return {topic_id: next(iter(names)) for topic_id, names in left.items() if len(names) == 1}


def _both(value: dict[str, Any]) -> dict[str, str]:
    """Return the topics of a record that has lists of them, with id and name."""
    topics = [topic for of_list in value.values() if isinstance(of_list, tuple) for topic in of_list]
    return {topic["topic_id"].hex(): topic["topic_name"] for topic in topics if "topic_name" in topic}
