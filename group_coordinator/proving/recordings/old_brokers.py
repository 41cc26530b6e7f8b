"""The habits of the group coordinator before Kafka 4 (in Scala, the default to 3.9), where they are not those of 4.3.

Its decisions are the same but for rarities. It keeps a group in memory alone that nobody has joined, and writes no end
of it; it answers and writes the partitions of one commit in the order of a hash map, and does not tell members' data
while their group is not stable.
"""

from __future__ import annotations

from typing import Any

from schemas.records import GroupMetadataKey, GroupMetadataValue, decode_record

Json = dict[str, Any]

_STABLE = "Stable"


def is_of_old_broker(connection: str) -> bool:
    """Return whether a line is of a broker before Kafka 4: its connections end in one number, later ones also have the
    processor's."""
    return connection.count("-") == 2


def comparable_of_old_broker(answer: Json) -> Json:
    """Return an answer without what the old coordinator leaves open, or does not tell."""
    comparable = dict(answer)
    if "groups" in comparable:
        comparable["groups"] = [_comparable_group(group) for group in comparable["groups"]]
    if isinstance(comparable.get("topics"), list):
        comparable["topics"] = sorted_topics(comparable["topics"])
    return comparable


def _comparable_group(group: Json) -> Json:
    if isinstance(group.get("topics"), list):
        return {**group, "topics": sorted_topics(group["topics"])}
    if "groupState" not in group or group["groupState"] == _STABLE:
        return group
    members = [{**member, "memberMetadata": "", "memberAssignment": ""} for member in group["members"]]
    return {**group, "members": members}


def sorted_topics(topics: list[Json]) -> list[Json]:
    """Sort topics by name (or id), and partitions by index."""
    ordered = [
        {**topic, "partitions": sorted(topic["partitions"], key=lambda partition: int(partition["partitionIndex"]))}
        for topic in topics
    ]
    return sorted(ordered, key=lambda topic: str(topic.get("name") or topic.get("topicId")))


def is_unwritten(key: bytes, value: bytes | None, before: bytes | None) -> bool:
    """Return whether the old coordinator does not write this record: that of a group which nobody has joined yet, or of
    its end. `before`: the record of the group until then."""
    if not isinstance(decode_record(key, value)[0], GroupMetadataKey):
        return False
    of_group = value or before
    return of_group is None or is_kept_in_memory(key, of_group)


def is_kept_in_memory(key: bytes, value: bytes | None) -> bool:
    """Return whether a record is that of a group that nobody has joined yet: the old coordinator writes none."""
    decoded = decode_record(key, value)[1]
    return isinstance(decoded, GroupMetadataValue) and decoded.generation == 0 and not decoded.members
