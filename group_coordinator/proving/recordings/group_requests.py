"""A logged request as the group coordinator got it: one for each group that it names, in our own messages.

What a broker decides before it asks the group coordinator (is it the right one, is it loaded, does the topic exist, may
the client do this) is no history of the group: such requests and partitions are set aside.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from uuid import UUID, uuid5

from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from group_coordinator.proving.recordings.cluster_topics import TopicIds
from group_coordinator.proving.recordings.kafka_json import (
    TOPIC_IDS_FROM,
    KafkaJsonError,
    request_from_kafka,
    topic_id_from_kafka,
)
from group_coordinator.proving.recordings.request_lines import LoggedRequest
from schemas.consumer_group_messages import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from schemas.error_codes import ErrorCode
from schemas.events import RequestEnvelope
from schemas.group_metadata_events import TopicMetadata
from schemas.messages import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    Request,
    TxnOffsetCommitRequest,
)
from schemas.recorded import RecordedRequest

Json = dict[str, Any]

REQUEST_ID_NAMESPACE = UUID("3f1b6d0e-52a4-5b0c-8a55-7d1f0a4c9e21")
"""Request ids are UUIDv5 of file name, line number and place within the line."""

_NOT_OF_THE_GROUP = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
_WRITE_TIMED_OUT = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT})
"""Brokers before Kafka 4 answer the second one to commits."""
_NOT_THE_COORDINATOR = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR})
_NOT_OF_THE_PARTITION = frozenset({
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID,
})  # fmt: skip

Commit = TypeVar("Commit", bound=OffsetCommitRequest | TxnOffsetCommitRequest)
_WithTopics = OffsetCommitRequest | TxnOffsetCommitRequest | OffsetDeleteRequest | OffsetFetchRequest
_OF_THE_TRANSACTION = {
    47: "INVALID_PRODUCER_EPOCH",
    48: "INVALID_TXN_STATE",
    49: "INVALID_PRODUCER_ID_MAPPING",
    51: "CONCURRENT_TRANSACTIONS",
    53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    120: "TRANSACTION_ABORTABLE",
}
"""What the transaction coordinator, or the log, answers to TxnOffsetCommit."""
_WRITES = frozenset({"JoinGroup", "SyncGroup", "LeaveGroup", "OffsetCommit", "TxnOffsetCommit"})
WRITE_TIMEOUT_MIN_US = 1_000_000
"""A broker that cannot ask the group says so at once; one whose write times out (`offsets.commit.timeout.ms`, five
seconds as a rule) has waited."""

_PER_GROUP = {
    "FindCoordinator": ("coordinators", "key", 4),
    "OffsetFetch": ("groups", "groupId", 8),
    "DescribeGroups": ("groups", "groupId", 0),
    "ConsumerGroupDescribe": ("groups", "groupId", 0),
    "DeleteGroups": ("results", "groupId", 0),
}
"""API -> the list in its answer that has an entry for each group, the entry's name of the group, since which
version."""


class GroupRequest(Struct, frozen=True, kw_only=True):
    """One request to one group, and what the broker answered."""

    logged: LoggedRequest
    group_id: str
    request_id: str
    request: Request
    response: Json
    """The broker's answer as far as it is about this group, in Kafka's names of this version."""
    new_member_id: str | None
    """The member id that the broker gave out with its answer."""
    topic_metadata: TopicMetadata | UnsetType = UNSET
    """What the request brings along of the cluster's topics."""
    set_aside: str | None = None
    """Why the group coordinator never saw it; None: it did."""
    file_name: str = ""

    @property
    def error_codes(self) -> set[int]:
        """The codes of the answer and of its partitions, as far as they lie in topics."""
        partitions = [part for topic in self.response.get("topics", ()) for part in topic.get("partitions", ())]
        return {part["errorCode"] for part in (self.response, *partitions) if "errorCode" in part}

    @property
    def recorded(self) -> RecordedRequest:
        """Where the log has it."""
        if self.is_inferred:
            return RecordedRequest()
        return RecordedRequest(file=self.file_name, line=self.logged.line_number)

    @property
    def is_inferred(self) -> bool:
        """True if the request is not in the log."""
        return self.logged.line_number == 0

    @property
    def write_timed_out(self) -> bool:
        """True if the group took the request, and the broker told an error, for replicas did not follow in time."""
        return self.set_aside is None and bool(_codes(self.response) & _WRITE_TIMED_OUT)

    @property
    def refused_as_coordinator(self) -> bool:
        """True if the broker answered that it does not coordinate the group, or not yet."""
        return self.set_aside is not None and bool(_codes(self.response) & _NOT_THE_COORDINATOR)

    @property
    def envelope(self) -> RequestEnvelope:
        return RequestEnvelope(
            request_id=self.request_id,
            reply_partition=0,
            api=self.logged.api,
            api_version=self.logged.api_version,
            client_id=self.logged.client_id,
            client_host=self.logged.client_host,
            new_member_id=self.new_member_id,
            topic_metadata=self.topic_metadata,
            recorded=self.recorded,
            body=Raw(b"null"),
        )


