"""Whether a group has settled: each partition has one owner, and no member is about to change that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_state import classic_group, decode_group
from schemas.consumer_protocol import TopicPartition, decode_assignment, decode_subscription
from schemas.messages import JoinGroupResponseMember
from simulation.process import Process

if TYPE_CHECKING:
    from simulation.world import World


def why_unsettled(world: World, group_id: str) -> str:
    """Return why a group is not settled; empty if it is."""
    owners: dict[TopicPartition, str] = {}
    topics: dict[str, None] = {}
    for process in world.alive(group_id):
        member = process.member
        if member.state != "stable" or member.is_rejoining:
            return f"{process.name} is {member.state}" + (" and means to rejoin" if member.is_rejoining else "")
        topics |= dict.fromkeys(_assigned_topics(world, process))
        for partition in process.owned:
            if partition in owners:
                return f"{partition.topic}-{partition.partition} belongs to {owners[partition]} and {process.name}"
            owners[partition] = process.name
    shared_out = {TopicPartition(topic, number) for topic in topics for number in range(world.topics.get(topic, 0))}
    missing = shared_out - owners.keys() - _given_up_for_good(world, group_id)
    if missing:
        return f"{len(missing)} partitions have no owner"
    not_shared_out = owners.keys() - shared_out
    if not_shared_out:
        return f"{len(not_shared_out)} partitions have an owner that did not subscribe to them"
    return _unsettled_members(world, group_id)


def _given_up_for_good(world: World, group_id: str) -> set[TopicPartition]:
    """Return the partitions that nobody gets before the next rebalance, as in Kafka.

    A member of a cooperative group gives a partition up and joins again, so that somebody else gets it (KIP-429).
    A static member that closes in between says nothing. When it comes back, it gets its assignment of that
    generation (KIP-345): no rebalance follows, and the partition stays without an owner.
    """
    given_up: set[TopicPartition] = set()
    for process in world.alive(group_id):
        earlier_self = _earlier_self(world, process)
        if earlier_self is not None:
            given_up |= set(decode_subscription(earlier_self.metadata).owned_partitions)
    if not given_up:
        return given_up
    blobs = world.drivers[world.shard_of(group_id)].states[group_id]
    for member in classic_group(decode_group(*blobs)).members.values():
        if member.assignment:
            given_up.difference_update(decode_assignment(member.assignment).partitions)
    return given_up


def _assigned_topics(world: World, process: Process) -> tuple[str, ...]:
    """Return the topics that a generation's leader shares out for a member: those to which it subscribes.

    Kafka's coordinator takes no notice of another subscription with which a static member comes back (KIP-814 and
    before): until the next rebalance those of its earlier self hold.
    """
    earlier_self = _earlier_self(world, process)
    return decode_subscription(earlier_self.metadata).topics if earlier_self else process.member.subscription


def _earlier_self(world: World, process: Process) -> JoinGroupResponseMember | None:
    """Return the member of the last generation in whose place a static member came back since."""
    decided = world.decided.get(process.plan.group_id)
    if process.plan.instance_id is None or decided is None:
        return None
    return next(
        (
            member
            for member in decided.members
            if member.group_instance_id == process.plan.instance_id and member.member_id != process.member.member_id
        ),
        None,
    )


def _unsettled_members(world: World, group_id: str) -> str:
    """Return how the group's members differ from the running processes."""
    blobs = world.drivers[world.shard_of(group_id)].states.get(group_id)
    in_group = () if blobs is None else tuple(classic_group(decode_group(*blobs)).members)
    alive = [process.member.member_id for process in world.alive(group_id)]
    ghosts = [member_id for member_id in in_group if member_id not in alive]
    return f"{', '.join(ghosts)} is a member, and nobody's" if ghosts else ""
