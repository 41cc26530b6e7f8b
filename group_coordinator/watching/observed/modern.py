"""The history of a consumer group (KIP-848), and of share and streams groups, from their records and hints in the logs.

The records of one step share a timestamp: together they tell which change led to the group's new epoch. Lines tell how
members went and which assignor was used; reasons of epochs are in no log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from msgspec.structs import asdict, replace

from group_coordinator.watching.broker_logs import broker_lines as line_events
from group_coordinator.watching.narrative import words
from group_coordinator.watching.observed.hints import Hints, how
from group_coordinator.watching.observed.modern_records import AWAY, Current, Step, changed_topics
from group_coordinator.watching.observed.rebalances import Rebalances
from group_coordinator.watching.observed.teller import Teller
from schemas.consumer_group_history import (
    SUBSCRIPTION,
    TRIGGERS,
    ConsumerMember,
    ConsumerMemberAway,
    ConsumerMemberJoined,
    ConsumerMemberUpdated,
    EpochReason,
    GroupEpochBumped,
    GroupKind,
    GroupReconciling,
    MemberReconciled,
    MembersReconciled,
    RegexResolved,
    TargetAssignmentComputed,
)
from schemas.history import (
    AssignedTopic,
    Certainty,
    GroupCreated,
    GroupDead,
    GroupEmpty,
    MemberAssignment,
    MemberExpired,
    MemberIdentity,
    MemberReplaced,
    RecordingGap,
)

BEFORE = "nothing is known of the group before this"
_COMPARED = (
    "subscribed_topics", "subscribed_regex", "server_assignor", "rack_id", "rebalance_timeout_ms",
    "session_timeout_ms", "protocols",
)  # fmt: skip
_IDENTITY = ("client_id", "client_host", "group_instance_id")


class ModernGroup(Rebalances):
    """One group that has epochs, followed step by step."""

    def __init__(self, teller: Teller, kind: GroupKind, hints: Hints) -> None:
        super().__init__(teller)
        self._hints = hints
        self.kind = kind
        self.members: dict[str, ConsumerMember] = {}
        self._targets: dict[str, tuple[AssignedTopic, ...]] = {}
        self._current: dict[str, Current] = {}
        self._target_epoch = 0
        self._metadata_hash: int | None = None
        self._topics: dict[str, tuple[bytes, int]] | None = None
        """What the group subscribes to, where the records tell it."""
        self._regexes: dict[str, tuple[str, ...]] = {}
        self._is_known = False
        self._was_empty = False
        """It is known that nobody was in the group before the step that is read."""
        self._death: Literal["deleted", "expired", "not_known"] = "not_known"
        """What a line says of the group's end."""
        self._is_unsettled = False
        """Not every member owns what its target gives it, as history has it, and no rebalance is told."""
        self._causes: dict[EpochReason, tuple[int, MemberIdentity | None, str]] = {}
        """What may have led to an epoch, in the step that is read: the record that says so, the member, the words."""
        self._last_cause: int | None = None
        """The last of these records. Each leads to the next: all of them led to the epoch."""

    def line(self, event: line_events.LineEvent) -> None:
        """Take a line of a broker's log, before the step that it tells of."""
        match event:
            case line_events.GroupDeleted():
                self._death = "deleted"
            case line_events.GroupExpired():
                self._death = "expired"
            case _:
                pass

    def is_moved_by(self, event: line_events.LineEvent) -> bool:
        """Return whether a line tells of a change that no record of the group has."""
        match event:
            case line_events.EpochBumped():
                return event.epoch > self._tell.generation_id
            case line_events.TargetComputed():
                return event.epoch > self._target_epoch
            case line_events.StaticMemberAway():
                current = self._current.get(event.member_id)
                return current is not None and current.member_epoch != AWAY
            case line_events.MemberDeparted() | line_events.MemberFencedOut():
                return event.member_id in self.members
            case line_events.StaticMemberReplaced():
                return event.old_member_id in self.members
            case line_events.GroupConverted():
                return event.to_protocol == "classic"
            case _:
                return isinstance(event, line_events.RebalancePrepared | line_events.JoinPhaseEnded)

    @property
    def is_moving(self) -> bool:
        """Whether members are on their way to their targets."""
        return self._is_unsettled or self._running is not None

    def convert(self, members: Mapping[str, MemberIdentity]) -> None:
        """Begin as a group that was a classic one with these members."""
        self._is_known = True
        if not members:
            self._tell.generation_id = 0
        for identity in members.values():
            self.members[identity.member_id] = member_of_unknown_subscription(identity, uses_classic_protocol=True)

    def find(self, members: Iterable[ConsumerMember], epoch: int) -> None:
        """Begin in this epoch, with members of whom nothing is known before."""
        self._is_known = self._is_unsettled = True
        self._tell.generation_id = epoch
        self._tell.say(RecordingGap, certainty="not_known", reason=BEFORE)
        for member in members:
            self.members[member.member.member_id] = member
            self._tell.say(ConsumerMemberJoined, certainty="not_known", joined=member)
        self._tell.say(
            GroupEpochBumped, certainty="not_known", protocol=self.kind, reasons=("not_known",), metadata_hash=None
        )

    # --------------------------------------------------------------------------------------------------------- steps

    def step(self, step: Step, conversion: int | None = None) -> None:
        """Take what was written in one step. `conversion` is the record that says that the group was a classic one."""
        self._causes, self._last_cause = {}, conversion
        self._was_empty = self._is_known and not self.members
        if conversion is not None:
            self._causes["converted"] = conversion, None, "the group goes over to the consumer protocol"
            self._take_over(step)
            # All members are written anew when a group is converted.
            for member_id in [member_id for member_id in self.members if member_id not in step.members]:
                self._went(member_id)
        if not self._is_known:
            self._begin(step)
        self._members_changed(step)
        self._regexes_resolved(step)
        if step.topics is not None:
            self._topics_told(step.topics)
        if step.epoch is not None:
            self._bumped(step.epoch, step.metadata_hash)
        self._target_changed(step)
        for member_id, current in step.current.items():
            self._reconciled(member_id, current)
        if step.is_deleted:
            self._deleted()
        else:
            self._settle()

    def _take_over(self, step: Step) -> None:
        """Learn what the members of a classic group ask for: that it is written now is no change."""
        back = _by_instance(step)
        for member_id, known in self.members.items():
            asks, identity = step.members.get(member_id), known.member
            if asks is not None:
                identity = asks.member
            else:
                asks = back.get(identity.group_instance_id or "")
            if asks is not None:
                self.members[member_id] = replace(asks, member=identity, uses_classic_protocol=True)

    def _begin(self, step: Step) -> None:
        """Record the first that is known of the group."""
        self._is_known = True
        joined = [member for member in step.members.values() if member is not None]
        epoch = step.epoch
        if epoch is None and not any(member.subscribed_topics for member in joined):
            # Who has an expression alone waits until it is resolved, in the first epoch of a new group. What else has
            # no epoch was left by compaction.
            epoch = max((each.member_epoch for each in step.current.values() if each is not None), default=None)
        is_new = epoch is not None and epoch <= step.first_epoch
        if joined and is_new:
            self._was_empty = True
            self._last_cause = self._tell.say(GroupCreated)
        else:
            self._is_unsettled = True
            self._tell.say(RecordingGap, certainty="not_known", reason=BEFORE)

    def _members_changed(self, step: Step) -> None:
        written = {member_id: member for member_id, member in step.members.items() if member is not None}
        back = _by_instance(step)
        raises_epoch = step.epoch is not None and step.epoch != self._tell.generation_id
        for member_id, member in step.members.items():
            if member is None and member_id in self.members:
                successor = back.get(self.members[member_id].member.group_instance_id or "")
                if successor is None:
                    self._went(member_id)
                else:
                    self._came_back(member_id, successor, rebalanced=None if step.is_poll else raises_epoch)
        for member in written.values():
            known = self.members.get(member.member.member_id)
            self.members[member.member.member_id] = member
            if known is None:
                seq = self._tell.say(ConsumerMemberJoined, caused_by=self._last_cause, joined=member)
                self._note_cause("member_joined", seq, member.member, f"member {_name(member)} joined")
            elif known != member:
                self._updated(known, member)

    def _came_back(self, old_member_id: str, successor: ConsumerMember, rebalanced: bool | None) -> None:
        """Let a static member go on under another id with what it asked for; what else it asks for is told next."""
        identity = successor.member
        self.members[identity.member_id] = replace(self._forget(old_member_id), member=identity)
        seq = self._tell.say(
            MemberReplaced,
            caused_by=self._last_cause,
            member=identity,
            old_member_id=old_member_id,
            rebalanced=rebalanced,
        )
        words = f"static member {identity.group_instance_id} came back"
        self._note_cause("static_member_replaced", seq, identity, words)

    def _forget(self, member_id: str) -> ConsumerMember:
        self._targets.pop(member_id, None)
        self._current.pop(member_id, None)
        return self.members.pop(member_id)

    def _went(self, member_id: str) -> None:
        identity = self._forget(member_id).member
        reason, kind, fields, words = how(self._hints.departed.pop(member_id, None))
        stalled = self._hints.stalled.pop(member_id, None)
        if stalled is not None and kind is MemberExpired:
            fields["stalled_broker_id"] = stalled[1]
            self._last_cause = self._last_cause or stalled[0]
        seq = self._tell.say(kind, caused_by=self._last_cause, member=identity, **fields)
        self._note_cause(reason, seq, identity, f"member {identity.client_id or member_id} {words}")

    def _note_cause(self, reason: EpochReason, seq: int, member: MemberIdentity | None, words: str) -> None:
        """Note what may have led to an epoch. Of several that led to it alike the first one is named."""
        self._causes.setdefault(reason, (seq, member, words))
        self._last_cause = seq

    def _updated(self, known: ConsumerMember, member: ConsumerMember) -> None:
        changed = [name for name in _COMPARED if getattr(known, name) != getattr(member, name)]
        changed += [name for name in _IDENTITY if getattr(known.member, name) != getattr(member.member, name)]
        if known.uses_classic_protocol != member.uses_classic_protocol:
            changed.append("group_protocol")
        seq = self._tell.say(ConsumerMemberUpdated, caused_by=self._last_cause, updated=member, changed=tuple(changed))
        if SUBSCRIPTION & set(changed):
            words = f"member {_name(member)} subscribed to other topics"
            self._note_cause("subscription_changed", seq, member.member, words)

    def _regexes_resolved(self, step: Step) -> None:
        for regex, topics in step.regexes.items():
            if self._regexes.get(regex) != topics:
                seq = self._tell.say(RegexResolved, caused_by=self._last_cause, regex=regex, topics=topics)
                was = "matches topics" if regex not in self._regexes else "matches other topics"
                self._note_cause("regexes_resolved", seq, None, f"the pattern {regex} {was}")
            if topics is None:
                self._regexes.pop(regex, None)
            else:
                self._regexes[regex] = topics

    def _topics_told(self, topics: dict[str, tuple[bytes, int]]) -> None:
        """Note which topics are others than before, if nothing else has happened that would change them."""
        before, self._topics = self._topics, topics
        if before is not None and topics != before and not self._causes:
            self._causes["topics_changed"] = 0, None, words.listed(list(changed_topics(before, topics)))

    def _bumped(self, epoch: int, metadata_hash: int | None) -> None:
        """Take the group to another epoch. The other records of the same step led to it."""
        known_hash = self._metadata_hash
        if known_hash is not None and metadata_hash != known_hash and not self._causes:
            self._causes.setdefault("topics_changed", (0, None, "topics that the group subscribes to changed"))
        self._metadata_hash = metadata_hash
        if epoch == self._tell.generation_id:
            return
        reasons = tuple(reason for reason in TRIGGERS if reason in self._causes) or ("not_known",)
        _, member, words = self._causes.get(reasons[0], (0, None, "what changed is not known"))
        trigger = TRIGGERS[reasons[0]]
        certainty: Certainty = "not_known" if trigger == "not_known" else "inferred"
        self.begin(trigger, member, words, certainty=certainty, initial=self._was_empty, caused_by=self._last_cause)
        self._tell.generation_id = epoch
        self._tell.say(
            GroupEpochBumped, certainty="inferred", protocol=self.kind, reasons=reasons, metadata_hash=metadata_hash
        )

    def _target_changed(self, step: Step) -> None:
        for member_id, topics in step.targets.items():
            if topics is None:
                self._targets.pop(member_id, None)
            else:
                self._targets[member_id] = topics
        if step.target_epoch is not None:
            self._target_epoch = step.target_epoch
            if self._tell.generation_id == 0:
                return  # the epoch's record was compacted since, and whom it was for may be with it
            if not self.members and step.epoch == step.target_epoch and not step.is_timed and not step.is_poll:
                return  # with its last member a group's assignment ends, from Kafka 4.4 on: nothing was computed
            self._is_unsettled |= self._running is None  # as history has it with this record
            targets = self._targets.items()
            self._tell.say(
                TargetAssignmentComputed,
                assignment_epoch=step.target_epoch,
                assignor=self._hints.assignors.pop(step.target_epoch, None),
                assignments=tuple(
                    MemberAssignment(member_id=member_id, topics=topics) for member_id, topics in targets
                ),
            )

    def _reconciled(self, member_id: str, current: Current | None) -> None:
        member = self.members.get(member_id)
        if current is None or member is None:
            self._current.pop(member_id, None)
            return
        self._current[member_id] = current
        if current.member_epoch == AWAY:
            self._tell.say(ConsumerMemberAway, member=member.member)
        self._tell.say(
            MemberReconciled,
            member=member.member,
            **asdict(current),
        )

    def _settle(self) -> None:
        """Say whether the group has come to rest, or is at rest no longer."""
        if not self.members:
            if self._running is not None:
                self._tell.say(GroupEmpty)
                self.complete("empty")
            return
        is_settled = self._target_epoch == self._tell.generation_id and all(map(self._is_settled, self.members))
        if is_settled and (self._running is not None or self._is_unsettled):
            self._tell.say(MembersReconciled, assignment_epoch=self._target_epoch)
            self.complete("stable")
            self._is_unsettled = False
        elif not is_settled and self._running is None and not self._is_unsettled:
            self._tell.say(GroupReconciling)
            self._is_unsettled = True

    def _is_settled(self, member_id: str) -> bool:
        current = self._current.get(member_id)
        return current is not None and current.state == "stable" and current.member_epoch == self._target_epoch

    def become_classic(self, staying: Collection[str]) -> list[tuple[int, MemberIdentity]]:
        """Go on as a classic group with these of its members. Returns how the others left."""
        self._causes, self._last_cause = {}, None
        for member_id in [member_id for member_id in self.members if member_id not in staying]:
            self._went(member_id)
        self.complete("interrupted")
        return [(seq, member) for seq, member, _ in self._causes.values() if member is not None]

    def _deleted(self) -> None:
        """Note that the group is gone."""
        self.complete("empty")
        self._tell.say(GroupDead, certainty="not_known" if self._death == "not_known" else "told", reason=self._death)


def member_of_unknown_subscription(identity: MemberIdentity, *, uses_classic_protocol: bool) -> ConsumerMember:
    """Return a member of which nothing else has been seen."""
    return ConsumerMember(
        member=identity,
        rebalance_timeout_ms=None,
        subscribed_topics=None,
        subscribed_regex=None,
        server_assignor=None,
        rack_id=None,
        uses_classic_protocol=uses_classic_protocol,
    )


def _by_instance(step: Step) -> dict[str, ConsumerMember]:
    """Return the static members of a step, by instance id."""
    members = [member for member in step.members.values() if member is not None]
    return {member.member.group_instance_id: member for member in members if member.member.group_instance_id}


def _name(member: ConsumerMember) -> str:
    return member.member.client_id or member.member.member_id
