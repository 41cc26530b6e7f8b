"""The generator of requests to groups that are of either kind: members of both protocols, migrating now and then."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from random import Random

from msgspec.structs import replace

from coordinator_state import Group, GroupConfig
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.consumer.member import ConsumerMember, PartitionsWithEpochs
from coordinator_state.topics_image import TopicsImage
from schemas.consumer_group_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from schemas.consumer_protocol import Assignment, Subscription, TopicPartition, encode_assignment, encode_subscription
from schemas.messages import (
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    LeaveGroupMember,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    Request,
    SyncGroupAssignment,
    SyncGroupRequest,
)
from simulation.checker import classic_of, consumer_of
from tests.random_requests.random_cluster import BROKEN_REGEX, NAMES, REGEXES, RandomCluster
from tests.random_requests.request_generator import INSTANCES, PROTOCOL_NAMES, GeneratedRequest, RequestGenerator

MENU = {
    "ConsumerGroupHeartbeat": 60,
    "JoinGroup": 9,
    "SyncGroup": 5,
    "Heartbeat": 6,
    "LeaveGroup": 3,
    "OffsetCommit": 8,
    "OffsetFetch": 3,
    "OffsetDelete": 1,
    "ConsumerGroupDescribe": 3,
    "DescribeGroups": 1,
    "DeleteGroups": 1,
}


class ConsumerRequestGenerator:
    """Makes requests that fit a group as the coordinator has it, and some that do not."""

    def __init__(self, dice: Random, config: GroupConfig, cluster: RandomCluster, classic: RequestGenerator) -> None:
        self._dice = dice
        self._config = config
        self._cluster = cluster
        self._classic = classic
        self._made = 0
        self._seen: list[str] = ["nobody"]

    def request(self, group_id: str, whole: Group | None) -> GeneratedRequest:
        """Return the next request to a group; None: there is none of this id."""
        dice = self._dice
        group, classic = consumer_of(whole), classic_of(whole)
        if whole is None or group is None:
            if dice.random() < (0.12 if classic is not None and classic.members else 0.5):
                return self._made_of("ConsumerGroupHeartbeat", self._first_heartbeat(group_id))
            if dice.random() < 0.02:
                return self._made_of("ConsumerGroupDescribe", ConsumerGroupDescribeRequest(group_ids=(group_id,)))
            return self._classic.request(group_id, classic)
        self._seen += [member_id for member_id in group.members if member_id not in self._seen]
        api = dice.choices(tuple(MENU), tuple(MENU.values()))[0]
        request: Request
        match api:
            case "ConsumerGroupHeartbeat":
                request = self._heartbeat(group_id, group)
            case "JoinGroup":
                request = self._join(group_id, group, whole.topics)
            case "SyncGroup":
                request = self._sync(group_id, group)
            case "Heartbeat":
                member = self._somebody(group, native=False)
                request = HeartbeatRequest(
                    group_id=group_id,
                    generation_id=self._epoch(member),
                    member_id=member.member_id,
                    group_instance_id=self._instance(member),
                )
            case "LeaveGroup":
                request = self._leave(group_id, group)
            case "OffsetCommit":
                request = self._commit(group_id, group)
            case "OffsetFetch":
                request = self._fetch(group_id, group)
            case "ConsumerGroupDescribe":
                request = ConsumerGroupDescribeRequest(group_ids=(group_id,))
            case _:
                return self._classic.request(group_id, None, api)
        return self._made_of(api, request)

    def _made_of(self, api: str, request: Request) -> GeneratedRequest:
        version = self._classic.version(api)
        if isinstance(request, ConsumerGroupHeartbeatRequest) and version != 0 and not request.member_id:
            version = 0
        return api, version, self._dice.choice(("c1", "c1", "c2")), self._new_member_id(), request

    def _new_member_id(self) -> str | None:
        self._made += 1
        return f"n{self._made}" if self._dice.random() < 0.9 else None

    # ------------------------------------------------------------------------------------------------------ heartbeats

    def _heartbeat(self, group_id: str, group: ConsumerGroup) -> ConsumerGroupHeartbeatRequest:
        dice = self._dice
        if dice.random() < (0.25 if len(group.members) < 3 else 0.05):
            return self._first_heartbeat(group_id)
        member = self._somebody(group, native=dice.random() < 0.9)
        is_static = member.instance_id is not None
        epochs = (self._epoch(member), member.previous_member_epoch, 0, -1, -2)
        epoch = dice.choices(epochs, (80, 3, 4, 3, 10) if is_static else (88, 3, 5, 3, 1))[0]
        names_instance = epoch == -2 or dice.random() < 0.3
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member.member_id,
            member_epoch=epoch,
            instance_id=self._instance(member) if names_instance else None,
            topic_partitions=self._owned(member),
        )
        if request.member_epoch == 0:
            request = self._joining(request)
        if dice.random() < 0.12:
            request = self._wishing(request)
        return self._odd(request) if dice.random() < 0.03 else request

    def _first_heartbeat(self, group_id: str) -> ConsumerGroupHeartbeatRequest:
        dice = self._dice
        self._made += 1
        member_id = dice.choices((f"c{self._made}", dice.choice(self._seen), ""), (80, 12, 8))[0]
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=0,
            instance_id=dice.choice((None, None, *INSTANCES)),
        )
        request = self._joining(request)
        return self._odd(request) if dice.random() < 0.05 else request

    def _joining(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatRequest:
        timeout_ms = self._dice.choices((500, 3_000, 20_000, 0, -2), (20, 40, 36, 2, 2))[0]
        return self._wishing(replace(request, rebalance_timeout_ms=timeout_ms, topic_partitions=()), names=True)

    def _wishing(self, request: ConsumerGroupHeartbeatRequest, names: bool = False) -> ConsumerGroupHeartbeatRequest:
        """The member says what it wants, or something of it."""
        dice = self._dice
        if names or dice.random() < 0.6:
            wanted = tuple(dice.sample(NAMES, dice.choice((1, 1, 2, 2, 3, 0))))
            request = replace(request, subscribed_topic_names=wanted)
        if dice.random() < 0.25:
            regex = dice.choice((*REGEXES, "")) if dice.random() < 0.95 else BROKEN_REGEX
            request = replace(request, subscribed_topic_regex=regex)
        if dice.random() < 0.15:
            request = replace(request, server_assignor=dice.choice(("uniform", "range")))
        if dice.random() < 0.1:
            request = replace(request, rack_id=dice.choice(("a", "b")))
        return request

    def _odd(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatRequest:
        """Something is wrong with it."""
        dice = self._dice
        match dice.randrange(8):
            case 0:
                return replace(request, member_id=dice.choice(("", " ")))
            case 1:
                return replace(request, instance_id=dice.choice(("", " \t", *INSTANCES)))
            case 2:
                return replace(request, rack_id="")
            case 3:
                return replace(request, rebalance_timeout_ms=-1)
            case 4:
                return replace(request, topic_partitions=None)
            case 5:
                return replace(request, subscribed_topic_names=None, subscribed_topic_regex=None)
            case 6:
                return replace(request, member_epoch=-3)
            case _:
                return replace(request, server_assignor=dice.choice(("", "Uniform")))

    def _owned(self, member: ConsumerMember) -> tuple[TopicPartitions, ...] | None:
        """What a member says it owns: nothing said, what it may have, all that it has, a part, or anything."""
        dice = self._dice
        assigned = _partitions(member.assigned)
        everything = sorted({*assigned, *_partitions(member.pending_revocation)})
        partitions: list[tuple[str, int]] = []
        match dice.choices(("silent", "given", "all", "part", "any"), (35, 40, 12, 8, 5))[0]:
            case "silent":
                return None
            case "given":
                partitions = assigned
            case "all":
                partitions = everything
            case "part":
                partitions = [partition for partition in everything if dice.random() < 0.5]
            case _:
                partitions = [partition for partition in self._cluster.partitions if dice.random() < 0.3]
        return tuple(
            TopicPartitions(topic_id=topic_id, partitions=tuple(number for _, number in of_topic))
            for topic_id, of_topic in groupby(sorted(partitions), key=itemgetter(0))
        )

    # --------------------------------------------------------------------------------------------------------- members

    def _somebody(self, group: ConsumerGroup, *, native: bool) -> ConsumerMember:
        """Return a member, mostly one of this kind; now and then somebody unknown."""
        dice = self._dice
        members = list(group.members.values())
        of_kind = [member for member in members if member.uses_classic_protocol != native]
        if not members or dice.random() < 0.04:
            return ConsumerMember(dice.choice(self._seen))
        return dice.choice(of_kind if of_kind and dice.random() < 0.93 else members)

    def _epoch(self, member: ConsumerMember) -> int:
        epoch = member.member_epoch
        return self._dice.choices((epoch, epoch - 1, epoch + 1, 7), (92, 4, 3, 1))[0]

    def _instance(self, member: ConsumerMember) -> str | None:
        if self._dice.random() < 0.06:
            return self._dice.choice((None, *INSTANCES))
        return member.instance_id

    # ------------------------------------------------------------------------------------------------ classic requests

    def _join(self, group_id: str, group: ConsumerGroup, known: TopicsImage | None) -> JoinGroupRequest:
        dice = self._dice
        member = self._somebody(group, native=dice.random() < 0.1)
        member_id, instance_id = member.member_id, self._instance(member)
        if dice.random() < 0.35:
            member_id, instance_id = dice.choice(("", "", f"x{self._made}")), dice.choice((None, None, *INSTANCES))
        owned = [
            TopicPartition(topic.name, number)
            for topic_id, number in _partitions(member.assigned)
            if known is not None and (topic := known.by_id(topic_id)) is not None and dice.random() < 0.8
        ]
        names = tuple(dice.sample(NAMES, dice.choice((1, 2, 2)))) if dice.random() < 0.5 else NAMES[:2]
        subscription = Subscription(topics=names, owned_partitions=tuple(owned), rack_id=dice.choice((None, "a")))
        metadata = encode_subscription(subscription, dice.choice((3, 3, 1, 0)))
        if dice.random() < 0.03:
            metadata = b"\x00"
        protocols = ["range", *dice.sample(PROTOCOL_NAMES[1:], dice.choice((0, 1, 2)))]
        if dice.random() < 0.05:
            protocols = dice.choice(([], ["odd"], protocols[1:]))
        least_ms = self._config.group_min_session_timeout_ms
        return JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=dice.choices((5_000, 20_000, least_ms - 1), (50, 48, 2))[0],
            rebalance_timeout_ms=dice.choices((3_000, 20_000, -1, 0), (45, 45, 5, 5))[0],
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=dice.choices(("consumer", "connect"), (97, 3))[0],
            protocols=tuple(JoinGroupProtocol(name=name, metadata=metadata) for name in protocols),
        )

    def _sync(self, group_id: str, group: ConsumerGroup) -> SyncGroupRequest:
        dice = self._dice
        member = self._somebody(group, native=False)
        classic = member.classic
        first = "range" if classic is None else classic.supported_protocols[0][0]
        partition = TopicPartition("t1", dice.randrange(3))
        assignment = SyncGroupAssignment(
            member_id=member.member_id, assignment=encode_assignment(Assignment(partitions=(partition,)))
        )
        return SyncGroupRequest(
            group_id=group_id,
            generation_id=self._epoch(member),
            member_id=member.member_id,
            group_instance_id=self._instance(member),
            protocol_type=dice.choices(("consumer", None, "connect"), (90, 7, 3))[0],
            protocol_name=dice.choices((first, None, "odd"), (90, 7, 3))[0],
            assignments=(assignment,) if dice.random() < 0.3 else (),
        )

    def _leave(self, group_id: str, group: ConsumerGroup) -> LeaveGroupRequest:
        entries = []
        for _ in range(self._dice.choices((1, 2, 0), (80, 17, 3))[0]):
            member = self._somebody(group, native=self._dice.random() < 0.5)
            instance_id = self._instance(member)
            member_id = "" if instance_id is not None and self._dice.random() < 0.4 else member.member_id
            entries.append(LeaveGroupMember(member_id=member_id, group_instance_id=instance_id))
        return LeaveGroupRequest(group_id=group_id, members=tuple(entries))

    # ---------------------------------------------------------------------------------------------------------- offsets

    def _commit(self, group_id: str, group: ConsumerGroup) -> OffsetCommitRequest:
        dice = self._dice
        member = self._somebody(group, native=dice.random() < 0.7)
        epoch = dice.choices((self._epoch(member), member.previous_member_epoch, -1), (75, 20, 5))[0]
        names = dice.sample(NAMES, dice.choice((1, 1, 2)))
        topics = tuple(
            OffsetCommitRequestTopic(
                name=name,
                topic_id=self._cluster.id_of(name) if dice.random() < 0.95 else None,
                partitions=tuple(
                    OffsetCommitRequestPartition(
                        partition_index=dice.randrange(3),
                        committed_offset=dice.randrange(1_000),
                        committed_metadata=dice.choice((None, "", "eight ch", "nine char")),
                    )
                    for _ in range(dice.randint(1, 2))
                ),
            )
            for name in names
        )
        return OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member.member_id if dice.random() < 0.97 else "",
            topics=topics,
        )

    def _fetch(self, group_id: str, group: ConsumerGroup) -> OffsetFetchRequest:
        member = self._somebody(group, native=True)
        asked = OffsetFetchRequestGroup(group_id=group_id)
        if self._dice.random() < 0.6:
            asked = OffsetFetchRequestGroup(
                group_id=group_id,
                member_id=member.member_id if self._dice.random() < 0.95 else None,
                member_epoch=self._epoch(member),
            )
        return OffsetFetchRequest(groups=(asked,))


def _partitions(owned: PartitionsWithEpochs) -> list[tuple[str, int]]:
    """Return (topic id, number) of what a member has, sorted."""
    return sorted((topic_id, number) for topic_id, epochs in owned.items() for number in epochs)
