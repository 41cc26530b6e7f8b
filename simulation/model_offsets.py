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
    OffsetFetchRequestGroup,
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
from simulation.model_consumer_group import ConsumerModelGroup, is_native
from simulation.model_group import ModelError, ModelGroup, ModelLife, Stored
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
                if self.is_too_long(metadata):
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

    def has_room(self, group: ModelLife, topic: str, partition: int, metadata: str) -> bool:
        """Return whether the group's offsets may be as large as this one makes them; an offset that makes them no
        larger always fits."""
        after = {key: stored.value.metadata for key, stored in group.offsets.items()} | {(topic, partition): metadata}
        size = _bytes_of(self.group_id, after)
        if size <= self.config.group_offsets_max_bytes:
            return True
        return size <= _bytes_of(self.group_id, {key: stored.value.metadata for key, stored in group.offsets.items()})

    def committer(self, event: RequestEvent, request: OffsetCommitRequest) -> ModelLife:
        """Return the group for a commit, if this member may commit."""
        generation = request.generation_id_or_member_epoch
        if self.consumer is not None and not self.consumer.is_removed:
            self.require_commit_epoch(self.consumer, event, request)
            return self.consumer
        if self.group is None:
            if generation >= 0:
                raise ModelError(
                    ErrorCode.GROUP_ID_NOT_FOUND if event.envelope.api_version >= 9 else ErrorCode.ILLEGAL_GENERATION
                )
            group, before = ModelGroup.begin(event, self.first_topics), self.consumer
            if before is not None:
                group = ModelGroup(now_ms=before.now_ms, since_ms=before.now_ms, checked_ms=before.checked_ms)
                group.take_over(before, ())
            self.group, self.consumer = group, None
            return group
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

    def require_commit_epoch(
        self, group: ConsumerModelGroup, event: RequestEvent, request: OffsetCommitRequest
    ) -> None:
        """A member commits with its epoch, or with an older one what it has had since then. It renews no session."""
        epoch = request.generation_id_or_member_epoch
        if epoch < 0 and not group.members:
            return
        member = group.members.get(request.member_id)
        if member is None:
            raise ModelError(ErrorCode.UNKNOWN_MEMBER_ID)
        if is_native(member) and event.envelope.api_version < 9:
            raise ModelError(ErrorCode.UNSUPPORTED_VERSION)
        holding = member.holding
        had_since = {**holding.pending, **holding.assigned}
        committed = [
            (topic.topic_id or self.id_of(topic.name), partition.partition_index)
            for topic in request.topics
            for partition in topic.partitions
            if not self.is_too_long(partition.committed_metadata)
        ]
        is_good = epoch == holding.epoch or (
            epoch < holding.epoch and all(key in had_since and epoch >= had_since[key] for key in committed)
        )
        if not is_good:
            raise ModelError(stale_code(group, request.member_id))

    def require_fetch_epoch(self, group: ConsumerModelGroup, asked: OffsetFetchRequestGroup) -> None:
        if asked.member_id is None and asked.member_epoch < 0:
            return
        if asked.member_id is None:
            raise ModelError(ErrorCode.UNKNOWN_SERVER_ERROR)
        member = group.members.get(asked.member_id)
        if member is None:
            raise ModelError(ErrorCode.UNKNOWN_MEMBER_ID)
        if asked.member_epoch != member.holding.epoch:
            raise ModelError(stale_code(group, asked.member_id))

    def id_of(self, topic: str) -> str | None:
        """Return the id of a topic, if the group knows it."""
        known = self.life.known.get(topic) if self.life is not None else None
        return None if known is None else known.topic_id

    def is_too_long(self, metadata: str | None) -> bool:
        return len((metadata or "").encode("utf-16-be")) // 2 > self.config.offset_metadata_max_bytes

    # --------------------------------------------------------------------------------------- OffsetFetch, OffsetDelete

    def offset_fetch(self, event: RequestEvent, request: OffsetFetchRequest) -> OffsetFetchResponse:
        (request_group,) = request.groups
        life = None if self.is_removed and request.require_stable else self.life
        if isinstance(life, ConsumerModelGroup):
            self.require_fetch_epoch(life, request_group)
        stored = life.offsets if life is not None else {}
        request_topics = request_group.topics
        if request_topics is None:
            names = sorted({topic for topic, _ in stored})
            request_topics = tuple(
                OffsetFetchRequestTopic(
                    name=name,
                    topic_id=self.id_of(name),
                    partition_indexes=tuple(sorted(p for topic, p in stored if topic == name)),
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
        group = self.life
        if group is None or self.is_removed:
            raise ModelError(ErrorCode.GROUP_ID_NOT_FOUND)
        if self.group is not None and self.group.state != "Empty" and self.group.protocol_type != "consumer":
            raise ModelError(ErrorCode.NON_EMPTY_GROUP)
        topics = []
        for topic in request.topics:
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if self.is_subscribed(topic.name) else ErrorCode.NONE
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

    def forget(self, group: ModelLife, topic: str, partition: int) -> None:
        del group.offsets[topic, partition]
        self.log(group, encode_key(OffsetCommitKey(self.group_id, topic, partition)), None)

    # --------------------------------------------------------------------------------------------------- the whole
    # group

    def delete_groups(self, event: RequestEvent, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        group = self.life
        if group is None or self.is_removed:
            raise ModelError(ErrorCode.GROUP_ID_NOT_FOUND)
        if not self.is_empty:
            raise ModelError(ErrorCode.NON_EMPTY_GROUP)
        for topic, partition in sorted(group.offsets):
            self.forget(group, topic, partition)
        self.die()
        return DeleteGroupsResponse(results=(DeletableGroupResult(group_id=self.group_id),))

    def die(self) -> None:
        """Write the tombstones of a group without members."""
        if self.consumer is not None:
            for record in self.consumer.empty_tombstones():
                self.log(self.consumer, *record.encode(self.group_id))
        if self.group is not None:
            self.log(self.group, encode_key(GroupMetadataKey(self.group_id)), None)
        self.group = self.consumer = None

    @property
    def is_empty(self) -> bool:
        return (
            not self.consumer.members
            if self.consumer is not None
            else self.group is None or self.group.state == "Empty"
        )

    def is_subscribed(self, topic: str) -> bool:
        if self.consumer is not None:
            return topic in self.consumer.subscribed()
        return self.group is not None and self.group.subscribed_to(topic)

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

    def check_retention(self, group: ModelLife, check_ms: int) -> None:
        """Run the check that Kafka makes over all groups at every interval."""
        group.now_ms = max(group.now_ms, check_ms)
        group.checked_ms = check_ms
        for (topic, partition), offset in sorted(group.offsets.items()):
            if not self.is_subscribed(topic) and self.is_over(offset):
                self.forget(group, topic, partition)
        if not group.offsets and self.is_empty:
            self.die()

    def is_over(self, offset: Stored) -> bool:
        group = self.group
        if group is None:
            assert self.consumer is not None
            base_ms, now_ms = offset.committed_ms, self.consumer.now_ms
            return now_ms >= (
                base_ms + self.config.offsets_retention_minutes * 60_000
                if offset.expires_ms is None
                else offset.expires_ms
            )
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


def stale_code(group: ConsumerModelGroup, member_id: str) -> ErrorCode:
    """Return the code for an epoch that is not the member's."""
    return ErrorCode.STALE_MEMBER_EPOCH if is_native(group.members[member_id]) else ErrorCode.ILLEGAL_GENERATION


def _bytes_of(group_id: str, metadata: dict[tuple[str, int], str]) -> int:
    """Return the size of offsets with such metadata: 100 bytes each, and their names."""
    return sum(100 + len((group_id + topic + text).encode()) for (topic, _), text in metadata.items())
