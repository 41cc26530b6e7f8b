"""What single lines of a request log tell of the cluster: topics, their ids and partitions, and groups' own settings.

Answers to Metadata describe topics; CreateTopics, CreatePartitions and DeleteTopics change them. Descriptions of
consumer groups pair names with ids, and assignments tell the least number of partitions that a topic has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Literal, TypeVar

import msgspec
from msgspec import Raw, Struct

from group_coordinator.proving.recordings.kafka_json import KafkaJsonError, topic_id_from_kafka
from schemas.error_codes import ErrorCode

METADATA, CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 3, 19, 20, 37
INCREMENTAL_ALTER_CONFIGS, CONSUMER_GROUP_HEARTBEAT, CONSUMER_GROUP_DESCRIBE = 44, 68, 69
_GROUP_RESOURCE = 32
_SET, _DELETE = 0, 1
_ABSENT = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})

Kind = Literal["there", "absent", "created", "grown", "deleted", "named", "assigned"]


class Sighting(Struct, frozen=True, kw_only=True, gc=False):
    """What one line tells of one topic."""

    kind: Kind
    name: str | None
    """None: it is named by its id alone."""
    topic_id: str | None = None
    """As text with hyphens; None: the line does not tell."""
    partitions: int = 0
    """How many there are; of one that is assigned, the least number."""
    replicas: tuple[tuple[int, ...], ...] = ()
    """The brokers of each partition, where they are told."""
    unlisted_us: int = 0
    """A list of all topics did not have it then, as an earlier line shows."""


class GroupSetting(Struct, frozen=True, kw_only=True, gc=False):
    """A setting of a group's own was changed."""

    group_id: str
    name: str
    value: str | None
    """None: it was removed."""


class ClusterLine(Struct, frozen=True, kw_only=True):
    """All that one line tells of the cluster."""

    earliest_us: int
    """When a handler took the request up."""
    latest_us: int
    """When its answer was ready."""
    sightings: tuple[Sighting, ...] = ()
    lists_all: bool = False
    """There are no other topics than these."""
    racks: tuple[tuple[int, str | None], ...] = ()
    """Brokers and their racks."""
    settings: tuple[GroupSetting, ...] = ()


class _Topic(Struct):
    name: str | None = None
    topicName: str | None = None
    topicId: str | None = None
    errorCode: int = 0


class _Partition(Struct):
    replicaNodes: tuple[int, ...] = ()


class _DescribedTopic(_Topic):
    partitions: tuple[_Partition, ...] = ()


class _Broker(Struct):
    nodeId: int
    rack: str | None = None


class _Metadata(Struct):
    brokers: tuple[_Broker, ...] = ()
    topics: tuple[_DescribedTopic, ...] = ()


class _MetadataRequest(Struct):
    topics: tuple[_Topic, ...] | None = ()


class _CreatedTopic(Struct):
    name: str
    numPartitions: int = -1
    assignments: tuple[dict[str, object], ...] = ()


class _GrownTopic(Struct):
    name: str
    count: int


class _CreateTopics(Struct):
    topics: tuple[_CreatedTopic, ...] = ()
    validateOnly: bool = False


class _CreatePartitions(Struct):
    topics: tuple[_GrownTopic, ...] = ()
    validateOnly: bool = False


class _CreatedTopicAnswer(_Topic):
    numPartitions: int = -1


class _CreateTopicsAnswer(Struct):
    topics: tuple[_CreatedTopicAnswer, ...] = ()


class _Results(Struct):
    results: tuple[_Topic, ...] = ()
    responses: tuple[_Topic, ...] = ()


class _Assigned(Struct):
    topicId: str
    topicName: str | None = None
    partitions: tuple[int, ...] = ()


class _Assignment(Struct):
    topicPartitions: tuple[_Assigned, ...] = ()


class _HeartbeatAnswer(Struct):
    assignment: _Assignment | None = None


class _DescribedMember(Struct):
    assignment: _Assignment
    targetAssignment: _Assignment


class _DescribedGroup(Struct):
    members: tuple[_DescribedMember, ...] = ()


class _DescribeAnswer(Struct):
    groups: tuple[_DescribedGroup, ...] = ()


class _Config(Struct):
    name: str
    configOperation: int = _SET
    value: str | None = None


class _Resource(Struct):
    resourceType: int
    resourceName: str
    configs: tuple[_Config, ...] = ()
    errorCode: int = 0


class _AlterConfigs(Struct):
    resources: tuple[_Resource, ...] = ()
    responses: tuple[_Resource, ...] = ()
    validateOnly: bool = False


_Read = TypeVar("_Read")


