"""What a group is told besides requests: topics that matter to it, settings of its own, how transactions ended.

A request log has no lines of these for the group; the story of the cluster that its lines tell (`cluster_topics`) has.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice, takewhile

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from coordinator_state.consumer_settings import REGEX_REFRESH_MIN_INTERVAL_MS
from group_coordinator.proving.recordings.cluster_lines import GroupSetting
from group_coordinator.proving.recordings.cluster_topics import LoggedTopics, names_of
from group_coordinator.proving.recordings.expectations import CLOCK_MS, Fact, Load, Resolution
from group_coordinator.proving.recordings.group_requests import GroupRequest
from group_coordinator.proving.recordings.offsets_log import LoggedRecord
from group_coordinator.proving.recordings.transaction_ends import TransactionEnd
from group_coordinator.watching.observed.offsets_log import LogRecord
from schemas.consumer_group_messages import JOIN_EPOCH, ConsumerGroupHeartbeatRequest
from schemas.consumer_group_records import REGULAR_EXPRESSION_TYPE, TARGET_METADATA_TYPE
from schemas.consumer_protocol import decode_subscription
from schemas.error_codes import ErrorCode
from schemas.events import DeletedTopic, TopicsDeleted
from schemas.group_metadata_events import DescribedTopic, GroupConfiguration, RegexesResolved, TopicMetadata
from schemas.messages import JoinGroupRequest, OffsetCommitRequest, TxnOffsetCommitRequest
from schemas.topic_regexes import InvalidTopicRegex, matching_topics
from schemas.wire import INT16, DecodeError

_CONSUMER = "consumer"
_FIRST_VERSION = 1
_REGEX_PREFIX, _TARGET_PREFIX = INT16.pack(REGULAR_EXPRESSION_TYPE), INT16.pack(TARGET_METADATA_TYPE)
_SETTINGS = {name.replace("_", "."): name for name in GroupConfiguration.__struct_fields__}


class _Interests(Struct):
    """The topics that matter to a group."""

    subscribed: set[str]
    committed: set[str]
    regexes: set[str]
    has_native_members: bool


def facts_of(
    requests: Sequence[GroupRequest], cluster: LoggedTopics, ends: Iterable[TransactionEnd], interval_ms: int
) -> list[Fact]:
    """Return all that a group is told, in the order of time. `requests`: all that reached it; `interval_ms`: of the
    heartbeats of groups that have no settings of their own."""
    facts = [Fact(end.at_us, end.earliest_us, end.ended) for end in ends]
    interests = _interests(requests)
    facts += _topic_facts(cluster, interests)
    if interests.has_native_members:
        group_id = requests[0].group_id
        own_settings = [of_group for of_group in cluster.settings if of_group[1].group_id == group_id]
        facts += _configurations(own_settings) if own_settings else _intervals(requests, interval_ms)
    return sorted(facts, key=lambda fact: fact.at_us)


def _interests(requests: Iterable[GroupRequest]) -> _Interests:
    interests = _Interests(set(), set(), set(), False)
    for request in requests:
        body = request.request
        if isinstance(body, ConsumerGroupHeartbeatRequest):
            interests.subscribed.update(body.subscribed_topic_names or ())
            if body.subscribed_topic_regex:
                interests.regexes.add(body.subscribed_topic_regex)
            is_taken = request.response.get("errorCode") == ErrorCode.NONE
            interests.has_native_members = interests.has_native_members or is_taken
        elif isinstance(body, JoinGroupRequest) and body.protocol_type == _CONSUMER:
            for protocol in body.protocols:
                with suppress(DecodeError):
                    subscription = decode_subscription(protocol.metadata)
                    interests.subscribed.update(subscription.topics)
                    interests.subscribed.update(owned.topic for owned in subscription.owned_partitions)
        elif isinstance(body, OffsetCommitRequest | TxnOffsetCommitRequest):
            interests.committed.update(topic.name for topic in body.topics)
    return interests


def _topic_facts(cluster: LoggedTopics, interests: _Interests) -> Iterator[Fact]:
    names = interests.subscribed | interests.committed
    all_names = names_of(cluster.changes)
    for regex in interests.regexes:
        with suppress(InvalidTopicRegex):
            names.update(matching_topics(regex, all_names))
    topics: dict[str, DescribedTopic] = {}
    absent: dict[str, None] = {}
    known_ids: set[str] = set()
    new_topics_version, told = _FIRST_VERSION, False
    for version, change in enumerate(cluster.changes, _FIRST_VERSION + 1):
        is_new = change.topic is not None and change.topic.topic_id not in known_ids
        known_ids |= set() if change.topic is None else {change.topic.topic_id}
        if change.name in names:
            if change.gone_id is not None and change.name in interests.committed:
                deleted = TopicsDeleted(topics=(DeletedTopic(name=change.name, topic_id=change.gone_id),))
                yield Fact(change.at_us, change.earliest_us, deleted, change.latest_us)
            topics.pop(change.name, None)
            absent.pop(change.name, None)
            if change.topic is None:
                absent[change.name] = None
            else:
                topics[change.name] = change.topic
        elif not (is_new and interests.regexes):
            continue
        if is_new:
            new_topics_version = version
        if interests.has_native_members:
            told = True
            metadata = TopicMetadata(
                version=version,
                topics=tuple(topics.values()),
                absent=tuple(absent),
                new_topics_version=new_topics_version,
            )
            yield Fact(change.at_us, change.earliest_us, metadata, change.latest_us)
    if interests.has_native_members and not told:
        yield Fact(0, 0, TopicMetadata(version=_FIRST_VERSION, topics=()))


def _configurations(settings: Iterable[tuple[int, GroupSetting]]) -> Iterator[Fact]:
    values: dict[str, int] = {}
    for at_us, setting in settings:
        name = _SETTINGS.get(setting.name)
        if name is None:
            continue
        values.pop(name, None)
        if setting.value is not None:
            with suppress(ValueError):
                values[name] = int(setting.value)
        with suppress(msgspec.ValidationError):
            yield Fact(at_us, at_us, msgspec.convert({"type": "group_config", **values}, GroupConfiguration))


def _intervals(requests: Iterable[GroupRequest], interval_ms: int) -> Iterator[Fact]:
    """Where members are told another interval than before, the group has got a setting of its own: its line is in
    another broker's log, or older than this one."""
    for request in requests:
        told_ms = request.response.get("heartbeatIntervalMs")
        if isinstance(request.request, ConsumerGroupHeartbeatRequest) and told_ms and told_ms != interval_ms:
            interval_ms, at_us = told_ms, request.logged.handled_us
            yield Fact(at_us, at_us, GroupConfiguration(consumer_heartbeat_interval_ms=told_ms))


