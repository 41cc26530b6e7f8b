"""These rules check offsets, and the log that keeps them."""

from __future__ import annotations

from typing import NamedTuple

from coordinator_state import Answer, GroupConfig, LogRecord
from schemas.error_codes import ErrorCode
from schemas.history import OffsetsCommitted, OffsetsExpired
from schemas.messages import (
    DeleteGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
)
from schemas.records import (
    GroupMetadataKey,
    OffsetCommitKey,
    decode_group_metadata_value,
    decode_key,
    decode_offset_commit_value,
)
from simulation.checker import Rule, Step

MAY_COMMIT = ("Stable", "PreparingRebalance")


class OnlyCurrentCommits(Rule):
    """A commit is accepted from a member of the current generation that has its assignment, or in an Empty group."""

    def check(self, step: Step) -> str | None:
        if step.event is None or not isinstance(step.event.request, OffsetCommitRequest):
            return None
        request, before = step.event.request, step.before
        if ErrorCode.NONE not in commit_codes(step) or (before is not None and before.is_consumer):
            return None
        generation = request.generation_id_or_member_epoch
        if before is None or (before.state == "Empty" and generation < 0):
            return None if generation < 0 else f"generation {generation} committed to a group that does not exist"
        if before.state not in MAY_COMMIT:
            return f"a commit is accepted in state {before.state}"
        if request.member_id not in before.members:
            return f"{request.member_id or 'nobody'} committed and is no member"
        if request.group_instance_id not in (None, before.members[request.member_id]):
            return f"{request.member_id} committed as instance {request.group_instance_id}, which it is not"
        if generation != before.generation_id:
            return f"a commit of generation {generation} is accepted in generation {before.generation_id}"
        return None


def commit_codes(step: Step) -> list[ErrorCode]:
    """Return the answer to this step's OffsetCommit, partition by partition, in the order of the request."""
    assert step.event is not None
    return [
        partition.error_code
        for output in step.outputs
        if isinstance(output, Answer)
        and output.answers_offset == step.event.offset
        and isinstance(output.response, OffsetCommitResponse)
        for topic in output.response.topics
        for partition in topic.partitions
    ]