def cluster_line(api_key: int, request: Raw, response: Raw, earliest_us: int, latest_us: int) -> ClusterLine | None:
    """Return what a request and its answer tell of the cluster; None if that is nothing, or they cannot be read."""
    racks: tuple[tuple[int, str | None], ...] = ()
    sightings: Iterator[Sighting] = iter(())
    settings: Iterator[GroupSetting] = iter(())
    lists_all = False
    try:
        if api_key == METADATA:
            metadata = _read(response, _Metadata)
            # A broker that has just started knows no topics yet, and not even itself.
            knows_cluster = bool(metadata.brokers)
            racks = tuple((broker.nodeId, broker.rack) for broker in metadata.brokers)
            sightings = _seen(metadata) if knows_cluster else iter(())
            lists_all = knows_cluster and _read(request, _MetadataRequest).topics is None
        elif api_key == CREATE_TOPICS:
            sightings = _created(_read(request, _CreateTopics), _read(response, _CreateTopicsAnswer))
        elif api_key == CREATE_PARTITIONS:
            sightings = _grown(_read(request, _CreatePartitions), _read(response, _Results))
        elif api_key == DELETE_TOPICS:
            sightings = _deleted(_read(response, _Results))
        elif api_key == CONSUMER_GROUP_HEARTBEAT:
            assignment = _read(response, _HeartbeatAnswer).assignment
            sightings = iter(()) if assignment is None else _assigned(assignment)
        elif api_key == CONSUMER_GROUP_DESCRIBE:
            sightings = _described(_read(response, _DescribeAnswer))
        elif api_key == INCREMENTAL_ALTER_CONFIGS:
            settings = _altered(_read(request, _AlterConfigs), _read(response, _AlterConfigs))
        else:
            return None
        line = ClusterLine(
            earliest_us=earliest_us,
            latest_us=latest_us,
            sightings=tuple(sightings),
            lists_all=lists_all,
            racks=racks,
            settings=tuple(settings),
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return line if line.sightings or line.racks or line.settings or lists_all else None


def _read(body: Raw, kind: type[_Read]) -> _Read:
    return msgspec.json.decode(body, type=kind)


def _id(text: str | None) -> str | None:
    if text is not None:
        with suppress(KafkaJsonError):
            return topic_id_from_kafka(text)
    return None


def _seen(metadata: _Metadata) -> Iterator[Sighting]:
    for topic in metadata.topics:
        topic_id = _id(topic.topicId)
        if topic.name is None:
            continue
        if topic.errorCode == ErrorCode.NONE and topic_id is not None:
            replicas = tuple(partition.replicaNodes for partition in topic.partitions)
            yield Sighting(
                kind="there", name=topic.name, topic_id=topic_id, partitions=len(replicas), replicas=replicas
            )
        elif topic.errorCode in _ABSENT:
            yield Sighting(kind="absent", name=topic.name)


def _created(request: _CreateTopics, answer: _CreateTopicsAnswer) -> Iterator[Sighting]:
    asked = {topic.name: topic for topic in request.topics}
    for topic in () if request.validateOnly else answer.topics:
        wanted = asked.get(topic.name or "")
        if topic.errorCode == ErrorCode.NONE and wanted is not None:
            counts = topic.numPartitions, wanted.numPartitions, len(wanted.assignments)
            yield Sighting(
                kind="created",
                name=topic.name,
                topic_id=_id(topic.topicId),
                partitions=next((count for count in counts if count > 0), 0),
            )


def _grown(request: _CreatePartitions, answer: _Results) -> Iterator[Sighting]:
    counts = {topic.name: topic.count for topic in request.topics}
    for topic in () if request.validateOnly else answer.results:
        if topic.errorCode == ErrorCode.NONE and topic.name in counts:
            yield Sighting(kind="grown", name=topic.name, partitions=counts[topic.name])


def _deleted(answer: _Results) -> Iterator[Sighting]:
    for topic in answer.responses:
        topic_id = _id(topic.topicId)
        if topic.errorCode == ErrorCode.NONE and (topic.name is not None or topic_id is not None):
            yield Sighting(kind="deleted", name=topic.name, topic_id=topic_id)


def _assigned(assignment: _Assignment) -> Iterator[Sighting]:
    for topic in assignment.topicPartitions:
        topic_id = _id(topic.topicId)
        if topic_id is not None and topic.partitions:
            kind: Kind = "assigned" if topic.topicName is None else "named"
            yield Sighting(
                kind=kind, name=topic.topicName, topic_id=topic_id, partitions=max(topic.partitions) + 1
            )


def _described(answer: _DescribeAnswer) -> Iterator[Sighting]:
    for group in answer.groups:
        for member in group.members:
            yield from _assigned(member.assignment)
            yield from _assigned(member.targetAssignment)


def _altered(request: _AlterConfigs, answer: _AlterConfigs) -> Iterator[GroupSetting]:
    taken = {
        resource.resourceName
        for resource in answer.responses
        if resource.resourceType == _GROUP_RESOURCE and resource.errorCode == ErrorCode.NONE
    }
    for resource in () if request.validateOnly else request.resources:
        if resource.resourceType == _GROUP_RESOURCE and resource.resourceName in taken:
            for config in resource.configs:
                if config.configOperation in (_SET, _DELETE):
                    value = config.value if config.configOperation == _SET else None
                    yield GroupSetting(group_id=resource.resourceName, name=config.name, value=value)
