"""Each kind of fault changes a world when its time has come."""

from __future__ import annotations

from typing import assert_never
from uuid import NAMESPACE_OID, uuid5

from schemas.events import encode_request_event, encode_tick
from schemas.java_hash import group_partition
from schemas.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    Request,
)
from simulation.log import ticks_of
from simulation.scenario import (
    BadNetwork,
    BrokerClockJump,
    BrokerPause,
    ChangeRules,
    Close,
    Crash,
    DriverCrash,
    ExternalClient,
    Fault,
    Freeze,
    Grow,
    MemberFault,
    Migrate,
    RelayAway,
    Remake,
    SlowPoll,
    StrayTick,
    Subscribe,
    WallClockJump,
)
from simulation.world import World

EXTERNAL_CLIENTS = (
    "describe",
    "delete",
    "delete_offsets",
    "commit",
    "fetch",
    "heartbeat",
    "join_and_vanish",
    "garbage",
    "wrong_shard",
)


def apply_fault(world: World, fault: Fault) -> None:
    """Let it happen."""
    match fault:
        case Crash() | Close() | Freeze() | SlowPoll() | BadNetwork() | Subscribe() | Migrate():
            _apply_member_fault(world, fault)
        case BrokerPause(for_ms=for_ms):
            world.tell("the broker", f"takes and gives nothing for {for_ms} ms")
            world.broker_back_ms = max(world.broker_back_ms, world.now_ms + for_ms)
            world.at(world.broker_back_ms, world.broker_is_back)
        case DriverCrash() | StrayTick() | RelayAway():
            if fault.shard < len(world.drivers):
                _apply_shard_fault(world, fault)
        case WallClockJump(by_ms=by_ms):
            world.tell("the driver", f"has its wall clock set by {by_ms} ms")
            world.wall_ahead_ms += by_ms
        case BrokerClockJump(by_ms=by_ms):
            world.tell("the broker", f"has its clock set by {by_ms} ms")
            world.broker_ahead_ms += by_ms
        case ChangeRules(rules=rules):
            world.tell("the operator", f"sets the rules of the log to {rules}")
            world.write_rules(rules)
        case Grow() | Remake():
            _apply_topic_fault(world, fault)
        case ExternalClient():
            _external_request(world, fault)
        case _:
            assert_never(fault)


def _apply_shard_fault(world: World, fault: DriverCrash | StrayTick | RelayAway) -> None:
    match fault:
        case DriverCrash():
            world.driver_faults.append(fault)
        case StrayTick():
            _stray_tick(world, fault)
        case RelayAway(for_ms=for_ms):
            world.tell("a relay", f"is away for {for_ms} ms")
            world.relay_goes_away(fault)


def _apply_topic_fault(world: World, fault: Grow | Remake) -> None:
    topic = fault.topic
    if isinstance(fault, Remake):
        # While the broker stands still nobody can delete anything.
        world.at(max(world.now_ms, world.broker_back_ms), lambda: world.remake(topic))
    elif fault.partitions > world.topics.get(topic, 0) > 0:
        world.tell(topic, f"gets {fault.partitions} partitions")
        world.topics[topic] = fault.partitions


def _apply_member_fault(world: World, fault: MemberFault) -> None:
    process = world.running(fault.member)
    if process is None:
        return
    now_ms = world.now_ms
    match fault:
        case Crash():
            world.tell(process.name, "crashes")
            process.end()
        case Close():
            world.tell(process.name, "closes")
            process.in_trouble(now_ms, 60_000)
            process.close()
        case Freeze(for_ms=for_ms):
            world.tell(process.name, f"stands still for {for_ms} ms")
            process.in_trouble(now_ms, for_ms)
            process.freeze(for_ms)
        case SlowPoll(for_ms=for_ms):
            world.tell(process.name, f"does not poll for {for_ms} ms")
            process.in_trouble(now_ms, for_ms)
            process.idle_until_ms = max(process.idle_until_ms, now_ms + for_ms)
        case BadNetwork(for_ms=for_ms):
            world.tell(process.name, f"has a bad network for {for_ms} ms")
            process.in_trouble(now_ms, for_ms + fault.late_ms)
            # Its next process has it as well: a network does not get better by a restart.
            world.network_faults.setdefault(fault.member, []).append(fault)
        case Migrate(protocol=protocol):
            world.tell(process.name, f"closes, to come back with the {protocol} protocol")
            world.protocols[fault.member] = protocol
            process.in_trouble(now_ms, 60_000)
            process.close()
        case Subscribe(topics=topics):
            world.tell(process.name, f"subscribes to {', '.join(topics) or 'nothing'}")
            # Kafka's coordinator takes no notice of a static member that comes back with another subscription.
            world.subscriptions[process.plan.instance_id or process.plan.name] = topics
            process.subscribe(topics)
    if isinstance(fault, Crash | Close | Migrate) and fault.back_after_ms is not None:
        world.at(now_ms + fault.back_after_ms, lambda: _come_back(world, fault.member))


