"""What a broker does with the topics of a request about offsets before and after its coordinator is asked. Pure.

Source: `KafkaApis.handleOffsetCommitRequest`, `fetchOffsetsForGroup`, `fetchAllOffsetsForGroup` (Kafka 4.3). A topic
that is named by its id must be there under that id; then comes the right to it; a commit's partitions must exist. What
is refused comes first in the answer to a commit, in that to a fetch last. In doubt nothing is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, TypeVar

from msgspec import UNSET, Struct
from msgspec.structs import replace

from group_coordinator.coordinating.gateway.topic_cache import UNKNOWN, Absent, Answers, Topic, Verdict
from schemas.error_codes import ErrorCode
from schemas.message_versions import GroupRequest
from schemas.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from schemas.offset_messages import NO_OFFSET
from schemas.transaction_messages import (
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

BY_ID_FROM = 10
"""From this version of OffsetCommit and OffsetFetch on topics have no names."""
Commit = OffsetCommitRequest | TxnOffsetCommitRequest
_Refusing = TypeVar("_Refusing", bound=OffsetCommitResponse | TxnOffsetCommitResponse | OffsetDeleteResponse)
_Named = TypeVar("_Named", OffsetCommitRequestTopic, OffsetFetchRequestTopic)
CodeOf = Callable[[int], ErrorCode]
"""Partition -> why it is refused; NONE: it goes on."""


class Rules(Struct, frozen=True, kw_only=True):
    """What decides about topics."""

    topics: Answers = {}
    """What the brokers say of those that were asked for."""
    refuses: Callable[[str], bool] = lambda _: False
    """Whether the client may not name a topic."""
    by_id: bool = False
    """Whether the request names topics by their ids."""

    def of_topic(self, name: str, topic_id: str | None) -> ErrorCode:
        """Return why the whole topic is refused."""
        verdict = self.topics.get(name, UNKNOWN)
        is_another = isinstance(verdict, Topic) and verdict.topic_id not in (None, topic_id)
        if self.by_id and (not name or is_another or isinstance(verdict, Absent)):
            return ErrorCode.UNKNOWN_TOPIC_ID
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED if self.refuses(name) else ErrorCode.NONE

    def of_partitions(self, name: str, topic_id: str | None) -> CodeOf:
        """Return what says why a partition for which something is committed is refused."""
        code = self.of_topic(name, topic_id)
        verdict = self.topics.get(name, UNKNOWN)
        if code or not isinstance(verdict, Topic | Absent):
            return lambda _: code
        count = verdict.partitions if isinstance(verdict, Topic) else 0
        return lambda index: ErrorCode.NONE if 0 <= index < count else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# ------------------------------------------------------------------------------------------------------------- commits


def split_commit(request: Commit, rules: Rules) -> tuple[Commit, OffsetCommitResponse | TxnOffsetCommitResponse]:
    """Return what the coordinator is asked, with the ids that topics have, and the answer to what is refused."""
    passed: list[Any] = []
    refused: list[Any] = []
    for topic in request.topics:
        code_of = rules.of_partitions(topic.name, topic.topic_id)
        pairs = [(partition, code_of(partition.partition_index)) for partition in topic.partitions]
        admitted = tuple([partition for partition, code in pairs if not code])
        if admitted:
            verdict = rules.topics.get(topic.name)
            topic_id = verdict.topic_id if isinstance(verdict, Topic) else topic.topic_id
            passed.append(replace(topic, topic_id=topic_id, partitions=admitted))
        denied = [(partition.partition_index, code) for partition, code in pairs if code]
        if denied and isinstance(request, OffsetCommitRequest):
            partitions = tuple([OffsetCommitResponsePartition(*pair) for pair in denied])
            refused.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
        elif denied:
            pending = tuple([TxnOffsetCommitResponsePartition(*pair) for pair in denied])
            refused.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=pending))
    empty = OffsetCommitResponse() if isinstance(request, OffsetCommitRequest) else TxnOffsetCommitResponse()
    return replace(request, topics=tuple(passed)), with_refused(replace(empty, topics=tuple(refused)), empty, rules)


def split_delete(request: OffsetDeleteRequest, rules: Rules) -> tuple[OffsetDeleteRequest, OffsetDeleteResponse]:
    """The same for a deletion of offsets, which goes on in any case. That the topic exists is not asked for: whoever
    cleans up behind topics that are gone needs this request."""
    passed: list[OffsetDeleteRequestTopic] = []
    refused: list[OffsetDeleteResponseTopic] = []
    for topic in request.topics:
        code = rules.of_topic(topic.name, None)
        if not code:
            passed.append(topic)
            continue
        partitions = [
            OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions
        ]
        refused.append(OffsetDeleteResponseTopic(name=topic.name, partitions=tuple(partitions)))
    return replace(request, topics=tuple(passed)), OffsetDeleteResponse(topics=tuple(refused))


def with_refused(refused: _Refusing, answer: _Refusing, rules: Rules) -> _Refusing:
    """Return the broker's answer: what it has refused, and the coordinator's, with one entry for each topic."""
    if not refused.topics:
        return answer
    key_of = attrgetter("topic_id" if rules.by_id else "name")
    by_topic: dict[object, list[Any]] = {}
    for topic in (*refused.topics, *answer.topics):
        by_topic.setdefault(key_of(topic), []).append(topic)
    topics = [
        replace(entries[0], partitions=tuple([each for entry in entries for each in entry.partitions]))
        for entries in by_topic.values()
    ]
    return replace(answer, topics=tuple(topics))


# ------------------------------------------------------------------------------------------------------------- fetches


def split_fetch(
    group: OffsetFetchRequestGroup, rules: Rules
) -> tuple[OffsetFetchRequestGroup, tuple[OffsetFetchResponseTopic, ...]]:
    """Return what the coordinator is asked of a group, and what is refused. It is asked in any case."""
    passed: list[OffsetFetchRequestTopic] = []
    refused: list[OffsetFetchResponseTopic] = []
    for topic in group.topics or ():
        code = rules.of_topic(topic.name, topic.topic_id)
        if not code:
            passed.append(topic)
            continue
        partitions = [
            OffsetFetchResponsePartition(partition_index=index, error_code=code) for index in topic.partition_indexes
        ]
        refused.append(
            OffsetFetchResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=tuple(partitions))
        )
    return group if group.topics is None else replace(group, topics=tuple(passed)), tuple(refused)


def with_offsets(answer: OffsetFetchResponseGroup) -> list[str]:
    """Return the topics of which an answer has offsets: brokers must be asked whether they are still there."""
    return [
        topic.name for topic in answer.topics if any(each.committed_offset != NO_OFFSET for each in topic.partitions)
    ]


def without_gone(
    answer: OffsetFetchResponseGroup, topics: Answers, *, all_topics: bool
) -> tuple[OffsetFetchResponseGroup, dict[str, set[str]]]:
    """Return the answer without the offsets of topics that are not there any more, or not under the id for which they
    were committed; and, by name, these ids. `all_topics`: an answer to a fetch of all topics does not name them."""
    past_ids: dict[str, set[str]] = {}
    shown_topics: list[OffsetFetchResponseTopic] = []
    for topic in answer.topics:
        verdict = topics.get(topic.name, UNKNOWN)
        partitions: list[OffsetFetchResponsePartition] = []
        for each in topic.partitions:
            is_gone = each.committed_offset != NO_OFFSET and _is_gone(verdict, each)
            if is_gone and each.committed_topic_id is not UNSET:
                past_ids.setdefault(topic.name, set()).add(each.committed_topic_id)
            if not is_gone:
                partitions.append(each)
            elif not all_topics:
                partitions.append(OffsetFetchResponsePartition(partition_index=each.partition_index))
        if partitions or not all_topics:
            shown_topics.append(replace(topic, partitions=tuple(partitions)))
    return replace(answer, topics=tuple(shown_topics)), past_ids


def _is_gone(verdict: Verdict, committed: OffsetFetchResponsePartition) -> bool:
    if isinstance(verdict, Absent):
        return True
    if not isinstance(verdict, Topic) or verdict.topic_id is None or verdict.is_doubtful:
        return False
    return committed.committed_topic_id not in (UNSET, verdict.topic_id)


def without_id(answer: OffsetFetchResponseGroup, rules: Rules) -> list[str]:
    """Return the topics of a fetch of all for which brokers must be asked: an answer by ids cannot name them."""
    return [topic.name for topic in answer.topics if rules.by_id and topic.topic_id is None]


def shown(answer: OffsetFetchResponseGroup, rules: Rules) -> OffsetFetchResponseGroup:
    """Return the answer to a fetch of all topics without those that the client may not see, and, by ids, those that
    have none."""
    topics: list[OffsetFetchResponseTopic] = []
    for topic in answer.topics:
        verdict = rules.topics.get(topic.name)
        topic_id = verdict.topic_id if topic.topic_id is None and isinstance(verdict, Topic) else topic.topic_id
        if not rules.refuses(topic.name) and not (rules.by_id and topic_id is None):
            topics.append(replace(topic, topic_id=topic_id))
    return replace(answer, topics=tuple(topics))


# --------------------------------------------------------------------------------------------------- names for the ids


def ids_in(request: GroupRequest) -> dict[str, None]:
    """Return the ids of topics that a request names by nothing else."""
    return {topic.topic_id: None for topic in _topics(request) if topic.topic_id is not None and not topic.name}


def with_names(request: GroupRequest, names: Mapping[str, str | None]) -> GroupRequest:
    """Return the request with the names of its topics. One that has none keeps an empty name."""
    if isinstance(request, OffsetCommitRequest):
        return replace(request, topics=_named(request.topics, names))
    if isinstance(request, OffsetFetchRequest):
        groups = [
            group if group.topics is None else replace(group, topics=_named(group.topics, names))
            for group in request.groups
        ]
        return replace(request, groups=tuple(groups))
    return request


def _topics(request: GroupRequest) -> list[OffsetCommitRequestTopic | OffsetFetchRequestTopic]:
    if isinstance(request, OffsetCommitRequest):
        return list(request.topics)
    if isinstance(request, OffsetFetchRequest):
        return [topic for group in request.groups for topic in group.topics or ()]
    return []


def _named(topics: tuple[_Named, ...], names: Mapping[str, str | None]) -> tuple[_Named, ...]:
    return tuple([replace(topic, name=names.get(topic.topic_id or "") or topic.name) for topic in topics])
