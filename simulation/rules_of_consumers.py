"""These rules check consumer groups (KIP-848): owners, epochs, topics, and the sessions of native members."""

from __future__ import annotations

from coordinator_state import Answer, GroupConfig, LogRecord
from coordinator_state.topics_image import TopicsImage
from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from schemas.consumer_group_records import METADATA_TYPE, TARGET_METADATA_TYPE
from schemas.error_codes import ErrorCode
from schemas.group_metadata_events import GroupConfiguration, TopicMetadata
from schemas.history import MemberExpired
from schemas.wire import INT16
from simulation.checker import Rule, Step


class OneOwnerAtATime(Rule):
    """No partition is given to a member before the one that had it has given it up."""

    def check(self, step: Step) -> str | None:
        group = step.consumer
        if group is None or not step.outputs:
            return None
        owners: dict[tuple[str, int], str] = {}
        for member in group.members.values():
            for owned in (member.assigned, member.pending_revocation):
                for partition in ((topic_id, number) for topic_id, numbers in owned.items() for number in numbers):
                    if partition in owners:
                        return f"{partition} belongs to {owners[partition]} and {member.member_id}"
                    owners[partition] = member.member_id
        return None


class EpochsInOrder(Rule):
    """A group's epochs never fall; the target's is never ahead of the group's, nor a member's of the target's. A group
    that a refused JoinGroup has removed begins anew."""

    def __init__(self, config: GroupConfig) -> None:
        super().__init__(config)
        self._life = -1
        self._epochs = (0, 0)
        self._was_removed = False

    def check(self, step: Step) -> str | None:
        group = step.consumer
        if group is None or step.group is None:
            self._life = -1
            return None
        before, self._epochs = self._epochs, (group.group_epoch, group.assignment_epoch)
        is_same = self._life == step.group.epoch and step.before is not None and step.before.is_consumer
        self._life = step.group.epoch
        was_removed, self._was_removed = self._was_removed, group.is_removed
        if is_same and not was_removed and (self._epochs[0] < before[0] or self._epochs[1] < before[1]):
            return f"the epochs of group and target fell from {before} to {self._epochs}"
        if group.assignment_epoch > group.group_epoch:
            return f"the target is of epoch {group.assignment_epoch}, the group of {group.group_epoch}"
        for member in group.members.values():
            if member.member_epoch > group.assignment_epoch:
                epoch, target_epoch = member.member_epoch, group.assignment_epoch
                return f"{member.member_id} is in epoch {epoch}, the target in {target_epoch}"
        return None


class RulesAsLogged(Rule):
    """A consumer group that becomes empty ends its assignment where the log goes by the rules of 4.4, and only there.
    """

    def check(self, step: Step) -> str | None:
        group, before = step.consumer, step.before
        if group is None or before is None or not before.is_consumer or not before.members or group.members:
            return None
        records = [output for output in step.outputs if isinstance(output, LogRecord) and output.value is not None]
        types = [INT16.unpack_from(record.key)[0] for record in records]
        if METADATA_TYPE not in types:
            return None
        last_bump = len(types) - types[::-1].index(METADATA_TYPE)
        ends = TARGET_METADATA_TYPE in types[last_bump:]
        if ends == (step.rules == "4.4"):
            return None
        return f"the rules are {step.rules}, and the target of the emptied group {'is' if ends else 'is not'} ended"


class TopicsAsTold(Rule):
    """A group knows each topic as it was told of it, by an event or by what came with a request, or as later news have
    it."""

    def check(self, step: Step) -> str | None:
        told = step.told
        if step.event is not None and step.event.envelope.topic_metadata:
            told = step.event.envelope.topic_metadata
        if step.group is None or step.before is None or not isinstance(told, TopicMetadata):
            return None
        known = TopicsImage() if step.group.topics is None else step.group.topics
        versions = known.absent | {name: topic.version for name, topic in known.topics.items()}
        for name in (*(topic.name for topic in told.topics), *told.absent):
            if versions.get(name, -1) < told.version:
                return f"the group knows {name} as of version {versions.get(name)}, and was told version {told.version}"
        return None


class NativeSessionsKept(Rule):
    """A native member whose heartbeat was accepted within its session is not expired; any other is, as soon as the
    clock reaches its deadline."""

    def __init__(self, config: GroupConfig) -> None:
        super().__init__(config)
        self._own = GroupConfiguration()
        self._good_until_ms: dict[str, int] = {}

    def check(self, step: Step) -> str | None:
        if isinstance(step.told, GroupConfiguration):
            self._own = step.told
        for output in step.outputs:
            if isinstance(output, MemberExpired):
                until_ms = self._good_until_ms.get(output.member.member_id, 0)
                if output.time_ms < until_ms:
                    return f"{output.member.member_id} is expired {until_ms - output.time_ms} ms too early"
        group = step.consumer
        if group is None or step.group is None:
            self._good_until_ms.clear()
            return None
        now_ms = step.group.now_ms
        native = [member.member_id for member in group.members.values() if member.classic is None]
        self._good_until_ms = {
            member_id: self._good_until_ms[member_id] + step.moved_ms
            for member_id in native
            if member_id in self._good_until_ms
        }
        heard = [self._heard(step)] if not step.renewed else native
        for member_id in heard:
            if member_id in native:
                until_ms = self._good_until_ms.get(member_id, 0) if step.renewed else 0
                self._good_until_ms[member_id] = max(until_ms, now_ms + self._session_ms)
        for member_id in native:
            late_ms = max(now_ms, step.clock_ms) - self._good_until_ms.get(member_id, 0)
            if late_ms >= 0:
                return f"{member_id} is still a member {late_ms} ms after the end of its session"
        return None

    @property
    def _session_ms(self) -> int:
        own_ms, of_all_ms = self._own.consumer_session_timeout_ms, self.config.group_consumer_session_timeout_ms
        least_ms, most_ms = (
            self.config.group_consumer_min_session_timeout_ms,
            self.config.group_consumer_max_session_timeout_ms,
        )
        return min(max(of_all_ms if own_ms is None else own_ms, least_ms), most_ms)

    def _heard(self, step: Step) -> str | None:
        """Return the member whose heartbeat was accepted in this step."""
        event = step.event
        if event is None or not isinstance(event.request, ConsumerGroupHeartbeatRequest):
            return None
        for output in step.outputs:
            if (
                isinstance(output, Answer)
                and output.answers_offset == event.offset
                and isinstance(output.response, ConsumerGroupHeartbeatResponse)
                and output.response.error_code is ErrorCode.NONE
                and output.response.member_epoch >= 0
            ):
                return output.response.member_id
        return None
