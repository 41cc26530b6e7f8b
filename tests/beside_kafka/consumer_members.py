"""What members of the consumer protocol ask: ConsumerGroupHeartbeat, right and wrong."""

from __future__ import annotations

from typing import Any

from schemas.error_codes import ErrorCode
from tests.beside_kafka.cluster import NAMES, Cluster, topic_id
from tests.beside_kafka.history import History, OnAnswer
from tests.beside_kafka.members import ConsumerMember, Members

Json = dict[str, Any]

REGEXES = ("t.*", "t1|t2", "l.*", ".*", "x", "t[12]", "logs", "", "(", "t1")
IS_OUT = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
LEAVES, LEAVES_FOR_A_WHILE = -1, -2


class ConsumerMembers:
    """They share the dice and the time of the history."""

    def __init__(self, history: History, cluster: Cluster, members: Members) -> None:
        self._history, self._dice, self._cluster = history, history.dice, cluster
        self._members = members
        self._came = 0

    def act(self) -> None:
        """Somebody sends a heartbeat, perhaps one who comes with it."""
        consumers = self._members.consumers
        if not consumers or (len(consumers) < 6 and self._history.chance(0.12)):
            consumers.append(self._new())
        self.beat(self._dice.choice(consumers))

    def beat(self, member: ConsumerMember) -> None:
        if not member.is_joined or self._history.chance(0.04):
            self._join(member)
            return
        if member.told is not None and self._history.chance(0.7):
            member.owned = member.told
        kinds = (
            self._plain, self._odd_partitions, self._full, self._other_subscription, self._other_field,
            self._other_epoch, self._leave_for_a_while, self._leave, self._other_client,
        )  # fmt: skip
        (kind,) = self._dice.choices(kinds, (46, 8, 8, 10, 4, 8, 4, 3, 5))
        kind(member)

    def _new(self) -> ConsumerMember:
        return ConsumerMember(
            group_id=self._history.group_id(),
            member_id=self._new_id(),
            client_id=self._dice.choice(("c1", "c2")),
            instance_id=self._dice.choice((None, None, "i1", "i2")),
        )

    def _new_id(self) -> str:
        self._came += 1
        return f"{self._dice.choice('abcdefxyz')}{self._came}-{self._dice.choice('abc')}"

    def _subscription(self) -> Json:
        names = self._dice.sample((*NAMES, "nope"), self._dice.choice((0, 1, 1, 2, 2, 3)))
        if names and self._history.chance(0.1):
            names.append(names[0])
        regex = self._dice.choice(REGEXES)
        return self._dice.choices(
            (
                {"subscribedTopicNames": names},
                {"subscribedTopicRegex": regex},
                {"subscribedTopicNames": names, "subscribedTopicRegex": regex},
            ),
            (60, 25, 15),
        )[0]

    def _send(self, member: ConsumerMember, epoch: int, on_answer: OnAnswer | None = None, **fields: Any) -> None:
        body = {
            "groupId": member.group_id,
            "memberId": member.member_id,
            "memberEpoch": epoch,
            "instanceId": member.instance_id,
            "rackId": None,
            "rebalanceTimeoutMs": -1,
            "subscribedTopicNames": None,
            "subscribedTopicRegex": None,
            "serverAssignor": None,
            "topicPartitions": None,
        }
        body |= fields
        version = 1
        if epoch == 0 and body["subscribedTopicRegex"] is None and self._history.chance(0.1):
            version = 0
            del body["subscribedTopicRegex"]
        self._history.request(
            "ConsumerGroupHeartbeat", version, member.client_id, body, on_answer or _take_answer(member)
        )

    def _join(self, member: ConsumerMember) -> None:
        # Who was a classic member joins once under its id of then. In Kafka the timers to join and to sync of a member
        # that is gone stay, and fence whoever comes back under its id; here they end with it (docs/differences.md).
        if member.was_classic and member.came:
            member.member_id, member.was_classic = self._new_id(), False
        member.came = True
        self._send(
            member,
            0,
            rebalanceTimeoutMs=self._dice.choice((2_000, 20_000, 60_000)),
            serverAssignor=self._dice.choice((None, None, "uniform", "range")),
            rackId=self._dice.choice((None, None, "r1")),
            topicPartitions=[],
            **self._subscription(),
        )

    def _plain(self, member: ConsumerMember) -> None:
        reports = member.must_report or self._history.chance(0.3)
        member.must_report = False
        self._send(member, member.epoch, topicPartitions=_owned(member) if reports else None)

    def _odd_partitions(self, member: ConsumerMember) -> None:
        """Partitions that the member does not have, or that do not exist, or twice."""
        topics = self._dice.sample(self._cluster.topics, min(len(self._cluster.topics), 2))
        odd = [
            {"topicId": topic["topic_id"], "partitions": sorted(self._dice.sample(range(8), self._dice.randrange(4)))}
            for topic in topics
        ]
        if self._history.chance(0.3):
            odd += odd
        if self._history.chance(0.2):
            odd.append({"topicId": topic_id(99), "partitions": [0]})
        self._send(member, member.epoch, topicPartitions=odd)

    def _full(self, member: ConsumerMember) -> None:
        subscription = self._subscription() if self._history.chance(0.5) else {"subscribedTopicNames": ["t1"]}
        timeout_ms = self._dice.choice((2_000, 20_000))
        self._send(
            member, member.epoch, rebalanceTimeoutMs=timeout_ms, topicPartitions=_owned(member), **subscription
        )

    def _other_subscription(self, member: ConsumerMember) -> None:
        owned = _owned(member) if self._history.chance(0.3) else None
        self._send(member, member.epoch, topicPartitions=owned, **self._subscription())

    def _other_field(self, member: ConsumerMember) -> None:
        changes: tuple[Json, ...] = (
            {"serverAssignor": "range"},
            {"serverAssignor": "uniform"},
            {"rackId": "r2"},
            {"rebalanceTimeoutMs": 3_000},
            {"rebalanceTimeoutMs": 0},
            {"instanceId": self._dice.choice(("i1", "i2", "i3"))},
            {"instanceId": None},
        )
        self._send(member, member.epoch, **self._dice.choice(changes))

    def _other_epoch(self, member: ConsumerMember) -> None:
        epoch = max(1, member.epoch + self._dice.choice((-1, -1, -2, 1, -3)))
        self._send(member, epoch, topicPartitions=self._dice.choice((None, [], _owned(member))))

    def _leave_for_a_while(self, member: ConsumerMember) -> None:
        """A static member's instance may come back under another id."""
        if member.instance_id is None:
            self._leave(member)
            return

        def left(answer: Json) -> None:
            if answer["errorCode"] == ErrorCode.NONE:
                member.is_joined = False
                if self._history.chance(0.6):
                    member.member_id, member.owned = self._new_id(), {}

        self._send(member, LEAVES_FOR_A_WHILE, left)

    def _leave(self, member: ConsumerMember) -> None:
        def left(answer: Json) -> None:
            member.forget()
            member.told = None

        instance_id = None if self._history.chance(0.3) else member.instance_id
        self._send(member, LEAVES, left, instanceId=instance_id)

    def _other_client(self, member: ConsumerMember) -> None:
        member.client_id = self._dice.choice(("c1", "c2", "c3"))
        self._send(member, member.epoch)


def _owned(member: ConsumerMember) -> list[Json]:
    return [
        {"topicId": topic, "partitions": sorted(partitions)} for topic, partitions in sorted(member.owned.items())
    ]


def _take_answer(member: ConsumerMember) -> OnAnswer:
    def take(answer: Json) -> None:
        if answer["errorCode"] == ErrorCode.NONE:
            member.epoch, member.is_joined = answer["memberEpoch"], True
            if answer["assignment"] is not None:
                topics = answer["assignment"]["topicPartitions"]
                member.told = {topic["topicId"]: set(topic["partitions"]) for topic in topics}
                member.must_report = True
        elif answer["errorCode"] in IS_OUT:
            member.forget()

    return take
