"""What members of the classic protocol ask, right and wrong, also in groups of the consumer protocol."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

from schemas.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartition,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from schemas.error_codes import ErrorCode
from schemas.wire import DecodeError
from tests.beside_kafka.cluster import NAMES, Cluster
from tests.beside_kafka.consumer_members import ConsumerMembers
from tests.beside_kafka.history import History
from tests.beside_kafka.members import ClassicMember, ConsumerMember, Members

Json = dict[str, Any]

STATIC_VERSION_MIN = {"JoinGroup": 5, "SyncGroup": 3, "Heartbeat": 3, "LeaveGroup": 3}
HAS_NO_ID = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
PROTOCOLS = (("range",), ("range", "sticky"), ("cooperative-sticky", "range"), ("roundrobin",))


class ClassicMembers:
    """They share the dice and the time of the history."""

    def __init__(
        self, history: History, cluster: Cluster, members: Members, consumer_members: ConsumerMembers
    ) -> None:
        self._history, self._dice, self._cluster = history, history.dice, cluster
        self._members, self._consumer_members = members, consumer_members
        self._came = 0

    def act(self) -> None:
        """Somebody asks for something, perhaps one who comes with it."""
        classics = self._members.classics
        if not classics or (len(classics) < 5 and self._history.chance(0.1)):
            classics.append(self._new())
        member = self._dice.choice(classics)
        if member.state == "joining":
            # He waits, or loses patience. What he then asks again has its answer; the first is never answered.
            member.state = "out" if self._history.chance(0.1) else "joining"
        elif member.state == "out" or self._history.chance(0.08):
            self._join(member)
        elif member.state == "joined" and self._history.chance(0.75):
            self._sync(member)
        else:
            kinds = (self._heartbeat, self._leave, self._change_protocol, self._sync, self._join)
            (kind,) = self._dice.choices(kinds, (60, 8, 7, 15, 10))
            kind(member)

    def _new(self) -> ClassicMember:
        self._came += 1
        member = ClassicMember(
            number=self._came,
            group_id=self._history.group_id(),
            client_id=self._dice.choice(("k1", "k2")),
            join_version=self._dice.choice((9, 9, 9, 5, 7, 4, 3, 2, 1, 0)),
            topics=self._dice.sample(NAMES, self._dice.choice((1, 2))),
            protocols=list(self._dice.choice(PROTOCOLS)),
            subscription_version=self._dice.choice((3, 3, 2, 1, 0)),
        )
        if member.join_version >= STATIC_VERSION_MIN["JoinGroup"]:
            member.instance_id = self._dice.choice((None, None, None, "i1", "i2"))
            if member.instance_id and self._members.consumers and self._history.chance(0.4):
                member.instance_id = self._dice.choice(self._members.consumers).instance_id or member.instance_id
        return member

    def _version(self, api: str, member: ClassicMember, versions: tuple[int, ...]) -> int:
        lowest = STATIC_VERSION_MIN[api] if member.instance_id else 0
        return max(lowest, self._dice.choice(versions))

    def _join(self, member: ClassicMember) -> None:
        version = member.join_version
        if self._history.chance(0.2):
            member.topics = self._dice.sample(NAMES, self._dice.choice((1, 2, 3)))
        metadata = self._subscription(member)
        body: Json = {
            "groupId": member.group_id,
            # No two members have the same timeouts: an upgrade arms all timers at once, in the order of a hash map, and
            # members that expire in one millisecond would go in another order here (docs/differences.md).
            "sessionTimeoutMs": self._dice.choice((6_000, 10_000, 30_000)) + member.number,
            "memberId": member.member_id,
            "protocolType": "consumer" if self._history.chance(0.98) else "connect",
            "protocols": [{"name": name, "metadata": metadata} for name in member.protocols],
        }
        if version >= 1:
            body["rebalanceTimeoutMs"] = self._dice.choice((4_000, 20_000)) + member.number
        if version >= 5:
            body["groupInstanceId"] = member.instance_id
        if version >= 8:
            body["reason"] = None
        member.state = "joining"

        def take(answer: Json) -> None:
            _joined(member, answer)
            if answer["errorCode"] == ErrorCode.UNKNOWN_MEMBER_ID:
                self._end_if_removed(member.group_id)

        self._history.request("JoinGroup", version, member.client_id, body, take)

    def _end_if_removed(self, group_id: str) -> None:
        """Such a JoinGroup removes a consumer group without members. Kafka then keeps its offsets for good, and here
        they expire; how long who reads what is committed still sees the group differs, too (docs/differences.md). So
        a history in which offsets can expire ends, and in another one nobody looks any more."""
        if not self._history.may_look:
            return

        def take(answer: Json) -> None:
            (described,) = answer["groups"]
            if described["errorCode"] == ErrorCode.NONE and not described["members"]:
                self._history.may_look = False
                self._history.is_over = self._history.config["offsets.retention.minutes"] == 1

        body = {"groupIds": [group_id], "includeAuthorizedOperations": False}
        self._history.request("ConsumerGroupDescribe", 1, "o", body, take)

    def _subscription(self, member: ClassicMember) -> str:
        if self._history.chance(0.02):
            return b64encode(b"\0").decode()
        owned = member.owned if self._history.chance(0.7) else []
        if self._history.chance(0.1):
            owned = [("t1", 0), ("gone", 3)]
        subscription = Subscription(
            topics=tuple(member.topics),
            owned_partitions=tuple(TopicPartition(*partition) for partition in owned),
            generation_id=member.generation_id,
            rack_id="r1" if self._history.chance(0.2) else None,
        )
        return b64encode(encode_subscription(subscription, member.subscription_version)).decode()

    def _sync(self, member: ClassicMember) -> None:
        version = self._version("SyncGroup", member, (5, 5, 4, 3, 2, 0))
        body: Json = {
            "groupId": member.group_id,
            "generationId": member.generation_id + (self._dice.choice((-1, 1)) if self._history.chance(0.05) else 0),
            "memberId": member.member_id,
            "assignments": self._assignments(member),
        }
        if version >= 3:
            body["groupInstanceId"] = member.instance_id
        if version >= 5:
            body["protocolType"] = "consumer"
            body["protocolName"] = member.protocol or member.protocols[0]
        self._history.request("SyncGroup", version, member.client_id, body, lambda answer: _synced(member, answer))

    def _assignments(self, leader: ClassicMember) -> list[Json]:
        """Each partition goes to one member, and now and then to another one, too."""
        assignments: list[Json] = []
        for number, member_id in enumerate(leader.led):
            partitions = tuple(
                TopicPartition(*partition)
                for place, partition in enumerate(self._cluster.partitions())
                if place % len(leader.led) == number or self._history.chance(0.003)
            )
            user_data = b"u" if self._history.chance(0.03) else None
            assignment = Assignment(partitions=partitions, user_data=user_data)
            encoded = encode_assignment(assignment, self._dice.choice((3, 3, 1, 0)))
            assignments.append({"memberId": member_id, "assignment": b64encode(encoded).decode()})
        return assignments

    def _heartbeat(self, member: ClassicMember) -> None:
        version = self._version("Heartbeat", member, (0, 1, 2, 3, 4))
        body: Json = {
            "groupId": member.group_id,
            "generationId": member.generation_id + (self._dice.choice((-1, 1)) if self._history.chance(0.1) else 0),
            "memberId": member.member_id,
        }
        if version >= 3:
            body["groupInstanceId"] = member.instance_id

        def take(answer: Json) -> None:
            if answer["errorCode"] != ErrorCode.NONE:
                member.state = "out"
            if answer["errorCode"] in HAS_NO_ID and self._history.chance(0.8):
                member.forget()

        self._history.request("Heartbeat", version, member.client_id, body, take)

    def _leave(self, member: ClassicMember) -> None:
        """He leaves alone, or by a request that names another one, too, or the same twice.

        The other one is nobody's: of two members of a consumer group that leave at once, Kafka writes first the
        one whose hash comes first (docs/differences.md).
        """
        version = self._dice.choice((0, 2, 3, 5))
        if version < STATIC_VERSION_MIN["LeaveGroup"]:
            body: Json = {"groupId": member.group_id, "memberId": member.member_id}
        else:
            has_id = member.instance_id is None or self._history.chance(0.5)
            leaving = [(member.member_id if has_id else "", member.instance_id)]
            if self._history.chance(0.3):
                leaving.append(self._dice.choice((("nobody", None), ("", "i9"))))
            if self._history.chance(0.2):
                leaving.append(leaving[0])
            reason = {"reason": "x"} if version >= 5 else {}
            members = [{"memberId": each, "groupInstanceId": instance_id, **reason} for each, instance_id in leaving]
            body = {"groupId": member.group_id, "members": members}

        def left(answer: Json) -> None:
            member.state = "out"
            if self._history.chance(0.7):
                member.forget()

        self._history.request("LeaveGroup", version, member.client_id, body, left)

    def _change_protocol(self, member: ClassicMember) -> None:
        """A client is restarted with the consumer protocol, and goes on under its id."""
        if not member.member_id or len(self._members.consumers) >= 7:
            return
        changed = ConsumerMember(
            group_id=member.group_id,
            member_id=member.member_id,
            client_id=member.client_id,
            instance_id=member.instance_id,
            epoch=max(1, member.generation_id),
            is_joined=self._history.chance(0.4),
            was_classic=True,
        )
        self._members.consumers.append(changed)
        self._members.classics.remove(member)
        self._consumer_members.beat(changed)


def _joined(member: ClassicMember, answer: Json) -> None:
    error = answer["errorCode"]
    if error == ErrorCode.NONE:
        member.state, member.member_id, member.generation_id = "joined", answer["memberId"], answer["generationId"]
        member.protocol = answer.get("protocolName")
        member.led = [each["memberId"] for each in answer["members"]]
        return
    member.state = "out"
    if error == ErrorCode.MEMBER_ID_REQUIRED:
        member.member_id = answer["memberId"]
    elif error in HAS_NO_ID or error == ErrorCode.GROUP_MAX_SIZE_REACHED:
        member.forget()


def _synced(member: ClassicMember, answer: Json) -> None:
    if answer["errorCode"] == ErrorCode.NONE:
        member.state = "stable"
        try:
            partitions = decode_assignment(b64decode(answer["assignment"])).partitions
        except DecodeError:
            partitions = ()
        member.owned = [(partition.topic, partition.partition) for partition in partitions]
        return
    member.state = "out"
    if answer["errorCode"] in HAS_NO_ID:
        member.forget()
