"""The generator makes requests: mostly ones that fit the group's state, some that do not, some that fit no state."""

from __future__ import annotations

from random import Random
from typing import Any

from coordinator_state import ClassicGroup, GroupConfig
from schemas.consumer_protocol import Assignment, Subscription, TopicPartition, encode_assignment, encode_subscription
from schemas.messages import (
    APIS,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    LeaveGroupMember,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    Request,
    SyncGroupAssignment,
    SyncGroupRequest,
)

INSTANCES = ("i1", "i2", "i3")
METADATA = (
    encode_subscription(Subscription(topics=("t1",))),
    encode_subscription(Subscription(topics=("t1", "t2"))),
    encode_subscription(Subscription(topics=("t2",), user_data=b"x")),
    b"",
    b"\x00\x00\xff\xff\xff\xff",
    b"\x00\x01\x00\x00\x00\x7f",
)
PROTOCOL_NAMES = ("range", "roundrobin", "sticky", "cooperative-sticky")
MENU = {
    "JoinGroup": 34,
    "SyncGroup": 20,
    "Heartbeat": 14,
    "LeaveGroup": 7,
    "OffsetCommit": 12,
    "OffsetFetch": 3,
    "OffsetDelete": 2,
    "DescribeGroups": 4,
    "DeleteGroups": 2,
    "FindCoordinator": 1,
    "garbage": 1,
}
GeneratedRequest = tuple[str, int, str, str | None, Request | None]
"""Api, version, client id, the member id to give out, the request."""


TOPICS = ("t1", "t2", "t3")
TOPIC_IDS = (None, None, "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b")
"""Of whichever topic: what is committed for one, and with which of them one is said to be gone."""


