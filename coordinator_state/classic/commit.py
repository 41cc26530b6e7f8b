"""The checks of a classic group whether the sender of an OffsetCommit, or of a TxnOffsetCommit, may commit."""

from __future__ import annotations

from coordinator_state.classic import states, timers
from coordinator_state.classic.changes import begin_group
from coordinator_state.classic.checks import require_generation, require_member
from coordinator_state.classic.group import classic_or_none
from coordinator_state.errors import Refusal
from coordinator_state.step import Step
from schemas.error_codes import ErrorCode
from schemas.history import GroupCreated
from schemas.messages import NO_GENERATION, OffsetCommitRequest, TxnOffsetCommitRequest

GROUP_ID_NOT_FOUND_VERSION = 9
TXN_MEMBER_EPOCH_VERSION = 6
"""Earlier versions of TxnOffsetCommit know of generations alone."""


def validate_offset_commit(step: Step, request: OffsetCommitRequest) -> None:
    """Check a commit as Kafka does, in its order. A commit without a group creates a simple group."""
    group = classic_or_none(step.group)
    generation_id = request.generation_id_or_member_epoch
    if group is None:
        commit_without_group(step, request)
        return
    if generation_id <= NO_GENERATION and group.state is states.EMPTY:
        return
    if generation_id <= NO_GENERATION and not request.member_id and request.group_instance_id is None:
        raise Refusal(
            ErrorCode.UNKNOWN_MEMBER_ID, "commit_without_membership", "the group has members; only they may commit"
        )
    member = require_member(group, request.member_id, request.group_instance_id)
    require_generation(group, generation_id)
    if group.state is states.COMPLETING_REBALANCE:
        group.note_rebalance_known(member, step.timestamp_ms)
        raise Refusal(
            ErrorCode.REBALANCE_IN_PROGRESS,
            "commit_before_sync",
            "the member has not yet got its assignment of this generation",
        )
    step.arm(timers.session(member.member_id), member.session_timeout_ms)


def validate_txn_offset_commit(step: Step, request: TxnOffsetCommitRequest) -> None:
    """Check a commit in a transaction as Kafka does, in its order: unlike others, it is taken from anybody in every
    state, and from a member that has no assignment yet."""
    group = classic_or_none(step.group)
    if group is None:
        txn_commit_without_group(step, request)
        return
    if request.generation_id <= NO_GENERATION and group.state is states.EMPTY:
        return
    if request.generation_id > NO_GENERATION or request.member_id or request.group_instance_id is not None:
        require_member(group, request.member_id, request.group_instance_id)
        require_generation(group, request.generation_id)


def commit_without_group(step: Step, request: OffsetCommitRequest) -> None:
    """Let a commit of nobody begin a simple group. Raises `Refusal` if it speaks of a generation."""
    has_code = step.envelope.api_version >= GROUP_ID_NOT_FOUND_VERSION
    code = ErrorCode.GROUP_ID_NOT_FOUND if has_code else ErrorCode.ILLEGAL_GENERATION
    _begin_simple_group(step, request.generation_id_or_member_epoch, code)


def txn_commit_without_group(step: Step, request: TxnOffsetCommitRequest) -> None:
    """Do the same in a transaction."""
    has_code = step.envelope.api_version >= TXN_MEMBER_EPOCH_VERSION
    code = ErrorCode.GROUP_ID_NOT_FOUND if has_code else ErrorCode.ILLEGAL_GENERATION
    _begin_simple_group(step, request.generation_id, code)


def _begin_simple_group(step: Step, generation_id: int, unknown: ErrorCode) -> None:
    if generation_id >= 0:
        raise Refusal(unknown, "unknown_group", "there is no such group, so no such generation")
    changes = begin_group(step)
    changes.lead(GroupCreated(*changes.fields()))