def group_requests(logged: LoggedRequest, file_name: str, topic_ids: TopicIds) -> tuple[GroupRequest, ...]:
    """Return the requests to groups that one logged request holds. Raises `KafkaJsonError`.

    A commit that names its topic gets the id from `topic_ids`, as the broker adds it.
    """
    body, response = _object(logged.request), _object(logged.response)
    names: Mapping[str, str] = topic_ids.names
    if _names_by_id(logged):
        names = {**dict.fromkeys(_unknown_ids(response), ""), **names}
    return tuple(
        _group_request(logged, file_name, ordinal, group_id, request, response, topic_ids)
        for ordinal, (group_id, request) in enumerate(
            request_from_kafka(logged.api, logged.api_version, body, names)
        )
    )


def _names_by_id(logged: LoggedRequest) -> bool:
    return logged.api_version >= TOPIC_IDS_FROM.get(logged.api, logged.api_version + 1)


def _unknown_ids(answer: object) -> Iterator[str]:
    """Yield the ids of topics that the broker did not know. Raises `KafkaJsonError`."""
    if isinstance(answer, dict) and isinstance(answer.get("topicId"), str):
        if ErrorCode.UNKNOWN_TOPIC_ID in _codes(answer):
            yield topic_id_from_kafka(answer["topicId"]) or ""
    elif isinstance(answer, dict | list):
        for value in answer.values() if isinstance(answer, dict) else answer:
            yield from _unknown_ids(value)


def _object(text: bytes) -> Json:
    try:
        decoded = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise KafkaJsonError(f"the JSON of this line cannot be read: {error}") from None
    if not isinstance(decoded, dict):
        raise KafkaJsonError("the log has no request or no answer on this line")
    return decoded