class RequestGenerator:
    """Makes requests. Remembers the ids that it has seen, so that old ones come back."""

    def __init__(self, dice: Random, config: GroupConfig, topics: Random, *, leads_well: bool = False) -> None:
        """`leads_well`: leaders give each partition to one member."""
        self._dice = dice
        self._leads_well = leads_well
        self._topics = topics
        self._config = config
        self._seen: list[str] = ["nobody"]
        self._made = 0

    def request(self, group_id: str, group: ClassicGroup | None, api: str | None = None) -> GeneratedRequest:
        """Return the next request to a group: of this API, or of any."""
        dice = self._dice
        if api is None:
            api = dice.choices(tuple(MENU), tuple(MENU.values()))[0]
            if dice.random() < 0.5:
                api = self._next_in_a_rebalance(group) or api
        client_id = dice.choice(("c1", "c2", ""))
        if api == "garbage":
            return "Heartbeat", 4, client_id, None, None
        make: Any = {
            "JoinGroup": self._join,
            "SyncGroup": self._sync,
            "Heartbeat": self._heartbeat,
            "LeaveGroup": self._leave,
            "OffsetCommit": self._commit,
            "OffsetFetch": self._fetch,
            "OffsetDelete": self._delete_offsets,
            "DescribeGroups": lambda group_id, group: DescribeGroupsRequest(groups=(group_id,)),
            "DeleteGroups": lambda group_id, group: DeleteGroupsRequest(groups_names=(group_id,)),
            "FindCoordinator": lambda group_id, group: FindCoordinatorRequest(
                key_type=dice.choice((0, 0, 1)), coordinator_keys=(group_id,)
            ),
        }[api]
        request: Request = make(group_id, group)
        return api, self.version(api), client_id, self._new_member_id(group), request

    def _next_in_a_rebalance(self, group: ClassicGroup | None) -> str | None:
        """Return a request that moves a rebalance on, if there is one."""
        if group is None or group.state_name in ("Empty", "PreparingRebalance"):
            return "JoinGroup"
        return "SyncGroup" if group.state_name == "CompletingRebalance" else None

    def version(self, api: str) -> int:
        api_versions = APIS[api]
        if self._dice.random() < 0.02:
            return api_versions.max_version + 1
        if self._dice.random() < 0.7:
            return api_versions.max_version
        return self._dice.randint(api_versions.min_version, api_versions.max_version)

    def _new_member_id(self, group: ClassicGroup | None) -> str | None:
        if self._dice.random() < 0.1:
            return None
        if self._dice.random() < 0.03:
            return self._dice.choice(self._seen)
        self._made += 1
        return f"m{self._made}"

    def _member(self, group: ClassicGroup | None) -> tuple[str, str | None]:
        """A member id and an instance id, mostly of one member."""
        dice = self._dice
        members = group.members if group is not None else {}
        ids = [*members, *(group.pending_join if group is not None else ())]
        awaited_ids = self._late(group)
        if awaited_ids and dice.random() < 0.6:
            ids = awaited_ids
        self._seen += [member_id for member_id in ids if member_id not in self._seen]
        member_id = dice.choice(ids) if ids and dice.random() < 0.9 else dice.choice([*self._seen, ""])
        instance_id = members[member_id].group_instance_id if member_id in members else None
        if dice.random() < 0.08:
            instance_id = dice.choice((None, *INSTANCES))
        return member_id, instance_id

    def _late(self, group: ClassicGroup | None) -> list[str]:
        """Return the members that the others wait for."""
        if group is None or group.state_name in ("Empty", "Stable"):
            return []
        if group.state_name == "PreparingRebalance":
            absent = [member.member_id for member in group.members.values() if member.awaiting_join is None]
            return [*absent, *group.pending_join]
        return [*group.pending_sync]

    def _generation(self, group: ClassicGroup | None) -> int:
        current = group.generation_id if group is not None else 0
        return self._dice.choices((current, current - 1, current + 1, -1, 0), (86, 5, 3, 4, 2))[0]

    def _join(self, group_id: str, group: ClassicGroup | None) -> JoinGroupRequest:
        dice = self._dice
        member_id, instance_id = self._member(group)
        if group is None or dice.random() < (0.4 if len(group.members) + len(group.pending_join) < 4 else 0.15):
            member_id, instance_id = "", dice.choice((None, None, *INSTANCES))
        names = dice.sample(PROTOCOL_NAMES, dice.choice((1, 1, 2, 3)))
        if dice.random() < 0.85:
            names = ["range", *(name for name in names if name != "range")]
        if dice.random() < 0.03:
            names = dice.choice(([], [*names, names[0]]))
        least_ms = self._config.group_min_session_timeout_ms
        return JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=dice.choices((least_ms, 5_000, 30_000, least_ms - 1, 60_001), (8, 30, 60, 1, 1))[0],
            rebalance_timeout_ms=dice.choices((-1, 0, 2_000, 10_000, 60_000), (15, 3, 10, 40, 32))[0],
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=dice.choices(("consumer", "connect", ""), (93, 5, 2))[0],
            protocols=tuple(
                JoinGroupProtocol(name=name, metadata=dice.choices(METADATA, (60, 15, 10, 5, 5, 5))[0])
                for name in names
            ),
            reason=dice.choice((None, "why not")),
        )

    def _sync(self, group_id: str, group: ClassicGroup | None) -> SyncGroupRequest:
        dice = self._dice
        member_id, instance_id = self._member(group)
        if group is not None and group.leader_id is not None and dice.random() < 0.4:
            leader = group.members.get(group.leader_id)
            member_id, instance_id = group.leader_id, leader.group_instance_id if leader is not None else None
        ids = [*group.members] if group is not None else []
        assigned_ids = [member_id for member_id in ids if dice.random() < 0.9] + (
            ["nobody"] if dice.random() < 0.1 else []
        )
        protocol_name = group and group.protocol_name
        names_protocol = dice.random() < 0.9
        return SyncGroupRequest(
            group_id=group_id,
            generation_id=self._generation(group),
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=(group and group.protocol_type) or "consumer"
            if names_protocol
            else dice.choice((None, "connect")),
            protocol_name=protocol_name or "range" if names_protocol else dice.choice((None, "sticky")),
            assignments=tuple(
                SyncGroupAssignment(member_id=member_id, assignment=self._assignment(number))
                for number, member_id in enumerate(assigned_ids)
            ),
        )

    def _assignment(self, number: int) -> bytes:
        if self._leads_well and self._dice.random() < 0.97:
            return encode_assignment(Assignment(partitions=(TopicPartition("t1", number),)))
        partition = TopicPartition("t1", self._dice.randrange(4))
        return self._dice.choice((encode_assignment(Assignment(partitions=(partition,))), b"", b"\x00"))

    def _heartbeat(self, group_id: str, group: ClassicGroup | None) -> HeartbeatRequest:
        member_id, instance_id = self._member(group)
        return HeartbeatRequest(
            group_id=group_id,
            generation_id=self._generation(group),
            member_id=member_id,
            group_instance_id=instance_id,
        )

    def _leave(self, group_id: str, group: ClassicGroup | None) -> LeaveGroupRequest:
        entries = []
        for _ in range(self._dice.choices((1, 2, 0), (80, 17, 3))[0]):
            member_id, instance_id = self._member(group)
            if instance_id is not None and self._dice.random() < 0.4:
                member_id = ""
            entries.append(LeaveGroupMember(member_id=member_id, group_instance_id=instance_id, reason="enough"))
        return LeaveGroupRequest(group_id=group_id, members=tuple(entries))

    def _commit(self, group_id: str, group: ClassicGroup | None) -> OffsetCommitRequest:
        dice = self._dice
        member_id, instance_id = self._member(group)
        generation = self._generation(group)
        if group is None or dice.random() < 0.2:
            member_id, instance_id, generation = "", None, dice.choice((-1, -1, 0))
        topics = tuple(
            OffsetCommitRequestTopic(
                name=name,
                topic_id=self._topics.choice(TOPIC_IDS),
                partitions=tuple(
                    OffsetCommitRequestPartition(
                        partition_index=dice.randrange(3),
                        committed_offset=dice.choice((0, 5, dice.randrange(1_000), -5)),
                        committed_leader_epoch=dice.choice((-1, 3)),
                        committed_metadata=dice.choice((None, "", "eight ch", "nine char", "😀😀😀😀", "😀😀😀😀!")),
                    )
                    for _ in range(dice.randint(1, 2))
                ),
            )
            for name in dice.sample(TOPICS, dice.choice((1, 1, 2, 0)))
        )
        return OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            retention_time_ms=dice.choice((-1, -1, 0, 30_000)),
            topics=topics,
        )

    def _fetch(self, group_id: str, group: ClassicGroup | None) -> OffsetFetchRequest:
        topics = (OffsetFetchRequestTopic(name="t1", partition_indexes=(0, 1)),) if self._dice.random() < 0.5 else None
        return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group_id, topics=topics),))

    def _delete_offsets(self, group_id: str, group: ClassicGroup | None) -> OffsetDeleteRequest:
        partitions = tuple(OffsetDeleteRequestPartition(partition_index=index) for index in range(2))
        names = self._dice.sample(TOPICS, 2)
        return OffsetDeleteRequest(
            group_id=group_id,
            topics=tuple(OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in names),
        )
