"""A slow, simple model of both group protocols: what a coordinator must say and be, to judge one that is fast.

Written from the description of the protocols, not from `coordinator_state`, of which it shares nothing but the settings
and the form of an event: no counters, no planned timers, no outputs other than answers and records. Whatever can be
found by looking is found by looking. A consumer group's state is what its records say. Its targets are the
coordinator's, held against what the assignors promise. `tests/simulation/test_model.py` and `test_consumer_model.py`
hold the model itself against what Kafka's own coordinator was recorded to do. Not modelled: history, `group_max_bytes`,
offsets in transactions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinator_state.outputs import MetadataEvent, RequestEvent, TopicsDeletedEvent
from schemas.consumer_group_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumerGroup,
)
from schemas.error_codes import ErrorCode
from schemas.java_hash import group_partition
from schemas.messages import (
    APIS,
    Coordinator,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    Request,
    Response,
    SyncGroupRequest,
    SyncGroupResponse,
)
from simulation.model_consumer_records import Target
from simulation.model_consumer_requests import ConsumerRequests
from simulation.model_group import ModelError, ModelGroup, ModelLife, ModelOutput, ModelTimer, time_of
from simulation.model_requests import FIVE_MINUTES_MS
from simulation.model_snapshot import Snapshot, consumer_snapshot, snapshot
from simulation.model_topics import KnownTopics


class Model(ConsumerRequests):
    """The model of one group. Give it a request with `handle`, or time with `pass_time`; both return its outputs, in
    order."""

    def pass_time(self, clock_ms: int) -> list[ModelOutput]:
        """Move the clock to `clock_ms`."""
        while self.life is not None and self._fire_next_timer(self.life, clock_ms):
            pass
        outputs, self.outputs = self.outputs, []
        return outputs

    def handle(self, event: RequestEvent, decided: dict[str, Target] | None = None) -> list[ModelOutput]:
        """Handle a request, after all timers that were due before it. `decided`: the targets of members of a consumer
        group as the coordinator decided them in this request; the model computes none, and says whether they are good.
        """
        before = self.pass_time(event.clock_ms)
        self.decided = decided
        if self.life is not None:
            self.life.now_ms = max(self.life.now_ms, event.clock_ms)
        now_ms = time_of(event) if self.life is None else self.life.now_ms
        self.first_topics = KnownTopics()
        if event.envelope.topic_metadata:
            self.learn_topics(event.envelope.topic_metadata)
        try:
            response = self._handle(event)
        except ModelError as error:
            response = refused_consumer(event.request, error.code) or refusal(event.request, error)
        if response is not None:
            self.answer(event.envelope.request_id, response, now_ms)
        return before + self.pass_time(now_ms)

    def renew_sessions(self, clock_ms: int, goes_on_ms: int | None = None) -> list[ModelOutput]:
        """Restart all sessions after the clock stood still at `clock_ms`. `goes_on_ms` is where the group's time goes
        on; the time in between never was."""
        outputs = self.pass_time(clock_ms)
        if self.life is not None:
            self.life.now_ms = max(self.life.now_ms, clock_ms)
            if goes_on_ms is not None and goes_on_ms > self.life.now_ms:
                self.life.leave_out(goes_on_ms - self.life.now_ms)
        if self.consumer is not None:
            self.renew_member_timers(self.consumer)
        if self.group is not None:
            self._renew_sessions(self.group)
        return outputs

    def _renew_sessions(self, group: ModelGroup) -> None:
        group.timers = [timer for timer in group.timers if timer.kind == "session" or not timer.who]
        for timer in [timer for timer in group.timers if timer.kind == "session"]:
            member = group.member(timer.who)
            group.timers.remove(timer)
            if member is None:
                timer.deadline_ms += group.now_ms - timer.armed_ms
                timer.armed_ms = group.now_ms
            else:
                whole_ms = FIVE_MINUTES_MS if member.new else member.session_ms
                timer.deadline_ms = max(timer.deadline_ms, group.now_ms + whole_ms)
            group.timers.append(timer)

    def forget_topics(self, event: TopicsDeletedEvent) -> list[ModelOutput]:
        """Drop the offsets committed for these topics under their ids, or before ids were known."""
        before = self.pass_time(event.clock_ms)
        group = self.life
        if group is None:
            return before
        group.now_ms = max(group.now_ms, event.clock_ms)
        for (topic, partition), offset in sorted(group.offsets.items()):
            if any(
                deleted.name == topic and offset.value.topic_id in (None, deleted.topic_id) for deleted in event.topics
            ):
                self.forget(group, topic, partition)
        return before + self.pass_time(group.now_ms)

    def take_in(self, event: MetadataEvent) -> list[ModelOutput]:
        """Learn of topics, matches or settings."""
        before = self.pass_time(event.clock_ms)
        if self.life is not None:
            self.life.now_ms = max(self.life.now_ms, event.clock_ms)
        self.learn(event)
        outputs, self.outputs = self.outputs, []
        return before + outputs

    def snapshot(self) -> Snapshot | None:
        """Return the group as it is; None if there is none, or a refused JoinGroup has removed it."""
        if self.consumer is not None:
            return None if self.consumer.is_removed else consumer_snapshot(self.consumer)
        return None if self.group is None else snapshot(self.group)

    def _handle(self, event: RequestEvent) -> Response | None:
        envelope = event.envelope
        api = APIS[envelope.api]
        if not api.min_version <= envelope.api_version <= api.max_version:
            raise ModelError(ErrorCode.UNSUPPORTED_VERSION)
        shards = self.config.shard_count
        if envelope.api != "FindCoordinator" and group_partition(self.group_id, shards) != self.partition:
            raise ModelError(ErrorCode.NOT_COORDINATOR)
        handlers: dict[str, Callable[[RequestEvent, Any], Response | None]] = {
            "JoinGroup": self.join_group,
            "SyncGroup": self.sync_group,
            "Heartbeat": self.heartbeat,
            "LeaveGroup": self.leave_group,
            "OffsetCommit": self.offset_commit,
            "OffsetFetch": self.offset_fetch,
            "OffsetDelete": self.offset_delete,
            "DescribeGroups": self.describe_groups,
            "DeleteGroups": self.delete_groups,
            "FindCoordinator": self.find_coordinator,
            "ConsumerGroupHeartbeat": self.consumer_heartbeat,
            "ConsumerGroupDescribe": self.describe_consumer_group,
        }
        return handlers[envelope.api](event, event.request)

    def _fire_next_timer(self, group: ModelLife, clock_ms: int) -> bool:
        """Let the next alarm ring or the next retention check run; False when none is due.

        Alarms of one millisecond ring in the order of arming; a check stands where a task that armed itself anew at its
        last run would stand.
        """
        interval_ms = self.config.offsets_retention_check_interval_ms
        phase_ms = self.config.offsets_retention_check_phase_ms
        check_ms = group.checked_ms + 1 + (phase_ms - group.checked_ms - 1) % interval_ms
        timer: ModelTimer | None = min(group.timers, key=lambda timer: timer.deadline_ms, default=None)
        if timer is not None and (timer.deadline_ms, timer.armed_ms) < (check_ms, check_ms - interval_ms):
            if timer.deadline_ms > clock_ms:
                return False
            self._fire(group, timer)
            return True
        if check_ms > clock_ms:
            return False
        self.check_retention(group, check_ms)
        return True

    def _fire(self, life: ModelLife, timer: ModelTimer) -> None:
        life.timers.remove(timer)
        life.now_ms = max(life.now_ms, timer.deadline_ms)
        if self.group is not None:
            self.fire(self.group, timer)
        elif self.consumer is not None:
            self.member_timer_rings(self.consumer, timer)


def refusal(request: Request, error: ModelError) -> Response:
    """Return the refusal of each API. It is written a second time on purpose: a check that shares `schemas.refusals`
    could not find it wrong."""
    code = error.code
    match request:
        case JoinGroupRequest():
            return JoinGroupResponse(error_code=code, member_id=request.member_id if error.echo else "")
        case SyncGroupRequest():
            return SyncGroupResponse(error_code=code)
        case HeartbeatRequest():
            return HeartbeatResponse(error_code=code)
        case LeaveGroupRequest():
            return LeaveGroupResponse(error_code=code)
        case OffsetCommitRequest():
            return refused_commit(request, code)
        case OffsetFetchRequest(groups=(asked,)):
            return OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id=asked.group_id, error_code=code),))
        case OffsetDeleteRequest():
            return OffsetDeleteResponse(error_code=code)
        case DescribeGroupsRequest(groups=(group_id,)):
            return DescribeGroupsResponse(groups=(DescribedGroup(error_code=code, group_id=group_id, group_state=""),))
        case DeleteGroupsRequest(groups_names=(group_id,)):
            return DeleteGroupsResponse(results=(DeletableGroupResult(group_id=group_id, error_code=code),))
        case FindCoordinatorRequest(coordinator_keys=(key,)):
            none = Coordinator(key=key, node_id=-1, error_code=code, error_message=code.meaning)
            return FindCoordinatorResponse(coordinators=(none,))
    raise AssertionError(f"{request} is not about one group")


def refused_consumer(request: Request, code: ErrorCode) -> Response | None:
    """Return the refusal of the APIs of consumer groups; None for another."""
    match request:
        case ConsumerGroupHeartbeatRequest():
            return ConsumerGroupHeartbeatResponse(error_code=code)
        case ConsumerGroupDescribeRequest(group_ids=(group_id,)):
            return ConsumerGroupDescribeResponse(groups=(DescribedConsumerGroup(error_code=code, group_id=group_id),))
    return None


def refused_commit(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    """Refuse every partition of a commit with this code."""
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )
