"""The table of the kinds of group, and the handler of each request, timer and event by the kind of its group."""

from __future__ import annotations

from typing import assert_never

from coordinator_state import timers
from coordinator_state.classic.kind import ClassicKind
from coordinator_state.classic.old_states import OLDER_VERSIONS
from coordinator_state.consumer.consumer_group_describe import consumer_group_describe
from coordinator_state.consumer.consumer_group_heartbeat import consumer_group_heartbeat
from coordinator_state.consumer.kind import ConsumerKind
from coordinator_state.group import Group
from coordinator_state.kind import GroupKind
from coordinator_state.no_group import NoGroup
from coordinator_state.requests.delete_groups import delete_groups
from coordinator_state.requests.describe_groups import describe_groups
from coordinator_state.requests.find_coordinator import find_coordinator
from coordinator_state.requests.offset_commit import offset_commit
from coordinator_state.requests.offset_delete import offset_delete
from coordinator_state.requests.offset_fetch import offset_fetch
from coordinator_state.requests.txn_offset_commit import txn_offset_commit
from coordinator_state.retention import expiry_timer_expired
from coordinator_state.state import StateCodec
from coordinator_state.step import Step
from schemas.consumer_group_messages import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from schemas.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    Request,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)


class GroupKinds:
    """Some kinds of group. The first handles the requests that find no group: a commit of nobody makes one of its groups."""

    def __init__(self, first: GroupKind, *others: GroupKind) -> None:
        self._first = first
        self._by_body = {kind.body: kind for kind in (first, *others)}
        self.codec = StateCodec((*self._by_body, NoGroup), OLDER_VERSIONS)

    def kind_of(self, group: Group | None) -> GroupKind:
        return self._first if group is None else self._by_body[type(group.body)]

    def handle_request(self, step: Step, request: Request) -> None:
        """Hand a request to its handler. Raises `Refusal`."""
        kind = self.kind_of(step.group)
        # Comparisons take a fifth of the time of a match of classes, and mypy finds what is missing in both.
        if type(request) is OffsetCommitRequest:
            offset_commit(step, kind, request)
        elif type(request) is JoinGroupRequest:
            kind.join_group(step, request)
        elif type(request) is SyncGroupRequest:
            kind.sync_group(step, request)
        elif type(request) is HeartbeatRequest:
            kind.heartbeat(step, request)
        elif type(request) is LeaveGroupRequest:
            kind.leave_group(step, request)
        elif type(request) is OffsetFetchRequest:
            offset_fetch(step, request)
        elif type(request) is TxnOffsetCommitRequest:
            txn_offset_commit(step, kind, request)
        elif type(request) is ConsumerGroupHeartbeatRequest:
            consumer_group_heartbeat(step, request)
        else:
            self._handle_administration(step, request)

    def _handle_administration(
        self,
        step: Step,
        request: OffsetDeleteRequest
        | DescribeGroupsRequest
        | DeleteGroupsRequest
        | FindCoordinatorRequest
        | ConsumerGroupDescribeRequest,
    ) -> None:
        if type(request) is OffsetDeleteRequest:
            offset_delete(step, request)
        elif type(request) is DescribeGroupsRequest:
            describe_groups(step, request)
        elif type(request) is DeleteGroupsRequest:
            delete_groups(step, request)
        elif type(request) is FindCoordinatorRequest:
            find_coordinator(step, request)
        elif type(request) is ConsumerGroupDescribeRequest:
            consumer_group_describe(step, request)
        else:
            assert_never(request)

    def handle_timer(self, step: Step, due: timers.DueTimer) -> None:
        """Hand a timer that fires to its handler."""
        if due.name == timers.OFFSETS_EXPIRY:
            expiry_timer_expired(step)
        elif due.name == timers.PUBLICATION:
            step.assignment_changed = True
        else:
            self.kind_of(step.group).timer_expired(step, due.name, due.timer)


KINDS = GroupKinds(ClassicKind(), ConsumerKind())
"""All kinds of group."""


def encode_group(group: Group) -> tuple[bytes, bytes]:
    """Return the two blobs of a group's row of state; the second one has the committed offsets."""
    return KINDS.codec.encode(group)


def decode_group(membership: bytes, offsets: bytes) -> Group:
    """Read the blobs of this state version or an older one. Raises `StateError` for another version or damaged bytes."""
    return KINDS.codec.decode(membership, offsets)
