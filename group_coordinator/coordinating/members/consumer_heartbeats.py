"""A member of a consumer group joins, acknowledges and stays in the group by heartbeats.

They come at the interval that the coordinator says; at once where the member joins or has an assignment to acknowledge.
Each says what has changed since the last one; after an error or silence, everything. Source: Kafka's
`ConsumerHeartbeatRequestManager`. It differs in that a refused join is repeated after a pause, not at once, and that
TOPIC_AUTHORIZATION_FAILED ends the member: who reads the events does not know who may read topics.
"""

from __future__ import annotations

from dataclasses import dataclass

from group_coordinator.coordinating.members.membership import IN_GROUP, ConsumerMembership, ConsumerMemberState
from group_coordinator.coordinating.members.reconciliation import LocalAssignment, Reconciliation
from group_coordinator.coordinating.members.requests import PendingRequest
from schemas.consumer_group_messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from schemas.error_codes import ErrorCode

API = "ConsumerGroupHeartbeat"
_AT_ONCE = (ConsumerMemberState.JOINING, ConsumerMemberState.ACKNOWLEDGING)


@dataclass(slots=True)
class _Told:
    """What the coordinator has been told since the last error, and must not be told again."""

    rebalance_timeout: bool = False
    names: tuple[str, ...] | None = None
    pattern: str | None = None
    assignor: str | None = None
    assignment: LocalAssignment | None = None


class ConsumerHeartbeats:
    """The member's heartbeats, and the time within which its application must poll."""

    def __init__(self, membership: ConsumerMembership, reconciliation: Reconciliation) -> None:
        self.names: tuple[str, ...] = ()
        self.pattern: str | None = None
        """The subscription: names of topics, or a regular expression."""
        self._membership = membership
        self._config = membership.config
        self._reconciliation = reconciliation
        self._interval_ms = 0
        self._due_ms = 0
        self._not_before_ms = 0
        self._attempts = 0
        self._poll_ends_ms = 0
        self._in_flight: PendingRequest | None = None
        self._told = _Told()
        self._had_pattern = False
        """The coordinator may know an expression of the member, which must be taken back."""

    def polled(self) -> None:
        """Note that the application has polled."""
        self._poll_ends_ms = self._membership.now_ms + self._config.max_poll_interval_ms

    @property
    def subscription_is_told(self) -> bool:
        return self._told.names == self.names and (self._told.pattern or None) == self.pattern

    def poll_interval_exceeded(self) -> bool:
        return self._application_must_poll() and self._poll_ends_ms <= self._membership.now_ms

    def next_deadline_ms(self) -> int | None:
        if self._membership.state not in IN_GROUP:
            return None
        deadlines = [self._poll_ends_ms] if self._application_must_poll() else []
        if self._in_flight is None:
            deadlines.append(self._next_ms())
        return min(deadlines, default=None)

    def send_if_due(self) -> None:
        """Send a heartbeat if it is time and none is unanswered."""
        membership = self._membership
        if membership.state in IN_GROUP and self._in_flight is None and self._next_ms() <= membership.now_ms:
            self._due_ms = membership.now_ms + self._interval_ms
            self._in_flight = membership.send(API, self._request())
            if membership.state is ConsumerMemberState.ACKNOWLEDGING:
                self._reconciliation.acknowledged()

    def tell_all(self) -> None:
        """Tell everything in the next heartbeat, whose answer then has the assignment."""
        self._told = _Told()

    def forget(self) -> None:
        """Expect no answer any more, and tell everything in the next heartbeat: the place in the group is gone."""
        if self._in_flight is not None:
            self._membership.requests.give_up(self._in_flight)
        self._in_flight = None
        self._told = _Told()
        self._due_ms = self._not_before_ms = self._membership.now_ms

    def on_response(self, response: ConsumerGroupHeartbeatResponse) -> None:
        """Take the answer; the errors that cost the place in the group are the caller's."""
        membership = self._membership
        self._in_flight = None
        error_code = response.error_code
        if error_code is ErrorCode.NONE:
            self._succeeded(response)
        elif error_code.retriable:
            membership.note_error(error_code)
            self._repeat()
        else:
            reason = response.error_message or error_code.meaning
            membership.fail(error_code, f"ConsumerGroupHeartbeat was refused: {reason}")

    def on_timeout(self) -> None:
        """Send another one: the last one got no answer."""
        self._in_flight = None
        self._membership.coordinator_unknown("no answer in time")
        self._repeat()

    def _succeeded(self, response: ConsumerGroupHeartbeatResponse) -> None:
        membership = self._membership
        self._attempts = 0
        if response.heartbeat_interval_ms != self._interval_ms:
            self._interval_ms = response.heartbeat_interval_ms
            self._due_ms = membership.now_ms + self._interval_ms
        membership.set_epoch(response.member_epoch)
        if response.assignment is not None and membership.state is not ConsumerMemberState.PREPARE_LEAVING:
            self._reconciliation.take_target(response.assignment)

    def _repeat(self) -> None:
        self._told = _Told()
        self._due_ms = self._membership.now_ms
        self._not_before_ms = self._membership.now_ms + self._config.backoff_ms(self._attempts)
        self._attempts += 1

    def _next_ms(self) -> int:
        at_once = self._membership.state in _AT_ONCE
        return self._not_before_ms if at_once else max(self._due_ms, self._not_before_ms)

    def _application_must_poll(self) -> bool:
        state = self._membership.state
        return state in IN_GROUP and state is not ConsumerMemberState.PREPARE_LEAVING

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        membership, config, told = self._membership, self._config, self._told
        joins = membership.state is ConsumerMemberState.JOINING
        assignor, assignment = config.group_remote_assignor, self._reconciliation.current
        request = ConsumerGroupHeartbeatRequest(
            group_id=config.group_id,
            member_id=membership.generation.member_id,
            member_epoch=membership.generation.generation_id,
            instance_id=config.group_instance_id,
            rack_id=(config.client_rack or None) if joins else None,
            rebalance_timeout_ms=config.max_poll_interval_ms if joins or not told.rebalance_timeout else -1,
            subscribed_topic_names=self.names if joins or self.names != told.names else None,
            subscribed_topic_regex=self._pattern_to_tell(joins),
            server_assignor=assignor if joins or assignor != told.assignor else None,
            topic_partitions=_partitions(assignment) if joins or assignment != told.assignment else None,
        )
        self._had_pattern = self._had_pattern or self.pattern is not None
        pattern = (self.pattern or "") if self._had_pattern else None
        self._told = _Told(True, self.names, pattern, assignor, assignment)
        return request

    def _pattern_to_tell(self, joins: bool) -> str | None:
        """The expression where it is new, an empty one where there is none any more."""
        pattern = (self.pattern or "") if self._had_pattern else self.pattern
        return pattern if joins or pattern != self._told.pattern else None


def _partitions(assignment: LocalAssignment) -> tuple[TopicPartitions, ...]:
    return tuple(
        TopicPartitions(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in sorted(assignment.partitions.items())
    )
