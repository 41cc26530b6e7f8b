"""Bugs of consumer groups to plant: each takes one rule of KIP-848 away from the machine, or from the watcher."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from coordinator_state import RequestEvent, coordinator
from coordinator_state.classic.group import ClassicGroup
from coordinator_state.consumer import (
    classic_join,
    consumer_group_heartbeat,
    downgrade,
    fence,
    heartbeat,
    membership,
    offsets,
    ownership,
    reconciliation,
    sessions,
    target,
    timers,
    upgrade,
)
from coordinator_state.consumer.assignors import UniformAssignor
from coordinator_state.consumer.assignors.contract import AssignorGroup
from coordinator_state.consumer.changes import Changes
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.consumer.member import ConsumerMember, TargetAssignment
from coordinator_state.errors import Refusal
from coordinator_state.step import Step
from schemas.consumer_group_messages import JOIN_EPOCH, ConsumerGroupHeartbeatRequest
from schemas.consumer_protocol import Assignment, encode_assignment
from schemas.error_codes import ErrorCode
from schemas.messages import HeartbeatRequest, JoinGroupRequest
from schemas.wire import INT16
from streaming.group_news import GroupNews


def a_partition_is_given_before_it_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Any = reconciliation.reconcile

    def reconcile(*arguments: Any, **options: Any) -> Any:
        return real(*arguments[:-1], lambda topic_id, partition: True, **options)

    monkeypatch.setattr(ownership, "reconcile", reconcile)


def a_session_is_armed_only_at_the_join(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Step.arm

    def arm(self: Step, name: str, delay_ms: int) -> None:
        group = self.group
        is_consumer = group is not None and isinstance(group.body, ConsumerGroup)
        if group is None or not (is_consumer and name.startswith(timers.SESSION_PREFIX) and name in group.timers):
            real(self, name, delay_ms)

    monkeypatch.setattr(Step, "arm", arm)


def silent_native_members_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "fence_members", lambda changes, members, reason: None)


def an_older_epoch_is_accepted_from_who_tells_of_no_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    def require_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
        if request.member_epoch not in (JOIN_EPOCH, member.member_epoch, member.previous_member_epoch):
            raise membership.fenced_epoch("another epoch")

    monkeypatch.setattr(membership, "_require_epoch", require_epoch)


def targets_are_computed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "_is_too_early", lambda changes: False)


def a_targets_tombstone_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_tombstones(monkeypatch, 7)


def an_expressions_tombstone_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_tombstones(monkeypatch, 16)


def forget_tombstones(monkeypatch: pytest.MonkeyPatch, record_type: int) -> None:
    real = Step.append_record

    def append_record(self: Step, key: bytes, value: bytes | None) -> None:
        if value is not None or not key.startswith(INT16.pack(record_type)):
            real(self, key, value)

    monkeypatch.setattr(Step, "append_record", append_record)


def a_rebalance_timer_is_not_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Step.cancel

    def cancel(self: Step, name: str) -> None:
        if not name.startswith("rebalance:"):
            real(self, name)

    monkeypatch.setattr(Step, "cancel", cancel)


def who_does_not_give_up_is_not_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "time_revocation", lambda step, member: None)


def everything_goes_to_the_first_member(monkeypatch: pytest.MonkeyPatch) -> None:
    real = UniformAssignor.assign

    def assign(self: UniformAssignor, group: AssignorGroup) -> dict[str, TargetAssignment]:
        assigned = real(self, group)
        whole: dict[str, tuple[int, ...]] = {}
        for owned in assigned.values():
            for topic_id, partitions in owned:
                whole[topic_id] = (*whole.get(topic_id, ()), *partitions)
        first = min(assigned)
        return {member_id: tuple(whole.items()) if member_id == first else () for member_id in assigned}

    monkeypatch.setattr(UniformAssignor, "assign", assign)


def nobody_bumps_the_epoch_when_members_go(monkeypatch: pytest.MonkeyPatch) -> None:
    def put_epoch(self: Changes, epoch: int, metadata_hash: int, reasons: Any) -> None:
        if list(reasons) not in (["member_left"], ["member_expired"]):
            real(self, epoch, metadata_hash, reasons)

    real = Changes.put_epoch
    monkeypatch.setattr(Changes, "put_epoch", put_epoch)


def a_commit_of_an_older_epoch_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "_require_assigned_since", lambda *arguments: None)


def the_last_native_member_leaves_a_consumer_group_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (fence, classic_join):
        monkeypatch.setattr(module, "may_downgrade", lambda *arguments, **options: False)


def a_join_with_partitions_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_group_heartbeat, "_validate_join", lambda request: None)


def nobody_tells_groups_of_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupNews, "due", lambda self: iter(()))


def an_expression_that_a_member_left_behind_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka keeps what it matches where the member came back as a static one, under its old id."""
    real = ConsumerGroup.put_member

    def put_member(self: ConsumerGroup, member: ConsumerMember) -> None:
        real(self, member)
        for regex in [regex for regex in self.resolved_regexes if not self.regex_counts[regex]]:
            self.put_regex(regex, None)

    monkeypatch.setattr(ConsumerGroup, "put_member", put_member)


def partitions_that_are_not_there_are_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's uniform assignor does not look for them, and the request fails."""
    real = UniformAssignor.assign

    def assign(self: UniformAssignor, group: AssignorGroup) -> dict[str, TargetAssignment]:
        def is_there(topic_id: str, partition: int) -> bool:
            return topic_id not in group.topics or partition < group.topics[topic_id].partition_count

        members = tuple(
            replace(
                member,
                target=tuple(
                    (topic_id, tuple(number for number in partitions if is_there(topic_id, number)))
                    for topic_id, partitions in member.target
                ),
            )
            for member in group.members
        )
        return real(self, replace(group, members=members))

    monkeypatch.setattr(UniformAssignor, "assign", assign)


def a_refused_upgrade_shortens_the_session_of_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Any = vars(upgrade)["_answer_parked"]

    def answer_parked(step: Step, classic: ClassicGroup) -> None:
        waiting = [member.member_id for member in classic.members.values() if member.awaiting_sync is not None]
        real(step, classic)
        for member_id in waiting:
            step.arm(f"session:{member_id}", 1)

    monkeypatch.setattr(upgrade, "_answer_parked", answer_parked)


def a_downgrade_forgets_who_has_what(monkeypatch: pytest.MonkeyPatch) -> None:
    """The classic group has members that are Stable and have nothing."""
    monkeypatch.setattr(downgrade, "assignment_bytes", lambda target, image, version: encode_assignment(Assignment()))


def an_empty_group_stays_when_a_join_has_no_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    """In Kafka it is gone by then, and a classic group without members there."""
    real: Any = vars(classic_join)["_begin_classic_group"]

    def begin(step: Step, request: JoinGroupRequest) -> None:
        if not request.member_id and not request.protocols:
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "no_common_protocol", "")
        real(step, request)

    monkeypatch.setattr(classic_join, "_begin_classic_group", begin)


def what_a_heartbeat_tells_of_topics_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the fast way of a classic heartbeat did not look at what comes with it."""
    real: Any = vars(coordinator)["fast_heartbeat"]

    def fast_heartbeat(step: Step, event: RequestEvent, request: HeartbeatRequest) -> bool:
        return bool(real(step, replace(event, envelope=replace(event.envelope, topic_metadata=UNSET)), request))

    monkeypatch.setattr(coordinator, "fast_heartbeat", fast_heartbeat)
