"""What a broker does with the topics of a request before and after the group coordinator is asked.

Source: `KafkaApis` (Kafka 4.3). Commits, commits in transactions, fetches and deletes of offsets name topics that the
broker looks up. What it refuses comes first in the answer, in a fetch last. Requests and answers are in Kafka's JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from schemas.error_codes import ErrorCode

Json = dict[str, Any]

_UNKNOWN_TOPIC_ID = 100
_TOPIC_IDS_FROM = {"OffsetCommit": 10, "OffsetFetch": 10, "TxnOffsetCommit": 6}
_FETCH = "OffsetFetch"
_CHECKED = frozenset({"OffsetCommit", "TxnOffsetCommit", "OffsetDelete", _FETCH})
_HEARTBEAT_REFUSED: Json = {
    "errorMessage": None,
    "memberId": None,
    "memberEpoch": 0,
    "heartbeatIntervalMs": 0,
    "assignment": None,
}
_NOT_DESCRIBED: Json = {
    "errorMessage": None,
    "groupState": "",
    "groupEpoch": 0,
    "assignmentEpoch": 0,
    "assignorName": "",
    "members": [],
    "authorizedOperations": -(2**31),
}
_REFUSED_FETCH = {"committedOffset": -1, "committedLeaderEpoch": -1, "metadata": ""}


class TopicChecks:
    """The topics that exist: id and number of partitions by name; and those that nobody may see."""

    def __init__(
        self, topic_ids: Mapping[str, str], partition_counts: Mapping[str, int], denied_topics: Iterable[str] = ()
    ) -> None:
        """`topic_ids`: in Kafka's base64."""
        self._ids = topic_ids
        self._names = {topic_id: name for name, topic_id in topic_ids.items()}
        self._partition_counts = partition_counts
        self._denied_topics = frozenset(denied_topics)

    def split(self, api: str, version: int, request: Json) -> tuple[Json | None, list[Json]]:
        """Return the request as the coordinator gets it, and the answers to the topics that the broker refuses.

        Of a fetch of several groups, nothing is refused. None: the coordinator is not asked.
        """
        if api == "ConsumerGroupHeartbeat" and not self._denied_topics.isdisjoint(
            request.get("subscribedTopicNames") or ()
        ):
            return None, []
        if api not in _CHECKED:
            return request, []
        by_id = version >= _TOPIC_IDS_FROM.get(api, version + 1)
        if api == _FETCH and "groups" in request:
            (group,) = request["groups"] if len(request["groups"]) == 1 else ({"topics": None},)
            if group["topics"] is None:
                return request, []
            topics, refused = self._split_topics(api, by_id, group["topics"])
            return {**request, "groups": [{**group, "topics": topics}]}, refused
        if request["topics"] is None:
            return request, []
        topics, refused = self._split_topics(api, by_id, request["topics"])
        is_asked = bool(topics) or not refused or api in (_FETCH, "OffsetDelete")
        return {**request, "topics": topics} if is_asked else None, refused

    def _split_topics(self, api: str, by_id: bool, topics: list[Json]) -> tuple[list[Json], list[Json]]:
        passed: list[Json] = []
        refused: dict[str, Json] = {}
        for topic in topics:
            key = "topicId" if by_id else "name"
            numbers = "partitionIndexes" if api == _FETCH else "partitions"
            refusal_of = self._refusal(api, self._names.get(topic[key]) if by_id else topic["name"])
            admitted = []
            for partition in topic[numbers]:
                index = partition if api == _FETCH else partition["partitionIndex"]
                code = refusal_of(index)
                if code is None:
                    admitted.append(partition)
                    continue
                answer = refused.setdefault(topic[key], {key: topic[key], "partitions": []})
                fields = _REFUSED_FETCH if api == _FETCH else {}
                answer["partitions"].append({"partitionIndex": index, **fields, "errorCode": code})
            if admitted or not topic[numbers]:
                passed.append({**topic, numbers: admitted})
        return passed, list(refused.values())

    def _refusal(self, api: str, name: str | None) -> Callable[[int], int | None]:
        """Return what says which error a partition of the topic gets; None: it goes to the coordinator."""
        if name is None:
            return lambda index: _UNKNOWN_TOPIC_ID
        if name in self._denied_topics:
            return lambda index: int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if api == _FETCH:
            return lambda index: None
        count = self._partition_counts.get(name, 0)
        return lambda index: None if 0 <= index < count else int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def finish(self, api: str, version: int, request: Json, answer: Json | None, refused: list[Json]) -> Json:
        """Return the broker's answer: the coordinator's (None: it was not asked) and the refused topics."""
        if api == "ConsumerGroupHeartbeat" and answer is None:
            return _HEARTBEAT_REFUSED | {"errorCode": int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}
        if api == "ConsumerGroupDescribe" and answer is not None:
            return {"groups": [self._described(group) for group in answer["groups"]]}
        if api not in _CHECKED:
            assert answer is not None
            return answer
        if api == _FETCH:
            assert answer is not None
            return self._finish_fetch(version, request, answer, refused)
        if answer is None:
            return {"topics": refused}
        if answer.get("errorCode") or not refused:
            return answer
        key = "topicId" if "topicId" in refused[0] else "name"
        by_topic = {topic[key]: topic for topic in refused}
        merged = list(refused)
        for topic in answer["topics"]:
            if topic[key] in by_topic:
                by_topic[topic[key]]["partitions"] += topic["partitions"]
            else:
                merged.append(topic)
        return {**answer, "topics": merged}

    def _described(self, group: Json) -> Json:
        """A group that has a topic which may not be seen is shown without members."""
        topics = {
            topic["topicName"]
            for member in group["members"]
            for assignment in (member["assignment"], member["targetAssignment"])
            for topic in assignment["topicPartitions"]
        }
        if self._denied_topics.isdisjoint(topics):
            return group
        return _NOT_DESCRIBED | {
            "groupId": group["groupId"], "errorCode": int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        }  # fmt: skip

    def _finish_fetch(self, version: int, request: Json, answer: Json, refused: list[Json]) -> Json:
        holders = answer.get("groups", [answer])
        for holder, asked in zip(holders, request.get("groups", [request]), strict=True):
            if asked["topics"] is None:
                holder["topics"] = [topic for topic in map(self._shown, holder["topics"]) if topic is not None]
            elif not holder.get("errorCode"):
                holder["topics"] += refused
        return answer

    def _shown(self, topic: Json) -> Json | None:
        """Return a topic of a fetch of all topics: None for one that may not be seen, or that has no id to be named by.
        """
        if "name" in topic:
            return None if topic["name"] in self._denied_topics else topic
        name = self._names.get(topic["topicId"])
        return None if name is None or name in self._denied_topics else topic

    @property
    def names(self) -> Mapping[str, str]:
        """Topic id, in Kafka's base64 -> name."""
        return self._names

    @property
    def ids(self) -> Mapping[str, str]:
        """Name -> topic id, in Kafka's base64."""
        return self._ids
