"""How many bytes of a consumer group's records its members and their expressions take: what `group_max_bytes` bounds.

Kafka has a record for each member and bounds each batch of records (`max.message.bytes`). Here a group is one row of
state and one record of the assignments topic, so the whole group is bounded.
"""

from __future__ import annotations

from coordinator_state.consumer.member import ConsumerMember, PartitionsWithEpochs, TargetAssignment
from coordinator_state.offsets import utf8_bytes

_TOPIC_BYTES = 24
"""A topic id, and the length of its array."""
_TARGET_PARTITION_BYTES = 4
_NAME_LENGTH_BYTES = 4
_OWNED_PARTITION_BYTES = 8
"""A partition and its epoch."""


def member_bytes(member: ConsumerMember) -> int:
    """Return the bytes of what a member has sent, and of what it owns."""
    texts = (
        member.member_id, member.instance_id or "", member.rack_id or "", member.server_assignor or "",
        member.client_id, member.client_host, member.subscribed_topic_regex, *member.subscribed_topic_names,
    )  # fmt: skip
    size = sum(map(utf8_bytes, texts)) + _owned_bytes(member.assigned) + _owned_bytes(member.pending_revocation)
    if member.classic is not None:
        size += sum([utf8_bytes(name) + len(metadata) for name, metadata in member.classic.supported_protocols])
    return size


def instance_bytes(instance_id: str, member_id: str) -> int:
    """Return the bytes of an instance id with the member that it belongs to. Former ones of a member stay its own."""
    return utf8_bytes(instance_id) + utf8_bytes(member_id)


def target_bytes(target: TargetAssignment) -> int:
    """Return the bytes of a target assignment."""
    return sum([_TOPIC_BYTES + _TARGET_PARTITION_BYTES * len(partitions) for _, partitions in target])


def resolved_bytes(topics: tuple[str, ...]) -> int:
    """Return the bytes of the names of topics that match an expression."""
    return sum([_NAME_LENGTH_BYTES + utf8_bytes(topic) for topic in topics])


def _owned_bytes(owned: PartitionsWithEpochs) -> int:
    return sum([_TOPIC_BYTES + _OWNED_PARTITION_BYTES * len(epochs) for epochs in owned.values()])
