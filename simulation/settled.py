"""Whether a group has settled: each partition has one owner, and no member is about to change that."""

from __future__ import annotations

from coordinator_state import Answer, LogRecord, classic_group, decode_group
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.consumer.member import MemberState
from schemas.consumer_group_history import GroupConverted
from schemas.consumer_group_messages import ConsumerGroupHeartbeatResponse
from schemas.consumer_group_records import CURRENT_MEMBER_TYPE
from schemas.consumer_protocol import TopicPartition, decode_assignment, decode_subscription
from schemas.error_codes import ErrorCode
from schemas.history import JoinPhaseCompleted
from schemas.kafka.records import Record, decode_record
from schemas.messages import JoinGroupResponseMember
from schemas.wire import INT16
from simulation.process import Process
from simulation.world import World

_CURRENT_MEMBER = INT16.pack(CURRENT_MEMBER_TYPE)
_FAILED_UPGRADE = (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.GROUP_MAX_SIZE_REACHED)


def why_unsettled(world: World, group_id: str) -> str:
    """Return why a group is not settled; empty if it is."""
    consumer = _consumer_group(world, group_id)
    if consumer is not None:
        return _why_unsettled(world, group_id, consumer)
    if _has_lost_its_sessions(world, group_id):
        return ""
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
    if missing and missing - _untold(world, group_id):
        return f"{len(missing)} partitions have no owner"
    not_shared_out = owners.keys() - shared_out
    if not_shared_out:
        return f"{len(not_shared_out)} partitions have an owner that did not subscribe to them"
    return _unsettled_members(world, group_id)


def _consumer_group(world: World, group_id: str) -> ConsumerGroup | None:
    blobs = world.drivers[world.shard_of(group_id)].states.get(group_id)
    body = None if blobs is None else decode_group(*blobs).body
    return body if isinstance(body, ConsumerGroup) else None


def _why_unsettled(world: World, group_id: str, group: ConsumerGroup) -> str:
    """Return why a consumer group is not settled: its members are not the running processes, or somebody does not have
    what it should, or the partitions of a topic have not one owner each."""
    processes = world.alive(group_id)
    ids = [process.member.member_id for process in processes]
    if sorted(ids) != sorted(group.members):
        return f"its members are {', '.join(group.members) or 'nobody'}, the processes {', '.join(ids) or 'none'}"
    if processes and group.state_name != "Stable":
        return f"it is {group.state_name}"
    unresolved = sorted(set(group.regex_counts) - set(group.resolved_regexes))
    if unresolved:
        return f"nobody has told it what {unresolved[0]} matches"
    owners: dict[TopicPartition, str] = {}
    for process in processes:
        if process.member.state != "stable" or process.member.is_rejoining:
            return f"{process.name} is {process.member.state}"
        for partition in process.owned:
            if partition in owners:
                return f"{partition.topic}-{partition.partition} belongs to {owners[partition]} and {process.name}"
            owners[partition] = process.name
    topics = {topic for process in processes for topic in process.wanted_topics}
    wanted = {TopicPartition(topic, number) for topic in topics for number in range(world.topics.get(topic, 0))}
    given = _given_by_target(world, group) if group.regex_counts else wanted
    in_vain = {partition for process in processes for partition in told_in_vain(world, process)}
    wrong = min(((wanted & given) ^ owners.keys()) - in_vain, default=None)
    # A classic group may be converted before its leader has decided. Where the only one who joins takes an instance's
    # place with the same subscription, nothing asks for a target, as in Kafka: the one of the conversion, which is
    # empty, stays until something changes.
    was_never_assigned = not group.assignment_timestamp_ms
    if wrong is not None and not was_never_assigned:
        return f"{wrong.topic}-{wrong.partition} has {'an' if wrong in owners else 'no'} owner"
    return ""


