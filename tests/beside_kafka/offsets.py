"""What is asked about offsets, by members, by others and in transactions, and who looks at groups."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.beside_kafka.cluster import Cluster
from tests.beside_kafka.history import History
from tests.beside_kafka.members import Members

Json = dict[str, Any]

CLIENT_ID = "o"
PRODUCER_IDS = (1_000, 1_001, 1_002)
TOPIC_ID_VERSION = 10
TXN_TOPIC_ID_VERSION = 6


class Sender(NamedTuple):
    """Whom a request names."""

    group_id: str
    member_id: str = ""
    epoch: int = -1
    instance_id: str | None = None


class OffsetRequests:
    """All topics and partitions that they name exist: a broker refuses others before it asks its coordinator."""

    def __init__(self, history: History, cluster: Cluster, members: Members) -> None:
        self._history, self._dice, self._cluster = history, history.dice, cluster
        self._members = members

    def act(self) -> None:
        kinds = (
            self._commit, self._commit_in_transaction, self._end_transaction, self._fetch, self._delete,
            self._delete_group,
        )  # fmt: skip
        (kind,) = self._dice.choices(kinds, (35, 20, 13, 17, 8, 7))
        if self._cluster.topics:
            kind()

    def look(self) -> None:
        """Somebody describes or lists groups."""
        if not self._history.may_look:
            return
        (api,) = self._dice.choices(("ConsumerGroupDescribe", "ListGroups", "DescribeGroups"), (45, 35, 20))
        group_id = self._history.group_id()
        if api == "ListGroups":
            states = self._dice.choice(([], [], ["Stable", "Empty"], ["assigning"], ["reconciling"]))
            types = self._dice.choice(([], [], ["consumer"], ["Classic"]))
            self._history.request(api, 5, CLIENT_ID, {"statesFilter": states, "typesFilter": types})
        elif api == "DescribeGroups":
            body = {"groups": [group_id], "includeAuthorizedOperations": False}
            self._history.request(api, self._dice.choice((5, 6)), CLIENT_ID, body)
        else:
            body = {"groupIds": [group_id], "includeAuthorizedOperations": False}
            self._history.request(api, self._dice.choice((0, 1)), CLIENT_ID, body)

    def configure(self) -> None:
        """The group gets settings of its own."""
        config: Json = {}
        if self._history.chance(0.8):
            config["consumer.session.timeout.ms"] = self._dice.choice(("5000", "8000", "30000", "60000"))
        if self._history.chance(0.4):
            config["consumer.heartbeat.interval.ms"] = self._dice.choice(("500", "1000", "4000"))
        if self._history.chance(0.4):
            config["consumer.assignment.interval.ms"] = self._dice.choice(("0", "500", "20000"))
        config = {} if self._history.chance(0.2) else config
        self._history.step(group_config={"group": self._history.group_id(), "config": config})

    def _sender(self) -> Sender:
        everybody = [
            *(Sender(each.group_id, each.member_id, each.epoch, each.instance_id) for each in self._members.consumers),
            *(
                Sender(each.group_id, each.member_id, each.generation_id, each.instance_id)
                for each in self._members.classics
            ),
        ]
        if not everybody or self._history.chance(0.15):
            return Sender(self._history.group_id())
        sender = self._dice.choice(everybody)
        if self._history.chance(0.45):
            sender = sender._replace(epoch=sender.epoch + self._dice.choice((-1, -1, -1, -2, -3, 1, 2)))
        return sender

    def _commit(self) -> None:
        sender, version = self._sender(), self._dice.choice((9, 9, 10, 10, 8, 6, 2))
        body: Json = {
            "groupId": sender.group_id,
            "generationIdOrMemberEpoch": sender.epoch,
            "memberId": sender.member_id,
            "topics": [
                self._named(topic, version)
                | {"partitions": [self._offset(part, version >= 6) for part in self._cluster.some_partitions(topic)]}
                for topic in self._cluster.some_topics()
            ],
        }
        if version >= 7:
            body["groupInstanceId"] = sender.instance_id if self._history.chance(0.7) else None
        if version <= 4:
            body["retentionTimeMs"] = self._dice.choice((-1, -1, 50_000))
        # Never in the first partition: a new group none of whose offsets counts has no record, and then Kafka shows it
        # only if another group's record follows.
        for partition in [part for topic in body["topics"] for part in topic["partitions"]][1:]:
            if self._history.chance(0.02):
                partition["committedMetadata"] = "x" * 5_000
        self._history.request("OffsetCommit", version, CLIENT_ID, body)

    def _offset(self, partition: int, has_leader_epoch: bool) -> Json:
        offset: Json = {
            "partitionIndex": partition,
            "committedOffset": self._dice.randrange(999),
            "committedMetadata": self._dice.choice(("", "", "m", None)),
        }
        return offset | ({"committedLeaderEpoch": self._dice.choice((-1, 2))} if has_leader_epoch else {})

    def _named(self, topic: Json, version: int, ids_from: int = TOPIC_ID_VERSION) -> Json:
        return {"topicId": topic["topic_id"]} if version >= ids_from else {"name": topic["name"]}

    def _commit_in_transaction(self) -> None:
        newest = (TXN_TOPIC_ID_VERSION,) * 3 if self._history.has_4_4 else ()
        sender, version = self._sender(), self._dice.choice((*newest, 5, 4, 3, 3, 2, 0))
        body: Json = {
            "transactionalId": "tx",
            "groupId": sender.group_id,
            "producerId": self._dice.choice(PRODUCER_IDS),
            "producerEpoch": 0,
            "topics": [
                self._named(topic, version, TXN_TOPIC_ID_VERSION)
                | {"partitions": [self._offset(part, version >= 2) for part in self._cluster.some_partitions(topic)]}
                for topic in self._cluster.some_topics()
            ],
        }
        if version >= 3:
            instance_id = sender.instance_id if self._history.chance(0.5) else None
            epoch = "generationIdOrMemberEpoch" if version >= TXN_TOPIC_ID_VERSION else "generationId"
            body |= {epoch: sender.epoch, "memberId": sender.member_id, "groupInstanceId": instance_id}
        self._history.request("TxnOffsetCommit", version, CLIENT_ID, body)

    def _end_transaction(self) -> None:
        marker = {
            "producerId": self._dice.choice(PRODUCER_IDS),
            "producerEpoch": 0,
            "transactionResult": self._history.chance(0.6),
            "topics": [{"name": "__consumer_offsets", "partitionIndexes": [0]}],
            "coordinatorEpoch": 1,
        }
        self._history.request("WriteTxnMarkers", 1, CLIENT_ID, {"markers": [marker]})

    def _fetch(self) -> None:
        sender, version = self._sender(), self._dice.choice((9, 9, 10, 8))
        group: Json = {"groupId": sender.group_id, "topics": None}
        if version >= 9:
            is_member = self._history.chance(0.5)
            group |= {"memberId": sender.member_id, "memberEpoch": sender.epoch} if is_member else {
                "memberId": None, "memberEpoch": -1,
            }  # fmt: skip
        if self._history.chance(0.6):
            group["topics"] = [
                self._named(topic, version) | {"partitionIndexes": self._cluster.some_partitions(topic)}
                for topic in self._cluster.some_topics()
            ]
        body = {"groups": [group], "requireStable": self._history.chance(0.4)}
        self._history.request("OffsetFetch", version, CLIENT_ID, body)

    def _delete(self) -> None:
        topics = [
            {
                "name": topic["name"],
                "partitions": [{"partitionIndex": part} for part in self._cluster.some_partitions(topic)],
            }
            for topic in self._cluster.some_topics()
        ]
        self._history.request("OffsetDelete", 0, CLIENT_ID, {"groupId": self._sender().group_id, "topics": topics})

    def _delete_group(self) -> None:
        version = 3 if self._history.has_4_4 else 2
        self._history.request("DeleteGroups", version, CLIENT_ID, {"groupsNames": [self._sender().group_id]})
