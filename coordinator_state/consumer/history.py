"""The history of a consumer group: what a step's records tell, with the reasons."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from coordinator_state.classic.group import ClassicGroup
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.consumer.member import ConsumerMember
from coordinator_state.consumer.rebalance_history import (
    Rise,
    begin,
    complete,
    in_order,
    note_replacement,
    note_revocation,
)
from coordinator_state.consumer.snapshot import assigned_topics, identity, state_name
from coordinator_state.step import Step
from schemas.consumer_group_history import ConsumerMember as AskingMember
from schemas.consumer_group_history import (
    ConsumerMemberAway,
    ConsumerMemberJoined,
    ConsumerMemberUpdated,
    EpochReason,
    GroupConverted,
    GroupEpochBumped,
    GroupReconciling,
    MemberReconciled,
    MembersReconciled,
    RegexResolved,
    TargetAssignmentComputed,
)
from schemas.group_states import ASSIGNING, RECONCILING
from schemas.history import AssignedTopic, GroupCreated, GroupEmpty, History, MemberAssignment, MemberReplaced

_ASKED = ("subscribed_topics", "subscribed_regex", "server_assignor", "rack_id", "rebalance_timeout_ms", "protocols")


class Narrator:
    """Collects what happens in one step, and tells it when the records are written."""

    def __init__(self, step: Step, group: ConsumerGroup) -> None:
        self._step = step
        self._group = group
        body = None if step.group is None else step.group.body
        self._had_members = body is not None and not body.is_empty
        self._epoch_before = 0 if body is None or body.is_empty else body.generation_id
        self._known_state = group.last_state
        """As history tells it so far."""
        self._interrupted = body.rebalance if type(body) is ClassicGroup else None
        """The rebalance of a classic group that is converted."""
        self._members: list[ConsumerMember] = []
        self._metadata_hash: int | None = None
        """Of the new epoch; None: there is none."""
        self._reasons: list[EpochReason] = []
        self._gone: list[ConsumerMember] = []
        self._assignor: str | None = None
        self._target_epoch: int | None = None
        self._reconciled: ConsumerMember | None = None
        self._away: ConsumerMember | None = None
        self._replaced: tuple[str, ConsumerMember] | None = None
        self._regexes: list[tuple[str, tuple[str, ...] | None]] = []
        self._converted: Literal["classic", "consumer"] | None = None
        self._taken_over: list[ConsumerMember] = []
        self._known: dict[str, ConsumerMember] = {}
        """Members as they were before the step, of those that the records name."""

    def member(self, member: ConsumerMember) -> None:
        before = self._group.members.get(member.member_id)
        if before is not None and member.member_id not in self._known:
            self._known[member.member_id] = before
        self._members.append(member)

    def epoch(self, metadata_hash: int, reasons: Iterable[EpochReason]) -> None:
        self._metadata_hash = metadata_hash
        self._reasons += reasons

    def gone(self, members: list[ConsumerMember]) -> None:
        """Members are taken out, for a reason that the epoch has."""
        self._gone = members

    def target(self, epoch: int, assignor: str | None) -> None:
        self._target_epoch, self._assignor = epoch, assignor

    def reconciled(self, member: ConsumerMember) -> None:
        self._reconciled = member

    def away(self, member: ConsumerMember) -> None:
        self._away = member

    def replaced(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """A static member came back: it goes on with all that it had."""
        self._known[new.member_id] = old
        self._replaced = old.member_id, new

    def regex(self, regex: str, topics: tuple[str, ...] | None) -> None:
        self._regexes.append((regex, topics))

    def converted(self, to_protocol: Literal["classic", "consumer"], members: Iterable[ConsumerMember] = ()) -> None:
        """The group goes on under another protocol. `members` own what their classic leader gave them."""
        self._converted = to_protocol
        self._taken_over = list(members)

    def created(self) -> None:
        """Tell at once that the group is new."""
        step = self._step
        step.cause_seq = step.append_history(GroupCreated(*step.history_fields()))

    def tell(self, group: ConsumerGroup) -> None:
        """Append the history records of the step; `group` is as the records left it."""
        step = self._step
        if self._converted is not None:
            self._append(GroupConverted(*step.history_fields(), to_protocol=self._converted))
        for member in self._taken_over:
            self._tell_reconciled(member)
        if self._replaced is not None:
            old_id, new = self._replaced
            note_replacement(group, old_id, new.member_id)
            rises = group.group_epoch != self._epoch_before
            self._append(
                MemberReplaced(*step.history_fields(), member=identity(new), old_member_id=old_id, rebalanced=rises)
            )
        last_of_each = {member.member_id: member for member in self._members}
        for member in last_of_each.values():
            self._tell_member(member)
        for regex, topics in self._regexes:
            self._append(RegexResolved(*step.history_fields(), regex=regex, topics=topics))
        if self._target_epoch is not None and self._target_epoch < group.group_epoch:
            self._tell_target(group, self._target_epoch)  # what a classic group's members own
        if self._metadata_hash is not None:
            self._tell_epoch(group, self._metadata_hash)
        if self._target_epoch == group.group_epoch:
            self._tell_target(group, group.group_epoch)
        if self._away is not None:
            self._append(ConsumerMemberAway(*step.history_fields(), member=identity(self._away)))
            self._tell_reconciled(self._away)
            note_revocation(step, group, self._away)
        if self._reconciled is not None:
            self._tell_reconciled(self._reconciled)
            note_revocation(step, group, self._reconciled)
        self._tell_end(group)

    def _tell_end(self, group: ConsumerGroup) -> None:
        """Tell the state that the group is in now, where no record has told it."""
        step = self._step
        if not group.members:
            group.ongoing = None
            if self._had_members:
                self._append(GroupEmpty(*step.history_fields()))
            complete(step, group, "empty")
        elif group.last_state == self._known_state:
            return
        elif group.last_state == RECONCILING:
            self._append(GroupReconciling(*step.history_fields()))
        else:
            group.ongoing = None
            self._append(MembersReconciled(*step.history_fields(), assignment_epoch=group.assignment_epoch))
            complete(step, group, "stable")

    def _tell_epoch(self, group: ConsumerGroup, metadata_hash: int) -> None:
        step, reasons, epoch = self._step, in_order(self._reasons), group.group_epoch
        interrupted = group.rebalance or self._interrupted
        if self._gone and interrupted is not None and reasons[0] == "member_dropped":
            interrupted.dropped += [member.member_id for member in self._gone]
        if epoch != self._epoch_before:
            members = [*self._gone, *self._members[-1:], *([self._replaced[1]] if self._replaced else [])]
            regexes = tuple([regex for regex, _ in self._regexes])
            rise = Rise(epoch, reasons, members[0] if members else None, regexes, not self._had_members)
            begin(step, group, rise, interrupted)
        self._append(GroupEpochBumped(*step.history_fields(), reasons=reasons, metadata_hash=metadata_hash))
        group.ongoing = step.cause_seq
        self._known_state = ASSIGNING

    def _tell_member(self, member: ConsumerMember) -> None:
        step, before, asks = self._step, self._known.get(member.member_id), asking_member(member)
        if before is None:
            self._append(ConsumerMemberJoined(*step.history_fields(), joined=asks))
            return
        asked = asking_member(before)
        changed = tuple([name for name in _ASKED if getattr(asks, name) != getattr(asked, name)])
        if changed:
            self._append(ConsumerMemberUpdated(*step.history_fields(), updated=asks, changed=changed))

    def _tell_target(self, group: ConsumerGroup, epoch: int) -> None:
        self._known_state = RECONCILING
        name_of = self._step.image.name_of
        assignments = tuple([
            MemberAssignment(
                member_id=member_id,
                topics=tuple([
                    AssignedTopic(topic=name_of(topic_id), partitions=tuple(sorted(partitions)))
                    for topic_id, partitions in group.targets.get(member_id, ())
                ]),
            )
            for member_id in group.members
        ])
        self._append(
            TargetAssignmentComputed(
                *self._step.history_fields(), assignment_epoch=epoch, assignor=self._assignor, assignments=assignments
            )
        )

    def _tell_reconciled(self, member: ConsumerMember) -> None:
        image = self._step.image
        self._append(
            MemberReconciled(
                *self._step.history_fields(),
                member=identity(member),
                state=state_name(member),
                member_epoch=member.member_epoch,
                previous_epoch=member.previous_member_epoch,
                assigned=assigned_topics(member.assigned, image),
                pending_revocation=assigned_topics(member.pending_revocation, image),
            )
        )

    def _append(self, record: History) -> None:
        self._step.cause_seq = self._step.append_history(record)


def asking_member(member: ConsumerMember) -> AskingMember:
    """Return what a member asks for, as history has it."""
    classic = member.classic
    return AskingMember(
        member=identity(member),
        rebalance_timeout_ms=None if member.rebalance_timeout_ms == -1 else member.rebalance_timeout_ms,
        subscribed_topics=member.subscribed_topic_names,
        subscribed_regex=member.subscribed_topic_regex or None,
        server_assignor=member.server_assignor,
        rack_id=member.rack_id,
        uses_classic_protocol=classic is not None,
        session_timeout_ms=None if classic is None else classic.session_timeout_ms,
        protocols=() if classic is None else tuple([name for name, _ in classic.supported_protocols]),
    )
