"""Heartbeats that change nothing but their member's deadline, as nearly all do, are answered without a step."""

from __future__ import annotations

from coordinator_state.api_versions import API_VERSIONS
from coordinator_state.consumer import timers
from coordinator_state.consumer.configuration import member_intervals
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.consumer.member import ConsumerMember, MemberState
from coordinator_state.consumer.regexes import refresh_is_due
from coordinator_state.group import Group
from coordinator_state.outputs import Answer, RequestEvent
from coordinator_state.step import Step
from coordinator_state.timers import Timer
from coordinator_state.topics_image import NO_TOPICS
from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from schemas.error_codes import ErrorCode
from schemas.group_metadata_events import TopicMetadata

_API = "ConsumerGroupHeartbeat"
_VERSIONS = API_VERSIONS[_API]
_NO_TIMEOUT = -1
_NOT_BLANK = "!"
"""An id that is at least this string begins with a character that Java's `String.trim` does not remove."""
_STABLE, _NO_ERROR = MemberState.STABLE, ErrorCode.NONE
_response = ConsumerGroupHeartbeatResponse


def fast_member_heartbeat(step: Step, event: RequestEvent, request: ConsumerGroupHeartbeatRequest) -> bool:
    """Handle the heartbeat of a member that is told nothing new.

    False, and nothing done: it needs a step with `member_heartbeat`. A property test holds the two ways against each
    other. What the member says it owns does not matter, as it has all that it is to have.
    """
    group = step.group
    if group is None or type(body := group.body) is not ConsumerGroup:
        return False
    envelope, member_id = event.envelope, request.member_id
    member, member_epoch, api_version = body.members.get(member_id), request.member_epoch, envelope.api_version
    if (
        member is None
        or not 0 < member_epoch == member.member_epoch == body.assignment_epoch == body.group_epoch
        or member.state is not _STABLE
        or member.classic is not None
        or request.subscribed_topic_names is not None
        or request.subscribed_topic_regex is not None
        or request.rebalance_timeout_ms != _NO_TIMEOUT
        or request.server_assignor is not None
        or request.rack_id is not None
        or (member.server_assignor is not None and _may_change_assignor(step, body))
        or envelope.client_id != member.client_id
        or envelope.client_host != member.client_host
        or api_version not in _VERSIONS
        or member_id < _NOT_BLANK
        or not (request.instance_id is None or _is_of_instance(body, member, request.instance_id))
        or (envelope.topic_metadata and _tells_news(group, envelope.topic_metadata))
    ):
        return False
    offset, no_deadline_before_ms, own = event.offset, step.no_deadline_before_ms, group.configuration
    now_ms = group.now_ms if event.clock_ms < group.now_ms else event.clock_ms
    intervals = step.member_intervals if own is None else member_intervals(step.config, own)
    deadline_ms = now_ms + intervals.session_timeout_ms
    if now_ms >= no_deadline_before_ms or deadline_ms < no_deadline_before_ms:
        return False
    look_again_ms, epoch = body.metadata_deadline
    if now_ms >= look_again_ms or member_epoch < epoch or (body.regex_counts and _resolves(step, body, now_ms)):
        return False
    group.now_ms, group.timestamp_ms = now_ms, event.timestamp_ms
    group.seq = seq = group.seq + 1
    name, armed = timers.SESSION_PREFIX + member_id, group.timers
    armed.pop(name, None)
    armed[name] = Timer(deadline_ms, now_ms, offset)
    response = _response(_NO_ERROR, None, member_id, member_epoch, intervals.heartbeat_interval_ms)
    request_id, partition = envelope.request_id, envelope.reply_partition
    step.outputs.append(
        Answer(group.group_id, group.epoch, seq, now_ms, request_id, partition, _API, api_version, offset, response)
    )
    return True


def _tells_news(group: Group, metadata: TopicMetadata) -> bool:
    image = group.topics or NO_TOPICS
    return image.learn(metadata) is not image


def _is_of_instance(body: ConsumerGroup, member: ConsumerMember, instance_id: str) -> bool:
    """Return whether this is the static member's instance id, and it has not gone to another member."""
    return (
        instance_id == member.instance_id
        and body.static_members.get(instance_id) == member.member_id
        and instance_id >= _NOT_BLANK
    )


def _may_change_assignor(step: Step, body: ConsumerGroup) -> bool:
    """Return whether a vote that stays as it is may raise the epoch: of a tie it can."""
    return len(body.assignor_votes) > 1 and step.config.kafka_version.assignor_vote_raises_epoch


def _resolves(step: Step, body: ConsumerGroup, now_ms: int) -> bool:
    """Return whether it is time to resolve the expressions again."""
    return refresh_is_due(body, step.image, now_ms, step.config, body.regex_counts, False)
