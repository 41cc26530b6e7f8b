"""Commits: those that the application asks for and the automatic ones, repeated until they are answered for good.

A commit is repeated only in the place in the group that it was made in, and never over a later one of the same
partition, so that a committed position does not go back. Source: Kafka's
`ConsumerCoordinator.OffsetCommitResponseHandler`, `CommitRequestManager`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count, groupby

from group_coordinator.coordinating.members.effects import CommitFailed, Committed, OffsetAndMetadata
from group_coordinator.coordinating.members.membership import Membership
from group_coordinator.coordinating.members.requests import PendingRequest
from schemas.consumer_protocol import TopicPartition
from schemas.error_codes import ErrorCode
from schemas.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)


@dataclass(slots=True)
class _Commit:
    """A commit that is not answered for good."""

    commit_id: int
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    automatic: bool
    made_in: Hashable
    """The place in the group that the member had."""
    give_up_ms: int
    open_partitions: tuple[TopicPartition, ...]
    attempts: int = 0
    retry_at_ms: int | None = None
    error_code: ErrorCode = ErrorCode.NONE
    """Why it is to be repeated."""


class Commits:
    """One member's commits, several of which may be under way."""

    def __init__(self, membership: Membership) -> None:
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        """What the coordinator is known to have, of the partitions that the member owns."""
        self._membership = membership
        self._config = membership.config
        self._ids = count(1)
        self._open_commits: dict[int, _Commit] = {}
        self._latest: dict[TopicPartition, int] = {}
        self._automatic_at_ms: int | None = None

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, automatic: bool = False) -> int:
        """Commit these offsets; the answer is told as `Committed` or `CommitFailed` with the number returned here."""
        membership = self._membership
        commit = _Commit(
            commit_id=next(self._ids),
            offsets=dict(offsets),
            automatic=automatic,
            made_in=membership.place,
            give_up_ms=membership.now_ms + self._config.default_api_timeout_ms,
            open_partitions=tuple(offsets),
        )
        self._open_commits[commit.commit_id] = commit
        refusal = self._refusal()
        if not offsets:
            self._succeeded(commit)
        elif refusal is not None:
            self._failed(commit, refusal)
        else:
            self._latest.update(dict.fromkeys(offsets, commit.commit_id))
            self._send(commit)
        return commit.commit_id

    def commit_positions(self, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> int | None:
        """Commit automatically, if that is enabled, there is something to commit and the member is in a group."""
        self.restart_interval()
        if not positions or not self._config.enable_auto_commit or self._refusal() is not None:
            return None
        return self.commit(positions, automatic=True)

    def is_open(self, commit_id: int) -> bool:
        return commit_id in self._open_commits

    @property
    def any_open(self) -> bool:
        return bool(self._open_commits)

    def restart_interval(self) -> None:
        """Put the next automatic commit one interval off."""
        if self._config.enable_auto_commit:
            self._automatic_at_ms = self._membership.now_ms + self._config.auto_commit_interval_ms

    def automatic_is_due(self) -> bool:
        """Return whether the next automatic commit is due and the last one is answered."""
        if self._automatic_at_ms is None or self._automatic_at_ms > self._membership.now_ms:
            return False
        self.restart_interval()
        return not any(commit.automatic for commit in self._open_commits.values())

    def fire_due(self) -> None:
        """Repeat what is due to be repeated."""
        now_ms = self._membership.now_ms
        for commit in list(self._open_commits.values()):
            if commit.retry_at_ms is not None and commit.retry_at_ms <= now_ms:
                self._retry(commit)

    def next_deadline_ms(self) -> int | None:
        deadlines = [commit.retry_at_ms for commit in self._open_commits.values()]
        if self._membership.has_place:
            deadlines.append(self._automatic_at_ms)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget these partitions, which are no longer the member's: others may commit them."""
        for partition in partitions:
            self.committed.pop(partition, None)
            self._latest.pop(partition, None)

    def abandon(self, error_code: ErrorCode) -> None:
        """Expect no answer any more."""
        for commit in list(self._open_commits.values()):
            self._failed(commit, error_code)

    def on_response(self, pending: PendingRequest, response: OffsetCommitResponse) -> None:
        commit = self._open_commits.get(pending.tag)
        if commit is None:
            return
        error_codes = {
            TopicPartition(topic.name, partition.partition_index): partition.error_code
            for topic in response.topics
            for partition in topic.partitions
        }
        errors = {}
        for partition in commit.open_partitions:
            error_code = error_codes.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            if error_code is not ErrorCode.NONE:
                errors[partition] = error_code
            elif partition in self._membership.owned:
                self.committed[partition] = commit.offsets[partition]
        if errors:
            commit.open_partitions = tuple(errors)
            self._refused(commit, pending, next(iter(errors.values())))
        else:
            self._succeeded(commit)

    def on_timeout(self, pending: PendingRequest) -> None:
        commit = self._open_commits.get(pending.tag)
        if commit is not None:
            self._membership.coordinator_unknown("no answer in time")
            self._retry_later(commit, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _refusal(self) -> ErrorCode | None:
        """Return why a commit cannot even be sent."""
        membership = self._membership
        if membership.failed is not None:
            return membership.failed.error_code
        return None if membership.has_place else membership.no_place

    def _refused(self, commit: _Commit, pending: PendingRequest, error_code: ErrorCode) -> None:
        membership = self._membership
        if membership.may_repeat_commit(error_code, automatic=commit.automatic):
            membership.note_error(error_code)
            self._retry_later(commit, error_code)
            return
        self._failed(commit, error_code)
        membership.commit_refused(pending, error_code)

    def _retry_later(self, commit: _Commit, error_code: ErrorCode) -> None:
        commit.error_code = error_code
        commit.retry_at_ms = self._membership.now_ms + self._config.backoff_ms(commit.attempts)
        commit.attempts += 1
        if commit.retry_at_ms >= commit.give_up_ms:
            self._failed(commit, error_code)

    def _retry(self, commit: _Commit) -> None:
        commit.retry_at_ms = None
        commit.open_partitions = tuple(
            partition for partition in commit.open_partitions if self._latest.get(partition) == commit.commit_id
        )
        still_a_member = self._refusal() is None and commit.made_in == self._membership.place
        if still_a_member and commit.open_partitions:
            self._send(commit)
        else:
            self._failed(commit, commit.error_code)

    def _send(self, commit: _Commit) -> None:
        config, generation = self._config, self._membership.generation
        request = OffsetCommitRequest(
            group_id=config.group_id,
            generation_id_or_member_epoch=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=config.group_instance_id,
            topics=tuple(
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=tuple(
                        _committed_partition(partition, commit.offsets[partition]) for partition in partitions
                    ),
                )
                for topic, partitions in groupby(sorted(commit.open_partitions), key=lambda partition: partition.topic)
            ),
        )
        self._membership.send("OffsetCommit", request, tag=commit.commit_id)

    def _succeeded(self, commit: _Commit) -> None:
        del self._open_commits[commit.commit_id]
        self._membership.notify(
            Committed(commit_id=commit.commit_id, offsets=commit.offsets, automatic=commit.automatic)
        )

    def _failed(self, commit: _Commit, error_code: ErrorCode) -> None:
        del self._open_commits[commit.commit_id]
        self._membership.notify(
            CommitFailed(
                commit_id=commit.commit_id, offsets=commit.offsets, automatic=commit.automatic, error_code=error_code
            )
        )


def _committed_partition(partition: TopicPartition, position: OffsetAndMetadata) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=partition.partition,
        committed_offset=position.offset,
        committed_leader_epoch=position.leader_epoch,
        committed_metadata=position.metadata,
    )
