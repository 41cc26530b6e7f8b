"""What one request, event or timer changes in a consumer group.

Handlers see the group as it was before. What they change they write as records; at the end all records are appended to
the offsets log and applied to the group, in their order. Who raises a `Refusal` before that has changed nothing.
Source: `CoordinatorResult`, and the methods `replay` of `GroupMetadataManager` (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from coordinator_state.consumer.group import ConsumerGroup, ResolvedRegex, new_group
from coordinator_state.consumer.history import Narrator
from coordinator_state.consumer.member import ConsumerMember, TargetAssignment
from coordinator_state.consumer.sizes import member_bytes, target_bytes
from coordinator_state.consumer.timers import timer_of
from coordinator_state.errors import Refusal
from coordinator_state.group import Group
from coordinator_state.step import Step
from coordinator_state.topics_image import TopicsImage
from schemas.consumer_group_history import EpochReason
from schemas.consumer_group_records import (
    CURRENT_MEMBER_TYPE,
    MEMBER_METADATA_TYPE,
    METADATA_TYPE,
    REGULAR_EXPRESSION_TYPE,
    TARGET_MEMBER_TYPE,
    TARGET_METADATA_TYPE,
    current_member_value,
    group_key,
    member_metadata_value,
    metadata_value,
    named_key,
    regular_expression_value,
    target_member_value,
    target_metadata_value,
)
from schemas.error_codes import ErrorCode

NO_HASH = NO_TIME_MS = 0
"""Is not written."""

Apply = Callable[[ConsumerGroup], None]


class Changes:
    """The records of one step, and what they do to the group."""

    def __init__(self, step: Step, group: ConsumerGroup, *, is_new: bool = False) -> None:
        self.step = step
        self.group = group
        """The group before the step. Of a group that is new, or was a classic one, a copy that is thrown away."""
        if is_new and step.group is not None:
            group.regex_refresh_began_ms = step.group.body.regex_refresh_began_ms
        self.is_new = is_new
        self.narrator = Narrator(step, group)
        self.cancelled: list[str] = []
        """Timers that end with this step."""
        self.armed: dict[str, int] = {}
        """Timers that begin with this step, and their length in milliseconds."""
        self.answer_first: Callable[[], None] = lambda: None
        """Answers parked requests, which end with this step."""
        self._records: list[tuple[bytes, bytes | None, Apply | None]] = []
        self._members: dict[str, ConsumerMember | None] = {}
        """Members as they will be; None: they will be gone."""
        self._targets: dict[str, TargetAssignment] = {}

    @property
    def image(self) -> TopicsImage:
        """The cluster's topics."""
        return self.step.image

    def __bool__(self) -> bool:
        return bool(self._records)

    # ------------------------------------------------------------------------------------------------------- records

    def append(self, key: bytes, value: bytes | None, apply: Apply | None = None) -> None:
        """Append any record."""
        self._records.append((key, value, apply))

    def put_member(self, member: ConsumerMember) -> None:
        """Write what a member asks for (type 5)."""
        classic = member.classic
        value = member_metadata_value(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=member.subscribed_topic_names,
            subscribed_topic_regex=member.subscribed_topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic=None if classic is None else (classic.session_timeout_ms, classic.supported_protocols),
        )
        self._put(MEMBER_METADATA_TYPE, member, value)
        self.narrator.member(member)

    def put_epoch(self, epoch: int, metadata_hash: int, reasons: Iterable[EpochReason]) -> None:
        """Write the group epoch (type 3)."""

        def apply(group: ConsumerGroup) -> None:
            group.group_epoch, group.metadata_hash = epoch, metadata_hash

        written_hash = metadata_hash if self.step.config.kafka_version.has_metadata_hash else NO_HASH
        self.append(group_key(METADATA_TYPE, self.step.group_id), metadata_value(epoch, written_hash), apply)
        self.narrator.epoch(metadata_hash, reasons)

    def put_target(self, member_id: str, target: TargetAssignment) -> None:
        """Write the target assignment of a member (type 7)."""
        self._targets[member_id] = target
        value = target_member_value(target)
        self.append(
            self._key(TARGET_MEMBER_TYPE, member_id), value, lambda group: group.put_target(member_id, target)
        )

    def put_target_epoch(self, epoch: int, timestamp_ms: int) -> None:
        """Write the epoch of the target assignment (type 6)."""

        def apply(group: ConsumerGroup) -> None:
            group.assignment_epoch, group.assignment_timestamp_ms = epoch, timestamp_ms

        written_ms = timestamp_ms if self.step.config.kafka_version.has_assignment_epochs else NO_TIME_MS
        value = target_metadata_value(epoch, written_ms)
        self.append(group_key(TARGET_METADATA_TYPE, self.step.group_id), value, apply)

    def put_current(self, member: ConsumerMember) -> None:
        """Write what a member owns (type 8)."""
        value = current_member_value(
            member.member_epoch,
            member.previous_member_epoch,
            int(member.state),
            member.assigned,
            member.pending_revocation,
            with_epochs=self.step.config.kafka_version.has_assignment_epochs,
        )
        self._put(CURRENT_MEMBER_TYPE, member, value)

    def put_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Write the topics of an expression (type 16); None: its tombstone."""
        value = None if resolved is None else regular_expression_value(
            resolved.topics, resolved.version, resolved.timestamp_ms
        )
        key = self._key(REGULAR_EXPRESSION_TYPE, regex)
        self.append(key, value, lambda group: group.put_regex(regex, resolved))
        self.narrator.regex(regex, None if resolved is None else resolved.topics)

    def remove_member(self, member_id: str) -> None:
        """Write a member's tombstones (types 8, 7 and 5)."""
        self._members[member_id], self._targets[member_id] = None, ()
        self.append(self._key(CURRENT_MEMBER_TYPE, member_id), None)
        self.append(self._key(TARGET_MEMBER_TYPE, member_id), None, lambda group: group.remove_target(member_id))
        self.append(self._key(MEMBER_METADATA_TYPE, member_id), None, lambda group: group.remove_member(member_id))

    def _put(self, record_type: int, member: ConsumerMember, value: bytes) -> None:
        self._members[member.member_id] = member
        self.append(self._key(record_type, member.member_id), value, lambda group: group.put_member(member))

    def _key(self, record_type: int, name: str) -> bytes:
        return named_key(record_type, self.step.group_id, name)

    # ----------------------------------------------------------------------------------------------------- the end

    def require_size(self, member_id: str) -> None:
        """`group_max_bytes`: nothing is added that makes the group too large. Raises `Refusal`: a member that joins is
        told that the group is full, another one what Kafka says when its log does not take the records."""
        most, group = self.step.config.group_max_bytes, self.group
        growth = sum([
            _bytes_of(after) - _bytes_of(group.members.get(name)) for name, after in self._members.items()
        ]) + sum([
            target_bytes(after) - target_bytes(group.targets.get(name, ())) for name, after in self._targets.items()
        ]) + sum([
            group.growth_of_instance(after.instance_id, name)
            for name, after in self._members.items()
            if after is not None and after.instance_id is not None
        ])
        if growth > 0 and group.members_bytes + growth > most:
            joins = member_id not in group.members
            raise Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED if joins else ErrorCode.UNKNOWN_SERVER_ERROR,
                "group_is_too_large",
                f"the members, and what they own and shall own, would exceed group_max_bytes ({most})",
            )

    def commit(self) -> Group:
        """Append the records and apply them; returns the group."""
        self.answer_first()
        step = self.step
        group = self._begin() if self.is_new else step.require_group()
        body = group.body
        assert type(body) is ConsumerGroup
        for key, value, apply in self._records:
            step.append_record(key, value)
            if apply is not None:
                apply(body)
        for name in self.cancelled:
            step.cancel(name)
        for name, delay_ms in self.armed.items():
            if timer_of(name).member_id in body.members:
                step.arm(name, delay_ms)
        if self._records:
            state = body.state_name
            if state != body.last_state:
                body.last_state, body.state_since_ms = state, step.now_ms
            step.note_change()
            self.narrator.tell(body)
        return group

    def _begin(self) -> Group:
        """Let there be a consumer group. The records make it, as in Kafka: nothing else of the copy is kept."""
        step = self.step
        body = new_group(step.config.kafka_version, step.now_ms)
        if step.group is None:
            group = step.create_group(body)
            self.narrator.created()
            return group
        body.regex_refresh_began_ms = step.group.body.regex_refresh_began_ms
        step.group.body = body
        return step.group


def _bytes_of(member: ConsumerMember | None) -> int:
    return 0 if member is None else member_bytes(member)