def with_starts(facts: Sequence[Fact], requests: Iterable[GroupRequest], loads: Iterable[Load]) -> list[Fact]:
    """Return the facts of a group with what a broker learns at its start: to it all topics are new, which matters to
    expressions."""
    has_regexes = any(getattr(request.request, "subscribed_topic_regex", None) for request in requests)
    starts_us = [load.loaded_us for load in loads if load.is_start and has_regexes]
    for start_us in starts_us:
        before = [fact.value for fact in facts if fact.at_us <= start_us and isinstance(fact.value, TopicMetadata)]
        if before:
            version = before[-1].version + 1
            started = Fact(start_us, start_us, replace(before[-1], version=version, new_topics_version=version))
            later = [_renumbered(fact) if fact.at_us > start_us else fact for fact in facts]
            facts = sorted([*later, started], key=lambda fact: fact.at_us)
    return list(facts)


def _renumbered(fact: Fact) -> Fact:
    value = fact.value
    if not isinstance(value, TopicMetadata):
        return fact
    new_topics_version = value.new_topics_version + 1
    return replace(fact, value=replace(value, version=value.version + 1, new_topics_version=new_topics_version))


def facts_between(facts: Iterable[Fact], from_us: int, until_us: int) -> list[Fact]:
    """Return the facts of a part of a group's log: of those before it, the last that still hold."""
    before: dict[type, Fact] = {}
    between: list[Fact] = []
    for fact in facts:
        if from_us < fact.at_us <= until_us:
            between.append(fact)
        elif fact.at_us <= from_us and isinstance(fact.value, TopicMetadata | GroupConfiguration):
            before[type(fact.value)] = replace(fact, at_us=from_us)
    return [*before.values(), *between]


