"""A slow, simple model of the classic group protocol: what a coordinator must say and be, to judge one that is fast.

Written from the description of the protocol, not from `coordinator_state`, of which it shares nothing but the settings
and the form of an event: no counters, no planned timers, no outputs other than answers and records. Whatever can be
found by looking is found by looking. `tests/simulation/test_model.py` holds the model itself against what Kafka's own
coordinator was recorded to do. Not modelled: history, `group_max_bytes`.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any

from coordinator_state.outputs import RequestEvent, TopicsDeletedEvent
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
from simulation.model_group import ModelError, ModelGroup, ModelOutput, ModelTimer, time_of
from simulation.model_offsets import OffsetRequests
from simulation.model_requests import FIVE_MINUTES_MS

Snapshot = dict[str, Any]
"""A group in the words of the recorded histories (`group_coordinator.recordings.history.group_state`)."""


class Model(OffsetRequests):
    """The model of one group. Give it a request with `handle`, or time with `pass_time`; both return its outputs, in
    order."""

    def pass_time(self, clock_ms: int) -> list[ModelOutput]:
        """Move the clock to `clock_ms`."""
        while self.group is not None and self._fire_next_timer(self.group, clock_ms):
            pass
        outputs, self.outputs = self.outputs, []
        return outputs

    def handle(self, event: RequestEvent) -> list[ModelOutput]:
        """Handle a request, after all timers that were due before it."""
        before = self.pass_time(event.clock_ms)
        if self.group is not None:
            self.group.now_ms = max(self.group.now_ms, event.clock_ms)
        now_ms = time_of(event) if self.group is None else self.group.now_ms
        try:
            response = self._handle(event)
        except ModelError as error:
            response = refusal(event.request, error)
        if response is not None:
            self.answer(event.envelope.request_id, response, now_ms)
        return before + self.pass_time(now_ms)

    def renew_sessions(self, clock_ms: int, goes_on_ms: int | None = None) -> list[ModelOutput]:
        """Restart all sessions after the clock stood still at `clock_ms`. `goes_on_ms` is where the group's time goes
        on; the time in between never was."""
        outputs = self.pass_time(clock_ms)
        group = self.group
        if group is None:
            return outputs
        group.now_ms = max(group.now_ms, clock_ms)
        if goes_on_ms is not None and goes_on_ms > group.now_ms:
            group.leave_out(goes_on_ms - group.now_ms)
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
        return outputs

    def forget_topics(self, event: TopicsDeletedEvent) -> list[ModelOutput]:
        """Drop the offsets committed for these topics under their ids, or before ids were known."""
        before = self.pass_time(event.clock_ms)
        group = self.group
        if group is None:
            return before
        group.now_ms = max(group.now_ms, event.clock_ms)
        for (topic, partition), offset in sorted(group.offsets.items()):
            if any(
                deleted.name == topic and offset.value.topic_id in (None, deleted.topic_id) for deleted in event.topics
            ):
                self.forget(group, topic, partition)
        return before + self.pass_time(group.now_ms)

    def snapshot(self) -> Snapshot | None:
        """Return the group as it is; None if there is none."""
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
        }
        return handlers[envelope.api](event, event.request)

    def _fire_next_timer(self, group: ModelGroup, clock_ms: int) -> bool:
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
            self.fire(group, timer)
            return True
        if check_ms > clock_ms:
            return False
        self.check_retention(group, check_ms)
        return True


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


def snapshot(group: ModelGroup) -> Snapshot:
    """Describe a group in the terms of the recorded histories; values that are None are left out."""
    members = {
        member.member_id: _without_none(
            {
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "session_timeout_ms": member.session_ms,
                "rebalance_timeout_ms": member.rebalance_ms,
                "protocols": [name for name, _ in member.protocols],
                "assignment": b64encode(member.assignment).decode(),
                "parked": "+".join(["join"] * (member.join is not None) + ["sync"] * (member.sync is not None)) or None,
            }
        )
        for member in group.members
    }
    return _without_none(
        {
            "state": group.state,
            "state_since_ms": group.since_ms,
            "generation": group.generation,
            "protocol_type": group.protocol_type,
            "protocol": group.protocol,
            "leader": group.leader,
            "members": members,
            "pending_join": sorted(group.issued_ids),
            "pending_sync": sorted(group.must_sync),
            "subscribed_topics": None if group.topics is None else sorted(group.topics),
            "deadlines": {timer.who or timer.kind: timer.deadline_ms for timer in group.timers},
        }
    )


def _without_none(fields: Snapshot) -> Snapshot:
    return {name: value for name, value in fields.items() if value is not None}
