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
from simulation.model_life import Life, No, Stored
from simulation.model_requests import MembershipRequests


class OffsetRequests(MembershipRequests):
    """What the model does with offsets and with the group as a whole."""

    # ---------------------------------------------------------------------------------------------------- OffsetCommit

    def offset_commit(self, event: RequestEvent, request: OffsetCommitRequest) -> OffsetCommitResponse:
        if not request.topics:
            return OffsetCommitResponse()
        life = self.committer(event, request)
        topics = []
        for topic in request.topics:
            partitions = []
            for asked in topic.partitions:
                metadata = asked.committed_metadata or ""
                code = ErrorCode.NONE
                if len(metadata.encode("utf-16-be")) // 2 > self.config.offset_metadata_max_bytes:
                    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                elif not self.has_room(life, topic.name, asked.partition_index, metadata):
                    code = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
                else:
                    expires_ms = None
                    if event.envelope.api_version <= 4 and request.retention_time_ms != -1:
                        expires_ms = life.now_ms + request.retention_time_ms
                    value = OffsetCommitValue(
                        offset=asked.committed_offset,
                        leader_epoch=asked.committed_leader_epoch,
                        metadata=metadata,
                        commit_timestamp_ms=event.timestamp_ms,
                        expire_timestamp_ms=-1 if expires_ms is None else expires_ms,
                        topic_id=topic.topic_id,
                    )
                    key = OffsetCommitKey(self.group_id, topic.name, asked.partition_index)
                    version = self.config.offset_commit_value_version
                    self.log(life, encode_key(key), encode_offset_commit_value(value, version))
                    life.offsets[topic.name, asked.partition_index] = Stored(value, life.now_ms, expires_ms)
                partitions.append(OffsetCommitResponsePartition(partition_index=asked.partition_index, error_code=code))
            topics.append(
                OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=tuple(partitions))
            )
        return OffsetCommitResponse(topics=tuple(topics))

    def has_room(self, life: Life, topic: str, partition: int, metadata: str) -> bool:
        """Whether the group's offsets may be as large as this one makes them; what makes them no larger always fits."""
        after = {key: stored.value.metadata for key, stored in life.offsets.items()} | {(topic, partition): metadata}
        size = _bytes_of(self.group_id, after)
        if size <= self.config.group_offsets_max_bytes:
            return True
        return size <= _bytes_of(self.group_id, {key: stored.value.metadata for key, stored in life.offsets.items()})

    def committer(self, event: RequestEvent, request: OffsetCommitRequest) -> Life:
        """Who may commit, and to which group."""
        generation = request.generation_id_or_member_epoch
        if self.life is None:
            if generation >= 0:
                raise No(
                    ErrorCode.GROUP_ID_NOT_FOUND if event.envelope.api_version >= 9 else ErrorCode.ILLEGAL_GENERATION
                )
            self.life = Life.begin(event)
            return self.life
        if generation < 0 and self.life.state == "Empty":
            return self.life
        if generation < 0 and not request.member_id and request.group_instance_id is None:
            raise No(ErrorCode.UNKNOWN_MEMBER_ID)
        life, each = self.validate(self.life, request.member_id, request.group_instance_id)
        if generation != life.generation:
            raise No(ErrorCode.ILLEGAL_GENERATION)
        if life.state == "CompletingRebalance":
            raise No(ErrorCode.REBALANCE_IN_PROGRESS)
        self.arm(life, "session", each.session_ms, each.member_id)
        return life

    # --------------------------------------------------------------------------------------- OffsetFetch, OffsetDelete

    def offset_fetch(self, event: RequestEvent, request: OffsetFetchRequest) -> OffsetFetchResponse:
        (asked,) = request.groups
        stored = self.life.offsets if self.life is not None else {}
        wanted = asked.topics
        if wanted is None:
            names = sorted({topic for topic, _ in stored})
            wanted = tuple(
                OffsetFetchRequestTopic(
                    name=name, partition_indexes=tuple(sorted(p for topic, p in stored if topic == name))
                )
                for name in names
            )
        topics = []
        for topic in wanted:
            partitions = []
            for index in topic.partition_indexes:
                found = stored.get((topic.name, index))
                partition = OffsetFetchResponsePartition(partition_index=index)
                if found is not None:
                    partition = OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=found.value.offset,
                        committed_leader_epoch=found.value.leader_epoch,
                        metadata=found.value.metadata,
                    )
                partitions.append(partition)
            topics.append(
                OffsetFetchResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=tuple(partitions))
            )
        return OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id=asked.group_id, topics=tuple(topics)),))

    def offset_delete(self, event: RequestEvent, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        self.require_group_id()
        life = self.life
        if life is None:
            raise No(ErrorCode.GROUP_ID_NOT_FOUND)
        if life.state != "Empty" and life.protocol_type != "consumer":
            raise No(ErrorCode.NON_EMPTY_GROUP)
        topics = []
        for topic in request.topics:
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if life.subscribed_to(topic.name) else ErrorCode.NONE
            for asked in topic.partitions if code is ErrorCode.NONE else ():
                if (topic.name, asked.partition_index) in life.offsets:
                    self.forget(life, topic.name, asked.partition_index)
            topics.append(
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=tuple(
                        OffsetDeleteResponsePartition(partition_index=asked.partition_index, error_code=code)
                        for asked in topic.partitions
                    ),
                )
            )
        return OffsetDeleteResponse(topics=tuple(topics))

    def forget(self, life: Life, topic: str, partition: int) -> None:
        del life.offsets[topic, partition]
        self.log(life, encode_key(OffsetCommitKey(self.group_id, topic, partition)), None)

    # --------------------------------------------------------------------------------------------------- the whole
    # group

    def delete_groups(self, event: RequestEvent, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        life = self.life
        if life is None:
            raise No(ErrorCode.GROUP_ID_NOT_FOUND)
        if life.state != "Empty":
            raise No(ErrorCode.NON_EMPTY_GROUP)
        for topic, partition in sorted(life.offsets):
            self.forget(life, topic, partition)
        self.die(life)
        return DeleteGroupsResponse(results=(DeletableGroupResult(group_id=self.group_id),))

    def die(self, life: Life) -> None:
        self.log(life, encode_key(GroupMetadataKey(self.group_id)), None)
        self.life = None

    def describe_groups(self, event: RequestEvent, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        life = self.life
        if life is None or not life.in_log:
            group = DescribedGroup(group_id=self.group_id, group_state="Dead")
            if event.envelope.api_version >= 6:
                group = DescribedGroup(
                    error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                    error_message=f"Group {self.group_id} not found.",
                    group_id=self.group_id,
                    group_state="Dead",
                )
            return DescribeGroupsResponse(groups=(group,))
        stable = life.state == "Stable"
        members = tuple(
            DescribedGroupMember(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                member_metadata=each.metadata(life.protocol) if stable else b"",
                member_assignment=each.assignment,
            )
            for each in life.people
        )
        group = DescribedGroup(
            group_id=self.group_id,
            group_state=life.state,
            protocol_type=life.protocol_type or "",
            protocol_data=life.protocol or "" if stable else "",
            members=members,
        )
        return DescribeGroupsResponse(groups=(group,))

    def find_coordinator(self, event: RequestEvent, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        if request.key_type != 0:
            raise No(ErrorCode.INVALID_REQUEST)
        shard = group_partition(self.group_id, self.config.shard_count)
        return FindCoordinatorResponse(coordinators=(Coordinator(key=self.group_id, node_id=shard),))

    # ------------------------------------------------------------------------------------------------------ retention

    def check_retention(self, life: Life, check_ms: int) -> None:
        """One run of the check that Kafka makes over all groups at every interval."""
        life.now_ms = max(life.now_ms, check_ms)
        life.checked_ms = check_ms
        for (topic, partition), stored in sorted(life.offsets.items()):
            if not life.subscribed_to(topic) and self.is_over(life, stored):
                self.forget(life, topic, partition)
        if not life.offsets and life.state == "Empty":
            self.die(life)

    def is_over(self, life: Life, stored: Stored) -> bool:
        if life.protocol_type is None:
            base_ms = stored.committed_ms
        elif life.state == "Empty":
            base_ms = life.since_ms
        elif life.protocol_type == "consumer" and life.state == "Stable" and life.topics is not None:
            base_ms = stored.committed_ms
        else:
            return False
        if stored.expires_ms is not None:
            return life.now_ms >= stored.expires_ms
        return life.now_ms - base_ms >= self.config.offsets_retention_minutes * 60_000


def _bytes_of(group_id: str, metadata: dict[tuple[str, int], str]) -> int:
    """What offsets with such metadata count for: 100 each, and what names it."""
    return sum(100 + len((group_id + topic + text).encode()) for (topic, _), text in metadata.items())