def _group_request(
    logged: LoggedRequest,
    file_name: str,
    ordinal: int,
    group_id: str,
    request: Request,
    response: Json,
    topic_ids: TopicIds,
) -> GroupRequest:
    answer = _answer_of_group(logged, group_id, response)
    refusal_codes = _codes(answer) & _NOT_OF_THE_GROUP
    if isinstance(request, OffsetCommitRequest):
        refusal_codes -= {ErrorCode.UNSUPPORTED_VERSION}  # a consumer group answers it to commits of old clients
    elif isinstance(request, ConsumerGroupHeartbeatRequest | ConsumerGroupDescribeRequest):
        refusal_codes |= _codes(answer) & {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    of_transaction = _first_of_transaction(answer) if isinstance(request, TxnOffsetCommitRequest) else None
    set_aside = f"the broker answered {min(refusal_codes).name} before it asked the group" if refusal_codes else None
    if refusal_codes == {ErrorCode.COORDINATOR_NOT_AVAILABLE} and _waited_for_replicas(logged):
        set_aside = None
    if isinstance(request, FindCoordinatorRequest) and request.key_type != 0:
        set_aside = "it looks for the coordinator of no group"
    if isinstance(request, HeartbeatRequest) and not request.member_id and ErrorCode.NONE in _codes(answer):
        set_aside = "the broker answered heartbeats while it loaded the group"
    if of_transaction is not None:
        set_aside = f"the broker answered {of_transaction} for the transaction, before it asked the group"
    if isinstance(request, _WithTopics) and set_aside is None:
        request, answer = _without_refused_partitions(logged, request, answer)
        if isinstance(request, OffsetCommitRequest | TxnOffsetCommitRequest):
            if not request.topics:
                set_aside = "the broker refused all of its topics before it asked the group"
            request = with_topic_ids(request, lambda name: topic_ids.id_of(name, logged.ready_us))
    return GroupRequest(
        logged=logged,
        group_id=group_id,
        request_id=str(uuid5(REQUEST_ID_NAMESPACE, f"{file_name}:{logged.line_number}:{ordinal}")),
        request=request,
        response=answer,
        new_member_id=_new_member_id(request, answer),
        set_aside=set_aside,
        file_name=file_name,
    )


def _first_of_transaction(answer: Json) -> str | None:
    """Return the error of a commit in a transaction that the transaction coordinator or the log gave."""
    codes = (part.get("errorCode") for topic in answer.get("topics", ()) for part in topic.get("partitions", ()))
    return next((_OF_THE_TRANSACTION[code] for code in codes if code in _OF_THE_TRANSACTION), None)


def _waited_for_replicas(logged: LoggedRequest) -> bool:
    """Return whether a request was refused because its write was not replicated in time: what it wrote stands."""
    return logged.api in _WRITES and logged.ready_us - logged.handled_us >= WRITE_TIMEOUT_MIN_US


def _answer_of_group(logged: LoggedRequest, group_id: str, response: Json) -> Json:
    """The part of an answer that is about one group, in the shape of an answer to a request for this group alone."""
    answer = {name: value for name, value in response.items() if name != "throttleTimeMs"}
    entries, name, since = _PER_GROUP.get(logged.api, ("", "", 0))
    if entries and logged.api_version >= since:
        listed = answer.get(entries)
        of_group = [entry for entry in listed if entry.get(name) == group_id] if isinstance(listed, list) else []
        answer[entries] = _without_repeats(of_group) if logged.api == "ConsumerGroupDescribe" else of_group
    return answer


def _without_repeats(entries: list[Json]) -> list[Json]:
    """Return the one entry of a group. Kafka 4.0 has others before it, with the error of not having found the group:
    one for each time that it looked for it."""
    described = [entry for entry in entries if entry.get("errorCode") == ErrorCode.NONE]
    return described[-1:] or entries[-1:]


def _codes(answer: object) -> set[ErrorCode]:
    """Every error code in an answer."""
    codes: set[ErrorCode] = set()
    if isinstance(answer, dict):
        code = answer.get("errorCode")
        if isinstance(code, int) and code in ErrorCode._value2member_map_:
            codes.add(ErrorCode(code))
        for value in answer.values():
            codes |= _codes(value)
    elif isinstance(answer, list):
        for value in answer:
            codes |= _codes(value)
    return codes


def _new_member_id(request: Request, answer: Json) -> str | None:
    if isinstance(request, JoinGroupRequest | ConsumerGroupHeartbeatRequest) and not request.member_id:
        return answer.get("memberId") or None
    return None


# -------------------------------------------------------------------------- topics and partitions that never got there


def _without_refused_partitions(
    logged: LoggedRequest, request: _WithTopics, answer: Json
) -> tuple[Request, Json]:
    """Leave out the partitions that the broker refused by itself; answers list the partitions in the request's
    order."""
    if not _codes(answer) & _NOT_OF_THE_PARTITION:
        return request, answer
    in_group = logged.api == "OffsetFetch" and logged.api_version >= 8
    topics = answer["groups"][0]["topics"] if in_group else answer["topics"]
    refused = {
        (_name_or_id(topic), partition["partitionIndex"])
        for topic in topics
        for partition in topic["partitions"]
        if partition.get("errorCode") in _NOT_OF_THE_PARTITION
    }
    topics_kept = _kept_topics(topics, refused)
    if in_group:
        answer = {**answer, "groups": [{**answer["groups"][0], "topics": topics_kept}]}
    else:
        answer = {**answer, "topics": topics_kept}
    return _without_partitions(request, refused, _names_by_id(logged)), answer


def _name_or_id(topic: Json) -> str:
    """Return the name or id of a topic, as this version has it."""
    return topic["name"] if "name" in topic else topic_id_from_kafka(topic["topicId"]) or ""


def _kept_topics(topics: list[Json], refused: set[tuple[str, int]]) -> list[Json]:
    topics_kept = []
    for topic in topics:
        name = _name_or_id(topic)
        partitions = [part for part in topic["partitions"] if (name, part["partitionIndex"]) not in refused]
        if partitions:
            topics_kept.append({**topic, "partitions": partitions})
    return topics_kept


def _without_partitions(
    request: _WithTopics,
    refused: set[tuple[str, int]],
    by_id: bool,
) -> Request:
    def name_of(topic: Any) -> str:
        return str(topic.topic_id if by_id else topic.name)

    if isinstance(request, OffsetFetchRequest):
        (group,) = request.groups
        fetched = tuple(
            replace(
                topic,
                partition_indexes=tuple(
                    index for index in topic.partition_indexes if (name_of(topic), index) not in refused
                ),
            )
            for topic in group.topics or ()
        )
        topics_left = None if group.topics is None else tuple(topic for topic in fetched if topic.partition_indexes)
        return replace(request, groups=(replace(group, topics=topics_left),))
    topics: list[Any] = [
        replace(
            topic,
            partitions=tuple(
                part for part in topic.partitions if (name_of(topic), part.partition_index) not in refused
            ),
        )
        for topic in request.topics
    ]
    return replace(request, topics=tuple(topic for topic in topics if topic.partitions))


def with_topic_ids(request: Commit, id_of: Callable[[str], str | None]) -> Commit:
    """Add the ids of the topics that a commit names: from Kafka 4.1 on the broker looks them up and stores them, and
    from 4.4 on in transactions, too."""
    topics = tuple([replace(topic, topic_id=topic.topic_id or id_of(topic.name)) for topic in request.topics])
    return replace(request, topics=topics)
