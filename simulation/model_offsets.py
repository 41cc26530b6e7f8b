"""The model's offsets and administration: commits, fetches, deletions, descriptions, and the retention check."""

from __future__ import annotations

from coordinator_state.outputs import RequestEvent
from schemas.error_codes import ErrorCode
from schemas.java_hash import group_partition
from schemas.messages import (
    Coordinator,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from schemas.records import (
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_offset_commit_value,
)
from simulation.model_group import ModelError, ModelGroup, Stored
from simulation.model_requests import MembershipRequests


class OffsetRequests(MembershipRequests):
    """The model's handling of offsets and of the group as a whole."""

    # ---------------------------------------------------------------------------------------------------- OffsetCommit

    def offset_commit(self, event: RequestEvent, request: OffsetCommitRequest) -> OffsetCommitResponse:
        if not request.topics:
            return OffsetCommitResponse()
        group = self.committer(event, request)
        topics = []
        for topic in request.topics:
            partitions = []
            for partition in topic.partitions:
                metadata = partition.committed_metadata or ""
                code = ErrorCode.NONE
                if len(metadata.encode("utf-16-be")) // 2 > self.config.offset_metadata_max_bytes:
                    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                elif not self.has_room(group, topic.name, partition.partition_index, metadata):
                    code = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
                else:
                    expires_ms = None
                    if event.envelope.api_version <= 4 and request.retention_time_ms != -1:
                        expires_ms = group.now_ms + request.retention_time_ms
                    value = OffsetCommitValue(
                        offset=partition.committed_offset,
                        leader_epoch=partition.committed_leader_epoch,
                        metadata=metadata,
                        commit_timestamp_ms=event.timestamp_ms,
                        expire_timestamp_ms=-1 if expires_ms is None else expires_ms,
                        topic_id=topic.topic_id,
                    )
                    key = OffsetCommitKey(self.group_id, topic.name, partition.partition_index)
                    version = self.config.offset_commit_value_version
                    self.log(group, encode_key(key), encode_offset_commit_value(value, version))
                    group.offsets[topic.name, partition.partition_index] = Stored(value, group.now_ms, expires_ms)
                partitions.append(
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                )
            topics.append(
                OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=tuple(partitions))
            )
        return OffsetCommitResponse(topics=tuple(topics))

    def has_room(self, group: ModelGroup, topic: str, partition: int, metadata: str) -> bool:
        """Return whether the group's offsets may be as large as this one makes them; an offset that makes them no
        larger always fits."""
        after = {key: stored.value.metadata for key, stored in group.offsets.items()} | {(topic, partition): metadata}
        size = _bytes_of(self.group_id, after)
        if size <= self.config.group_offsets_max_bytes:
            return True
        return size <= _bytes_of(self.group_id, {key: stored.value.metadata for key, stored in group.offsets.items()})

    def committer(self, event: RequestEvent, request: OffsetCommitRequest) -> ModelGroup:
        """Return the group for a commit, if this member may commit."""
        generation = request.generation_id_or_member_epoch
        if self.group is None:
            if generation >= 0:
                raise ModelError(
                    ErrorCode.GROUP_ID_NOT_FOUND if event.envelope.api_version >= 9 else ErrorCode.ILLEGAL_GENERATION
                )
            self.group = ModelGroup.begin(event)
            return self.group
        if generation < 0 and self.group.state == "Empty":
            return self.group
        if generation < 0 and not request.member_id and request.group_instance_id is None:
            raise ModelError(ErrorCode.UNKNOWN_MEMBER_ID)
        group, member = self.validate(self.group, request.member_id, request.group_instance_id)
        if generation != group.generation:
            raise ModelError(ErrorCode.ILLEGAL_GENERATION)
        if group.state == "CompletingRebalance":
            raise ModelError(ErrorCode.REBALANCE_IN_PROGRESS)
        self.arm(group, "session", member.session_ms, member.member_id)
        return group

    # --------------------------------------------------------------------------------------- OffsetFetch, OffsetDelete

    def offset_fetch(self, event: RequestEvent, request: OffsetFetchRequest) -> OffsetFetchResponse:
        (request_group,) = request.groups
        stored = self.group.offsets if self.group is not None else {}
        request_topics = request_group.topics
        if request_topics is None:
            names = sorted({topic for topic, _ in stored})
            request_topics = tuple(
                OffsetFetchRequestTopic(
                    name=name, partition_indexes=tuple(sorted(p for topic, p in stored if topic == name))
                )
                for name in names
            )
        topics = []
        for topic in request_topics:
            partitions = []
            for index in topic.partition_indexes:
                stored_offset = stored.get((topic.name, index))
                partition = OffsetFetchResponsePartition(partition_index=index)
                if stored_offset is not None:
                    partition = OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=stored_offset.value.offset,
                        committed_leader_epoch=stored_offset.value.leader_epoch,
                        metadata=stored_offset.value.metadata,
                    )
                partitions.append(partition)
            topics.append(
                OffsetFetchResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=tuple(partitions))
            )
        return OffsetFetchResponse(
            groups=(OffsetFetchResponseGroup(group_id=request_group.group_id, topics=tuple(topics)),)
        )

    def offset_delete(self, event: RequestEvent, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        self.require_group_id()
        group = self.group
        if group is None:
            raise ModelError(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state != "Empty" and group.protocol_type != "consumer":
            raise ModelError(ErrorCode.NON_EMPTY_GROUP)
        topics = []
        for topic in request.topics:
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.subscribed_to(topic.name) else ErrorCode.NONE
            for partition in topic.partitions if code is ErrorCode.NONE else ():
                if (topic.name, partition.partition_index) in group.offsets:
                    self.forget(group, topic.name, partition.partition_index)
            topics.append(
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=tuple(
                        OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=code)
                        for partition in topic.partitions
                    ),
                )
            )
        return OffsetDeleteResponse(topics=tuple(topics))

    def forget(self, group: ModelGroup, topic: str, partition: int) -> None:
        del group.offsets[topic, partition]
        self.log(group, encode_key(OffsetCommitKey(self.group_id, topic, partition)), None)

    # --------------------------------------------------------------------------------------------------- the whole
    # group

    def delete_groups(self, event: RequestEvent, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        group = self.group
        if group is None:
            raise ModelError(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state != "Empty":
            raise ModelError(ErrorCode.NON_EMPTY_GROUP)
        for topic, partition in sorted(group.offsets):
            self.forget(group, topic, partition)
        self.die(group)
        return DeleteGroupsResponse(results=(DeletableGroupResult(group_id=self.group_id),))

    def die(self, group: ModelGroup) -> None:
        self.log(group, encode_key(GroupMetadataKey(self.group_id)), None)
        self.group = None

    def describe_groups(self, event: RequestEvent, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        group = self.group
        if group is None or not group.in_log:
            described = DescribedGroup(group_id=self.group_id, group_state="Dead")
            if event.envelope.api_version >= 6:
                described = DescribedGroup(
                    error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                    error_message=f"Group {self.group_id} not found.",
                    group_id=self.group_id,
                    group_state="Dead",
                )
            return DescribeGroupsResponse(groups=(described,))
        stable = group.state == "Stable"
        members = tuple(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol) if stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members
        )
        described = DescribedGroup(
            group_id=self.group_id,
            group_state=group.state,
            protocol_type=group.protocol_type or "",
            protocol_data=group.protocol or "" if stable else "",
            members=members,
        )
        return DescribeGroupsResponse(groups=(described,))

    def find_coordinator(self, event: RequestEvent, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        if request.key_type != 0:
            raise ModelError(ErrorCode.INVALID_REQUEST)
        shard = group_partition(self.group_id, self.config.shard_count)
        return FindCoordinatorResponse(coordinators=(Coordinator(key=self.group_id, node_id=shard),))

    # ------------------------------------------------------------------------------------------------------ retention

    def check_retention(self, group: ModelGroup, check_ms: int) -> None:
        """Run the check that Kafka makes over all groups at every interval."""
        group.now_ms = max(group.now_ms, check_ms)
        group.checked_ms = check_ms
        for (topic, partition), offset in sorted(group.offsets.items()):
            if not group.subscribed_to(topic) and self.is_over(group, offset):
                self.forget(group, topic, partition)
        if not group.offsets and group.state == "Empty":
            self.die(group)

    def is_over(self, group: ModelGroup, offset: Stored) -> bool:
        if group.protocol_type is None:
            base_ms = offset.committed_ms
        elif group.state == "Empty":
            base_ms = group.since_ms
        elif group.protocol_type == "consumer" and group.state == "Stable" and group.topics is not None:
            base_ms = offset.committed_ms
        else:
            return False
        if offset.expires_ms is not None:
            return group.now_ms >= offset.expires_ms
        return group.now_ms - base_ms >= self.config.offsets_retention_minutes * 60_000


def _bytes_of(group_id: str, metadata: dict[tuple[str, int], str]) -> int:
    """Return the size of offsets with such metadata: 100 bytes each, and their names."""
    return sum(100 + len((group_id + topic + text).encode()) for (topic, _), text in metadata.items())
