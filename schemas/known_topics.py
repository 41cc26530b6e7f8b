"""What lies on the topics topic: what each shard of the coordinator knows of the cluster's topics.

A record's key is the topic's id, its value a JSON object, null once the topic is gone and every group has been told.
The records of a partition up to an offset are one version of the cluster's topics, and its number follows from the
offset, so that all who read it mean the same by it (`group_coordinator.ground.kafka_topics.cluster_topics`). No
decision about a group reads this topic: what a group must know comes to it in events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from schemas.foreign_json import json_decoder
from schemas.message_types import INT64, UUID_TEXT


class KnownTopic(Struct, frozen=True, kw_only=True, gc=False):
    """A topic of the cluster, as a shard last saw it."""

    name: str
    topic_id: UUID_TEXT
    cluster_id: str | None = None
    """Of which cluster it is. What is known of another cluster says nothing about this one."""
    partitions: tuple[tuple[str, ...], ...] | None = None
    """For each partition the racks of its replicas; that of a broker without a rack is empty. Null: not known, in what
    earlier versions wrote."""
    is_gone: bool = False
    """The topic is deleted, and not all groups that have offsets of it have been told."""
    schema_version: Literal[1] = 1


VERSIONS_KEY = b"versions"


class VersionsBegin(Struct, frozen=True, kw_only=True, gc=False):
    """Versions of the cluster's topics are counted on from here, one for each record. Its key is `versions`.

    Without one a version is the offset of its record. It is written where groups know later versions than the topic
    has: the topic was lost and made anew.
    """

    version: INT64
    """That of this record."""
    schema_version: Literal[1] = 1


decode_versions_begin: Callable[[bytes], VersionsBegin] = json_decoder(VersionsBegin)
"""Read the value of the record whose key is `VERSIONS_KEY`. Raises `msgspec.DecodeError`."""
decode_known_topic: Callable[[bytes], KnownTopic] = json_decoder(KnownTopic)
"""Read one value of the topics topic. Raises `msgspec.DecodeError`."""