def told_in_vain(world: World, process: Process) -> set[TopicPartition]:
    """Return the partitions that a member was last told of in answer to a request that it had given up.

    As in Kafka: a late copy of its joining (epoch 0) is answered with its whole assignment. The coordinator takes that
    for told, and the member asks for its whole assignment only after an error or a silence.
    """
    for written in reversed(world.written):
        output = written.output
        if (
            isinstance(output, Answer)
            and isinstance(output.response, ConsumerGroupHeartbeatResponse)
            and output.response.member_id == process.member.member_id
            and output.response.assignment is not None
        ):
            names = {world.cluster_topics.id_of(name): name for name in world.topics}
            told = output.response.assignment.topic_partitions if output.request_id in process.given_up else ()
            return {TopicPartition(names.get(of.topic_id, ""), number) for of in told for number in of.partitions}
    return set()


def _given_by_target(world: World, group: ConsumerGroup) -> set[TopicPartition]:
    """Return the partitions that a member is to have, and subscribes to.

    Others nobody gets before the next target where an expression was not resolved yet when this one was computed: Kafka
    takes a member with one for one that subscribes like the first of all members. What that gives it nobody has; and if
    it is the first, nobody gets anything.
    """
    names = {world.cluster_topics.id_of(name): name for name in world.topics}
    given = set()
    for member in group.members.values():
        resolved = group.resolved_regexes.get(member.subscribed_topic_regex)
        subscribed = {*member.subscribed_topic_names, *(resolved.topics if resolved is not None else ())}
        for topic_id, numbers in group.targets.get(member.member_id, ()):
            name = names.get(topic_id, "")
            given |= {TopicPartition(name, number) for number in numbers if name in subscribed}
    return given


def _has_lost_its_sessions(world: World, group_id: str) -> bool:
    """Return whether the group was to become a consumer group and did not.

    As in Kafka, those who waited in it were told to join again, and whose session had ended while they waited stays
    without one. If it is static and does not come back, the others wait for it for ever.
    """
    return any(
        isinstance(written.output, Answer)
        and written.output.group_id == group_id
        and isinstance(written.output.response, ConsumerGroupHeartbeatResponse)
        and written.output.response.error_code in _FAILED_UPGRADE
        for written in world.written
    )


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


def _untold(world: World, group_id: str) -> set[TopicPartition]:
    """Return the partitions that the group has assigned to members which it does not tell, as in Kafka.

    A classic member of a consumer group gets its epoch's partitions one by one, as others give them up. When a static
    member takes the last native member's place with the other protocol, the group goes on as a classic one in the same
    generation. Who still waited for a partition then has it in that group, and is told of it in the next rebalance.
    """
    waiting: dict[str, None] = {}
    for written in world.written:
        output = written.output
        if output.group_id != group_id:
            continue
        if isinstance(output, JoinPhaseCompleted) or (
            isinstance(output, GroupConverted) and output.to_protocol == "consumer"
        ):
            waiting.clear()
        elif isinstance(output, LogRecord) and output.value is not None and output.key.startswith(_CURRENT_MEMBER):
            record = decode_record(output.key, output.value)
            assert isinstance(record, Record)
            assert record.value is not None
            waiting.pop(record.key["member_id"], None)
            if record.value["state"] == MemberState.UNRELEASED_PARTITIONS:
                waiting[record.key["member_id"]] = None
    blobs = world.drivers[world.shard_of(group_id)].states.get(group_id)
    if not waiting or blobs is None:
        return set()
    members = classic_group(decode_group(*blobs)).members.values()
    assignments = [member.assignment for member in members if member.member_id in waiting and member.assignment]
    return {partition for assignment in assignments for partition in decode_assignment(assignment).partitions}


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
    if process.plan.instance_id is None or decided is None or _has_been_converted(world, process.plan.group_id):
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


def _has_been_converted(world: World, group_id: str) -> bool:
    """Return whether what a leader decided last is of before the group became a consumer group and back."""
    conversions = [
        written.output.time_ms
        for written in world.written
        if isinstance(written.output, GroupConverted) and written.output.group_id == group_id
    ]
    return bool(conversions)