def told_at_join(request: GroupRequest, facts: Sequence[Fact], told: int) -> TopicMetadata | None:
    """Return the topics that a heartbeat brings along, as those do that gateways take from members that join; None for
    other requests. `told`: how many of the facts are told."""
    body = request.request
    if not isinstance(body, ConsumerGroupHeartbeatRequest) or body.member_epoch != JOIN_EPOCH:
        return None
    topics = (fact.value for fact in reversed(facts[:told]) if isinstance(fact.value, TopicMetadata))
    return next(topics, None)


def resolved(
    regexes: Iterable[str], image: TopicMetadata, now_ms: int, recorded: Sequence[Resolution]
) -> RegexesResolved:
    """Return the topics that match a group's expressions: as the offsets log has it, else of those that are known.

    `now_ms`: when the group began to have them resolved.
    """
    names, began_ms = [topic.name for topic in image.topics], now_ms
    topics: dict[str, tuple[str, ...]] = {}
    for regex in sorted(regexes):
        told = next((resolution for resolution in _begun_at(now_ms, recorded) if resolution.regex == regex), None)
        topics[regex] = matching_topics(regex, names) if told is None else told.topics
        began_ms = began_ms if told is None else told.began_ms
    return RegexesResolved(version=image.version, resolved=topics, began_ms=began_ms)


def resolution_written_ms(began_ms: int, recorded: Sequence[Resolution]) -> int | None:
    """Return when the result of what a group began to have resolved was written, as the offsets log has it."""
    return next((resolution.written_ms for resolution in _begun_at(began_ms, recorded)), None)


def _begun_at(began_ms: int, recorded: Sequence[Resolution]) -> Iterator[Resolution]:
    """Yield what was begun at a time, or as much later as a busy broker may come to it: it begins no other so soon."""
    first = bisect_left(recorded, began_ms - CLOCK_MS, key=lambda resolution: resolution.began_ms)
    until_ms = began_ms + REGEX_REFRESH_MIN_INTERVAL_MS - CLOCK_MS
    return takewhile(lambda resolution: resolution.began_ms < until_ms, islice(recorded, first, None))


def assigned_ms_of(records: Iterable[LoggedRecord]) -> frozenset[int]:
    """Return when targets were assigned, as records of Kafka 4.4 tell it: one is written somewhat later."""
    entries = (record.decoded() for record in records if record.key[:2] == _TARGET_PREFIX)
    values = [entry.value or {} for entry in entries if isinstance(entry, LogRecord)]
    return frozenset(value["assignment_timestamp"] for value in values if value.get("assignment_timestamp"))


def resolutions_of(records: Iterable[LoggedRecord]) -> list[Resolution]:
    """Return how expressions were resolved, as the offsets log tells it, in the order of time."""
    entries = (record.decoded() for record in records if record.key[:2] == _REGEX_PREFIX)
    resolutions = [
        Resolution(
            entry.value["timestamp"],
            entry.key["regular_expression"],
            tuple(entry.value["topics"]),
            entry.timestamp_ms,
        )
        for entry in entries
        if isinstance(entry, LogRecord) and entry.value is not None
    ]
    return sorted(resolutions, key=lambda resolution: resolution.began_ms)
