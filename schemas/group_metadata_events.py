"""What a consumer group (KIP-848) must know of the cluster, as events of its log: topics, expressions, settings."""

from __future__ import annotations

from typing import Literal, final

from msgspec import Struct

from schemas.message_types import INT32, INT64, UUID_TEXT


class DescribedTopic(Struct, frozen=True, kw_only=True, gc=False):
    """One topic that exists."""

    name: str
    topic_id: UUID_TEXT
    partitions: tuple[tuple[str, ...], ...]
    """For each partition the racks of its replicas; that of a broker without a rack is empty."""


@final
class TopicMetadata(Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="topic_metadata"):
    """What is known of some topics of the cluster: which exist, and which do not. It has no answer.

    Of each topic the latest version counts. So one that is lost, comes twice or comes late does no harm, and several
    writers may tell of different topics. A topic that no event has named does not exist for the group. Whoever watches
    the cluster's topics writes it to each group that subscribes to one that changed, and whoever sends a request may
    attach it, so that a group's first member need not wait (Kafka: `onMetadataUpdate`).
    """

    version: INT64
    """The version of the cluster's topics of which it tells. It grows with every change of one of them."""
    topics: tuple[DescribedTopic, ...]
    """Topics that exist."""
    absent: tuple[str, ...] = ()
    """Names of topics that do not exist."""
    new_topics_version: INT64 = 0
    """The last version in which the cluster got a topic that the group's expressions may match; it makes the group
    resolve them again."""
    schema_version: Literal[1] = 1
    """Version of this event."""


@final
class RegexesResolved(Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="regexes_resolved"):
    """The topics that match the regular expressions of a group's members. It has no answer.

    Whoever knows all topics writes it after a group has begun to resolve its expressions (Kafka:
    `handleRegularExpressionsResult`).
    """

    version: INT64
    """That of the cluster's topics."""
    resolved: dict[str, tuple[str, ...]]
    """Expression -> names of topics."""
    began_ms: INT64
    """When the group asked for it, by its clock."""
    schema_version: Literal[1] = 1
    """Version of this event."""


@final
class GroupConfiguration(Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="group_config"):
    """A group's own settings: they replace those that it had. It has no answer.

    They belong to the group's id, whether there is a group or not. Null: the coordinator's setting holds.
    """

    consumer_session_timeout_ms: INT32 | None = None
    """`consumer.session.timeout.ms`."""
    consumer_heartbeat_interval_ms: INT32 | None = None
    """`consumer.heartbeat.interval.ms`."""
    consumer_assignment_interval_ms: INT32 | None = None
    """`consumer.assignment.interval.ms`."""
    schema_version: Literal[1] = 1
    """Version of this event."""