def _come_back(world: World, name: str) -> None:
    if world.running(name) is None:
        plan = next(plan for plan in world.scenario.members if plan.name == name)
        world.start(plan)


def _stray_tick(world: World, fault: StrayTick) -> None:
    bound_ms = world.scenario.config.tick_ahead_bound_ms
    ticks = ticks_of(world.log.partitions[fault.shard], bound_ms)
    if fault.ahead_ms and world.now_ms < world.broker_back_ms:
        # It is too far in the future by its own timestamp, which it gets when the broker is back, whatever its clock
        # shows then.
        world.at(world.broker_back_ms, lambda: _stray_tick(world, fault))
        return
    if fault.ahead_ms:
        clock_ms = world.now_ms + world.broker_ahead_ms + bound_ms + fault.ahead_ms
        world.tell(f"shard {fault.shard}", "gets a tick from a stranger that lies in the future")
    elif ticks:
        clock_ms = max(ticks[-1][1] - fault.back_ms, 1)
        world.tell(f"shard {fault.shard}", f"gets a tick from a stranger that goes back by {fault.back_ms} ms")
    else:
        clock_ms = 1
        world.tell(f"shard {fault.shard}", "gets its first tick from a stranger, of long ago")
    world.append(fault.shard, None, encode_tick(clock_ms))


def _external_request(world: World, fault: ExternalClient) -> None:
    """One or more requests of somebody who is no member."""
    world.tell("a stranger", f"sends {fault.what} to {fault.group_id}")
    own_shard = group_partition(fault.group_id, len(world.drivers))
    shard = (own_shard + 1) % len(world.drivers) if fault.what == "wrong_shard" else own_shard
    key = fault.group_id.encode()
    if fault.what == "garbage":
        world.append(shard, key, b'{"type":"request"}')
        return
    api, version, request = _request(fault)
    value = encode_request_event(
        api,
        version,
        request,
        request_id=str(uuid5(NAMESPACE_OID, f"{fault.group_id}/{fault.what}/{fault.at_ms}")),
        reply_partition=0,
        client_id="stranger",
    )
    world.append(shard, key, value)


def _request(fault: ExternalClient) -> tuple[str, int, Request]:
    group_id = fault.group_id
    match fault.what:
        case "delete":
            return "DeleteGroups", 2, DeleteGroupsRequest(groups_names=(group_id,))
        case "delete_offsets":
            partitions = tuple(OffsetDeleteRequestPartition(partition_index=index) for index in range(3))
            topics = (OffsetDeleteRequestTopic(name="orders", partitions=partitions),)
            return "OffsetDelete", 0, OffsetDeleteRequest(group_id=group_id, topics=topics)
        case "commit":
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=fault.at_ms)
            topic = OffsetCommitRequestTopic(name="orders", partitions=(partition,))
            return "OffsetCommit", 9, OffsetCommitRequest(group_id=group_id, topics=(topic,))
        case "fetch":
            return "OffsetFetch", 9, OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group_id),))
        case "heartbeat":
            return "Heartbeat", 4, HeartbeatRequest(group_id=group_id, generation_id=1, member_id="nobody")
        case "join_and_vanish":
            protocols = (JoinGroupProtocol(name="range", metadata=b""),)
            return (
                "JoinGroup",
                9,
                JoinGroupRequest(
                    group_id=group_id, session_timeout_ms=6_000, protocol_type="consumer", protocols=protocols
                ),
            )
        case _:
            return "DescribeGroups", 5, DescribeGroupsRequest(groups=(group_id,))