class _Commit(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    topic_id: str | None


class CommitsKept(Rule):
    """An accepted commit stays as it is until the next commit, a requested deletion, the end of its retention, or the
    end of its topic."""

    def __init__(self, config: GroupConfig) -> None:
        super().__init__(config)
        self._commits: dict[tuple[str, int], _Commit] = {}
        self._good_until_ms: dict[tuple[str, int], int] = {}

    def check(self, step: Step) -> str | None:
        if step.moved_ms:
            self._good_until_ms = {key: until_ms + step.moved_ms for key, until_ms in self._good_until_ms.items()}
        if step.event is None and not step.outputs and not step.gone:
            return None
        self._commit(step)
        problem = self._remove(step)
        group = step.group
        actual = {
            (topic, partition): _Commit(
                committed.offset, committed.leader_epoch, committed.metadata, committed.topic_id
            )
            for topic, partition, committed in (group.offsets if group is not None else ())
        }
        if actual != self._commits:
            differing = sorted(key for key in {*actual, *self._commits} if actual.get(key) != self._commits.get(key))
            first = differing[0]
            return f"{first[0]}-{first[1]} is {actual.get(first)}; last accepted was {self._commits.get(first)}"
        return problem or self._fetched(step)

    def _commit(self, step: Step) -> None:
        for output in step.outputs:
            if isinstance(output, OffsetsCommitted) and output.cause.kind == "transaction_ended":
                for change in output.offsets:
                    assert change.offset is not None
                    commit = _Commit(change.offset, change.leader_epoch, change.metadata, None)
                    self._commits[change.topic, change.partition] = commit
        if step.event is None or not isinstance(step.event.request, OffsetCommitRequest):
            return
        request, retention_ms = step.event.request, self.config.offsets_retention_ms
        if step.event.envelope.api_version <= 4 and request.retention_time_ms != -1:
            retention_ms = 0  # it has its own
        partitions = [(topic, partition) for topic in request.topics for partition in topic.partitions]
        for (topic, partition), code in zip(partitions, commit_codes(step), strict=True):
            if code is ErrorCode.NONE:
                key = (topic.name, partition.partition_index)
                self._good_until_ms[key] = _counts_from(step) + retention_ms
                self._commits[key] = _Commit(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata or "",
                    topic.topic_id,
                )

    def _remove(self, step: Step) -> str | None:
        problem = None
        for deleted_topic in step.gone:
            keys = [
                key
                for key, commit in self._commits.items()
                if key[0] == deleted_topic.name and commit.topic_id in (None, deleted_topic.topic_id)
            ]
            for key in keys:
                del self._commits[key]
        for output in step.outputs:
            if isinstance(output, OffsetsExpired):
                for change in output.offsets:
                    key = (change.topic, change.partition)
                    if self._good_until_ms.get(key, 0) > output.time_ms:
                        problem = f"{change.topic}-{change.partition} is expired before its retention is over"
                    self._commits.pop(key, None)
            elif isinstance(output, Answer) and _deletes_group(output):
                self._commits.clear()
            elif isinstance(output, Answer) and isinstance(output.response, OffsetDeleteResponse):
                for topic in output.response.topics:
                    for partition in topic.partitions:
                        if partition.error_code is ErrorCode.NONE:
                            self._commits.pop((topic.name, partition.partition_index), None)
        return problem

    def _fetched(self, step: Step) -> str | None:
        for output in step.outputs:
            if not isinstance(output, Answer) or not isinstance(output.response, OffsetFetchResponse):
                continue
            for topic in output.response.groups[0].topics:
                for partition in topic.partitions:
                    commit = self._commits.get((topic.name, partition.partition_index))
                    if partition.error_code is ErrorCode.UNSTABLE_OFFSET_COMMIT:
                        continue
                    if partition.committed_offset != (-1 if commit is None else commit.offset):
                        return (
                            f"{topic.name}-{partition.partition_index} is fetched as {partition.committed_offset}, "
                            f"not {commit}"
                        )
        return None


def _counts_from(step: Step) -> int:
    """Return when the retention of a commit begins: in a group without members, when it lost the last one."""
    group = step.classic
    if group is not None and group.state == "Empty" and group.protocol_type is not None:
        return group.state_since_ms
    return step.clock_ms


def _deletes_group(answer: Answer) -> bool:
    response = answer.response
    return isinstance(response, DeleteGroupsResponse) and response.results[0].error_code is ErrorCode.NONE


class OffsetsWithinBound(Rule):
    """No commit makes a group's offsets larger than `group_offsets_max_bytes`. Each takes 100 bytes and its names."""

    def check(self, step: Step) -> str | None:
        if step.event is None or not isinstance(step.event.request, OffsetCommitRequest) or step.group is None:
            return None
        names = (step.group_id + topic + committed.metadata for topic, _, committed in step.group.offsets)
        size_bytes = sum(100 + len(text.encode()) for text in names)
        if size_bytes > self.config.group_offsets_max_bytes:
            return f"the offsets take {size_bytes} bytes; {self.config.group_offsets_max_bytes} is the most"
        return None


class LogTellsHardState(Rule):
    """A fresh reader of the compacted offsets log rebuilds the group's offsets, and the group whenever it is at
    rest."""

    def __init__(self, config: GroupConfig) -> None:
        super().__init__(config)
        self._compacted: dict[bytes, bytes | None] = {}

    def check(self, step: Step) -> str | None:
        records = [output for output in step.outputs if isinstance(output, LogRecord)]
        if not records:
            return None
        for record in records:
            self._compacted.pop(record.key, None)
            if record.value is not None:
                self._compacted[record.key] = record.value
        offsets, group_record = _read(self._compacted)
        group, classic = step.group, step.classic
        actual_offsets = {
            (topic, partition): (committed.offset, committed.metadata, committed.commit_timestamp_ms)
            for topic, partition, committed in (group.offsets if group is not None else ())
        }
        if offsets != actual_offsets:
            return f"the log rebuilds the offsets {offsets}, the group has {actual_offsets}"
        if step.consumer is not None:
            return None if group_record is None else "the group is a consumer group, and the log has a classic one"
        if classic is None:
            return None if group_record is None else "the group is gone, and the log still has it"
        if classic.state not in ("Stable", "Empty") or group_record is None:
            return None
        value = decode_group_metadata_value(group_record)
        rebuilt = (
            value.generation,
            value.protocol,
            value.leader,
            [
                (member.member_id, member.group_instance_id, member.session_timeout_ms, member.assignment)
                for member in value.members
            ],
        )
        members = [
            (member.member_id, member.group_instance_id, member.session_timeout_ms, member.assignment)
            for member in classic.members.values()
        ]
        if rebuilt != (classic.generation_id, classic.protocol_name, classic.leader_id, members):
            actual = (classic.generation_id, classic.protocol_name, classic.leader_id, members)
            return f"the log rebuilds {rebuilt}, the group is {actual}"
        return None


def _read(compacted: dict[bytes, bytes | None]) -> tuple[dict[tuple[str, int], tuple[int, str, int]], bytes | None]:
    """Offsets and the group's record, as a reader finds them in a compacted log."""
    offsets: dict[tuple[str, int], tuple[int, str, int]] = {}
    group: bytes | None = None
    for data, value in compacted.items():
        key = decode_key(data)
        assert value is not None
        if isinstance(key, OffsetCommitKey):
            decoded = decode_offset_commit_value(value)
            offsets[key.topic, key.partition] = (decoded.offset, decoded.metadata, decoded.commit_timestamp_ms)
        elif isinstance(key, GroupMetadataKey):
            group = value
    return offsets, group
