"""What a broker does with the topics of a request about offsets before and after its coordinator is asked. Pure.

Source: `KafkaApis.handleOffsetCommitRequest`, `fetchOffsetsForGroup`, `fetchAllOffsetsForGroup` (Kafka 4.3). A topic
that is named by its id must be there under that id; then comes the right to it; a commit's partitions must exist. What
is refused comes first in the answer to a commit, in that to a fetch last. In doubt nothing is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

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
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

BY_ID_FROM = 10
"""From this version of OffsetCommit and OffsetFetch on topics have no names."""
_Answered = TypeVar(
    "_Answered", OffsetCommitResponseTopic, OffsetDeleteResponseTopic, TxnOffsetCommitResponseTopic
)
_Committed = TypeVar("_Committed", OffsetCommitRequestTopic, TxnOffsetCommitRequestTopic)
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


def split_commit(
    request: OffsetCommitRequest, rules: Rules
) -> tuple[OffsetCommitRequest, tuple[OffsetCommitResponseTopic, ...]]:
    """Return what the coordinator is asked, with the ids that topics have, and what is refused."""
    passed, denied = _split(request.topics, rules)
    refused = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple([OffsetCommitResponsePartition(index, code) for index, code in codes]),
        )
        for topic, codes in denied
    ]
    return replace(request, topics=passed), _merged((), tuple(refused), _key_of(rules))


def split_pending(
    request: TxnOffsetCommitRequest, rules: Rules
) -> tuple[TxnOffsetCommitRequest, tuple[TxnOffsetCommitResponseTopic, ...]]:
    """The same for a commit in a transaction."""
    passed, denied = _split(request.topics, rules)
    refused = [
        TxnOffsetCommitResponseTopic(
            name=topic.name, partitions=tuple([TxnOffsetCommitResponsePartition(index, code) for index, code in codes])
        )
        for topic, codes in denied
    ]
    return replace(request, topics=passed), _merged((), tuple(refused), lambda topic: topic.name)


def _split(
    topics: tuple[_Committed, ...], rules: Rules
) -> tuple[tuple[_Committed, ...], list[tuple[_Committed, list[tuple[int, ErrorCode]]]]]:
    """Return the topics as far as they are admitted, and of the others each partition with the code that refuses it."""
    passed: list[_Committed] = []
    refused: list[tuple[_Committed, list[tuple[int, ErrorCode]]]] = []
    for topic in topics:
        code_of = rules.of_partitions(topic.name, topic.topic_id)
        codes = [code_of(partition.partition_index) for partition in topic.partitions]
        pairs = tuple(zip(topic.partitions, codes, strict=True))
        admitted = tuple([partition for partition, code in pairs if not code])
        if admitted:
            verdict = rules.topics.get(topic.name)
            topic_id = verdict.topic_id if isinstance(verdict, Topic) else topic.topic_id
            passed.append(replace(topic, topic_id=topic_id, partitions=admitted))
        denied = [(each.partition_index, code) for each, code in pairs if code]
        if denied:
            refused.append((topic, denied))
    return tuple(passed), refused


def commit_answer(
    refused: tuple[OffsetCommitResponseTopic, ...], answer: OffsetCommitResponse, rules: Rules
) -> OffsetCommitResponse:
    """Return the broker's answer: what it has refused, and the coordinator's."""
    return replace(answer, topics=_merged(refused, answer.topics, _key_of(rules))) if refused else answer


def pending_answer(
    refused: tuple[TxnOffsetCommitResponseTopic, ...], answer: TxnOffsetCommitResponse
) -> TxnOffsetCommitResponse:
    """The same for a commit in a transaction."""
    return replace(answer, topics=_merged(refused, answer.topics, lambda topic: topic.name)) if refused else answer


def _merged(
    first: tuple[_Answered, ...], others: tuple[_Answered, ...], key: Callable[[_Answered], object]
) -> tuple[_Answered, ...]:
    """Return the answers with one for each topic."""
    by_topic: dict[object, list[_Answered]] = {}
    for topic in first + others:
        by_topic.setdefault(key(topic), []).append(topic)
    return tuple(
        [
            replace(topics[0], partitions=tuple([each for topic in topics for each in topic.partitions]))
            for topics in by_topic.values()
        ]
    )


def _key_of(rules: Rules) -> Callable[[OffsetCommitResponseTopic], object]:
    return lambda topic: topic.topic_id if rules.by_id else topic.name


def split_delete(
    request: OffsetDeleteRequest, rules: Rules
) -> tuple[OffsetDeleteRequest, tuple[OffsetDeleteResponseTopic, ...]]:
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
    return replace(request, topics=tuple(passed)), tuple(refused)


def delete_answer(
    refused: tuple[OffsetDeleteResponseTopic, ...], answer: OffsetDeleteResponse
) -> OffsetDeleteResponse:
    """The same for a deletion of offsets."""
    if answer.error_code or not refused:
        return answer
    return replace(answer, topics=_merged(refused, answer.topics, lambda topic: topic.name))


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
