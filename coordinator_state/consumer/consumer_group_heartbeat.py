"""ConsumerGroupHeartbeat: API key 68, versions 0-1 (1: regular expressions; the member makes its own id, KIP-1082).

Source: `GroupCoordinatorService.consumerGroupHeartbeat`, `GroupMetadataManager.consumerGroupHeartbeat` (Kafka 4.3).
"""

from __future__ import annotations

from coordinator_state.consumer.heartbeat import member_heartbeat
from coordinator_state.consumer.leave import member_leaves
from coordinator_state.errors import Refusal
from coordinator_state.step import Step
from schemas.consumer_group_messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupHeartbeatRequest,
)
from schemas.error_codes import ErrorCode

OWN_MEMBER_ID_VERSION = 1
_NO_TIMEOUT = -1
_TRIMMED = "".join(map(chr, range(0x21)))
"""What Java's `String.trim` takes away."""


def consumer_group_heartbeat(step: Step, request: ConsumerGroupHeartbeatRequest) -> None:
    """Let a member join, report, or leave, and tell it what it owns now."""
    _validate(step, request)
    if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
        member_leaves(step, request)
    else:
        member_heartbeat(step, request)


def _validate(step: Step, request: ConsumerGroupHeartbeatRequest) -> None:
    """Check the request by itself, in Kafka's order."""
    epoch = request.member_epoch
    has_own_id = step.envelope.api_version >= OWN_MEMBER_ID_VERSION or epoch > 0
    if (has_own_id or epoch == LEAVE_EPOCH) and _is_blank(request.member_id):
        raise _invalid("member_id_is_blank", "the member id is empty")
    if _is_blank(request.group_id):
        raise _invalid("empty_group_id", "the group id is empty")
    if request.instance_id is not None and _is_blank(request.instance_id):
        raise _invalid("instance_id_is_blank", "the instance id is empty")
    if request.rack_id is not None and _is_blank(request.rack_id):
        raise _invalid("rack_id_is_blank", "the rack id is empty")
    if epoch == JOIN_EPOCH:
        _validate_join(request)
    elif epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise _invalid("no_instance_id", "a member without an instance id cannot leave for a while")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise _invalid("unknown_epoch", f"{epoch} is no member epoch")
    assignor = request.server_assignor
    if assignor is not None and assignor not in step.config.consumer_assignors:
        raise Refusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            "unknown_assignor",
            f"the request asks for the assignor {assignor!r:.100}; group.consumer.assignors is "
            f"{step.config.group_consumer_assignors!r:.300}",
        )


def _validate_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == _NO_TIMEOUT:
        raise _invalid("no_rebalance_timeout", "who joins must name a rebalance timeout")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("joins_with_partitions", "who joins must say that it owns nothing")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("no_subscription", "who joins must subscribe by names or by a regular expression")


def _is_blank(text: str) -> bool:
    return not text.strip(_TRIMMED)


def _invalid(rule: str, detail: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, rule, detail)
