"""What heartbeats, classic joins and timers of the model's consumer group have in common: a change of a member's
subscription is carried out step by step, against the group as it was, and written as a whole at the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

from schemas.error_codes import ErrorCode
from schemas.group_metadata_events import GroupConfiguration
from schemas.topic_regexes import InvalidTopicRegex, check_topic_regex
from simulation.assignor_contract import Assigned, Assignee, broken_promise
from simulation.model_consumer_group import (
    REFRESH_LAPSES_MS,
    REFRESH_LEAST_MS,
    ConsumerModelGroup,
    is_native,
)
from simulation.model_consumer_records import (
    UNREVOKED,
    ConsumerMember,
    EpochRecord,
    GroupRecord,
    Holding,
    Partition,
    Target,
    TargetEpochRecord,
    Wishes,
)
from simulation.model_group import ModelError, TimerKind
from simulation.model_offsets import OffsetRequests
from simulation.model_reconciliation import Goal, reconciled

NEVER_MS = 2_147_483_647
MEMBER_TIMERS: tuple[TimerKind, ...] = ("session", "rebalance", "join", "sync")


class Change(NamedTuple):
    """A member as it was, or as it begins, and what it says now."""

    before: ConsumerMember
    wishes: Wishes
    owned: frozenset[Partition] | None
    opening: tuple[GroupRecord, ...] = ()
    """The records by which the member took an instance's place."""
    replaced_id: str | None = None
    every_regex_counts: bool = False
    """A classic join bumps the epoch for any change of the expression."""


class Outcome(NamedTuple):
    """What has become of a change: nothing of it is written yet."""

    records: list[GroupRecord]
    member: ConsumerMember
    """As it wishes, with what it has afterwards."""
    has_new_subscription: bool
    is_resolving: bool
    epoch: int
    """The group's."""
    target_epoch: int
    target: Target


class ConsumerProcedures(OffsetRequests):
    """`decided` has the targets that the coordinator decided in this very request; the model asks whether they are what
    the assignor promises, and computes none."""

    own_settings = GroupConfiguration()
    decided: dict[str, Target] | None = None
    """None: the model decides for itself, in some way that keeps the promise."""
    broken_promises: tuple[str, ...] = ()

    # -------------------------------------------------------------------------------------------------------- settings

    def bounded(self, name: str, own: int | None) -> int:
        least, value, most = (
            getattr(self.config, f"group_consumer_{bound}{name}_ms") for bound in ("min_", "", "max_")
        )
        return int(min(max(value if own is None else own, least), most))

    @property
    def session_ms(self) -> int:
        return self.bounded("session_timeout", self.own_settings.consumer_session_timeout_ms)

    @property
    def heartbeat_ms(self) -> int:
        return self.bounded("heartbeat_interval", self.own_settings.consumer_heartbeat_interval_ms)

    @property
    def assignment_ms(self) -> int:
        return self.bounded("assignment_interval", self.own_settings.consumer_assignment_interval_ms)

    @property
    def policy(self) -> str:
        return self.config.group_consumer_migration_policy.lower()

    # --------------------------------------------------------------------------------------------- writing and reading

    def write(self, group: ConsumerModelGroup, records: list[GroupRecord]) -> None:
        for record in records:
            self.log(group, *record.encode(self.group_id))
            group.read(record)

    def forget_timers(self, group: ConsumerModelGroup, member_id: str) -> None:
        for kind in MEMBER_TIMERS:
            self.disarm(group, kind, member_id)

    # ------------------------------------------------------------------------------------------------------- the steps

    def change(self, group: ConsumerModelGroup, change: Change, now_ms: int, *, computes: bool = True) -> Outcome:
        """Carry out a change of what a member says, up to the target."""
        before = change.before
        member = before.wanting(change.wishes)
        records = list(change.opening)
        if change.wishes != before.wishes:
            records.append(GroupRecord(5, member.member_id, member.wishes))
        has_new_regex, is_resolved, is_resolving, tombstones = self.regex_change(group, before, member, now_ms)
        records += tombstones
        has_new_names = before.wishes.names != member.wishes.names
        bump = has_new_names or (has_new_regex and (is_resolved or change.every_regex_counts))
        members = group.with_changed(member)
        kind, epoch = group.held_type, group.epoch
        if bump or group.must_look_again():
            metadata_hash = group.hash_of(members)
            kind = group.subscription_type_of(members)
            if bump or metadata_hash != group.metadata_hash:
                epoch += 1
                records.append(GroupRecord(3, "", EpochRecord(epoch, metadata_hash)))
            group.looks_again = (now_ms + NEVER_MS, epoch)  # in Kafka it stays, also when the request fails then
        target_epoch, target = group.target_epoch, group.target_of(member)
        waits = group.target_ms and self.assignment_ms and now_ms < group.target_ms + self.assignment_ms
        if computes and target_epoch < epoch and not waits:
            # One who takes an instance's place may have been in the group by itself: it is there once.
            present = [other for other in members if other is member or other.member_id != member.member_id]
            targets = self.targets(group, change, present, kind)
            records += [
                GroupRecord(7, member_id, targets[member_id])
                for member_id in targets
                if targets[member_id] != group.targets.get(member_id)
            ]
            records.append(GroupRecord(6, "", TargetEpochRecord(epoch, now_ms)))
            target_epoch, target = epoch, targets[member.member_id]
        return Outcome(records, member, has_new_names or has_new_regex, is_resolving, epoch, target_epoch, target)

    def reconcile(self, group: ConsumerModelGroup, change: Change, outcome: Outcome) -> Outcome:
        """Move the member towards its target."""
        goal = Goal(outcome.target_epoch, outcome.target, outcome.has_new_subscription, change.owned)
        holding = reconciled(group, outcome.member, goal)
        if holding == outcome.member.holding:
            return outcome
        record = GroupRecord(8, outcome.member.member_id, holding)
        return outcome._replace(records=[*outcome.records, record], member=outcome.member.having(holding))

    def settle(self, group: ConsumerModelGroup, change: Change, outcome: Outcome) -> None:
        """Write the outcome of a change."""
        member = outcome.member
        self.write(group, outcome.records)
        if outcome.is_resolving:
            group.resolving_ms = group.now_ms
        if change.replaced_id not in (None, member.member_id):
            self.forget_timers(group, change.replaced_id or "")
        if not is_native(member) and member.holding.epoch != change.before.holding.epoch:
            self.disarm(group, "rebalance", member.member_id)  # it was for the epoch before
        if member.holding != change.before.holding and is_native(member):
            self.disarm(group, "rebalance", member.member_id)
            if member.holding.state == UNREVOKED:
                epoch = member.holding.epoch
                self.arm(group, "rebalance", member.wishes.rebalance_ms, member.member_id, epoch=epoch)

    # ------------------------------------------------------------------------------------------------------ expressions

    def regex_change(
        self, group: ConsumerModelGroup, before: ConsumerMember, member: ConsumerMember, now_ms: int
    ) -> tuple[bool, bool, bool, list[GroupRecord]]:
        """Return whether the member's expression is another one, whether it is known what that matches, whether all
        are to be resolved now, and the tombstone of one that nobody uses any more."""
        old, new = before.wishes.regex, member.wishes.regex
        tombstones = []
        is_unknown = False
        if old != new:
            if old and group.regex_users(old) == 1:
                tombstones.append(GroupRecord(16, old, None))
            is_unknown = bool(new) and not group.regex_users(new)
            if is_unknown:
                try:
                    check_topic_regex(new)
                except InvalidTopicRegex:
                    raise ModelError(ErrorCode.INVALID_REGULAR_EXPRESSION) from None
        is_resolved = not new or new in group.resolved
        used = group.regexes(group.with_changed(member))
        due = (is_unknown or group.regexes()) and self.resolves_now(group, used, is_unknown, now_ms)
        return old != new, is_resolved, bool(due), tombstones

    def resolves_now(self, group: ConsumerModelGroup, used: set[str], is_unknown: bool, now_ms: int) -> bool:
        if group.resolving_ms is not None and now_ms < group.resolving_ms + REFRESH_LAPSES_MS:
            return False
        if not used:
            return False
        last = next(iter(group.resolved.values()), None)
        if last is None:
            return True
        if now_ms <= last.timestamp_ms + REFRESH_LEAST_MS:
            return False
        return (
            is_unknown
            or len(used) != len(group.resolved)
            or last.version < group.known.new_topics_version
            or now_ms > last.timestamp_ms + self.config.group_consumer_regex_refresh_interval_ms
        )

    # ----------------------------------------------------------------------------------------------------------- target

    def targets(
        self, group: ConsumerModelGroup, change: Change, members: list[ConsumerMember], kind: str
    ) -> dict[str, Target]:
        """Return everybody's new target, in the order of the members."""
        own_id = change.before.member_id
        changed = next(member for member in members if member.member_id == own_id)
        old = {member.member_id: group.targets.get(member.member_id, frozenset()) for member in members}
        if change.replaced_id is not None:
            old[own_id] = group.targets.get(change.replaced_id, frozenset())
        assignees = [
            Assignee(
                member.member_id,
                member.wishes.instance_id,
                frozenset(group.known.ids(group.topics_of(member))),
                old[member.member_id],
            )
            for member in members
        ]
        counts = {
            topic_id: len(topic.partitions)
            for topic_id in sorted({topic_id for assignee in assignees for topic_id in assignee.topics})
            if (topic := group.known.named(topic_id)) is not None
        }
        asked = Assigned(self.assignor(members, changed), kind, tuple(assignees), counts)
        fails = asked.fails()
        if fails or (fails is None and not self.decided):
            raise ModelError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if self.decided is None:
            return asked.some_assignment()
        # What is as it is stored already is not stored again.
        stored = {member.member_id: group.targets.get(member.member_id, frozenset()) for member in members}
        new = {member_id: self.decided.get(member_id, target) for member_id, target in stored.items()}
        problem = broken_promise(asked, new)
        if problem is not None:
            self.broken_promises += (problem,)
        return new

    def assignor(self, members: list[ConsumerMember], changed: ConsumerMember | None = None) -> str:
        """Return the assignor that most members ask for. Of two equals the one wins that only the member asks for that
        has just changed; else `uniform`: it comes before `range` in Kafka's map."""
        votes = Counter(member.wishes.assignor for member in members if member.wishes.assignor is not None)
        if not votes:
            return self.config.consumer_assignors[0]
        newcomer = None if changed is None else changed.wishes.assignor
        if newcomer is not None and votes[newcomer] > 1:
            newcomer = None
        return max(votes, key=lambda name: (votes[name], name == newcomer, name))

    # ---------------------------------------------------------------------------------------------------------- fencing

    def departure(self, group: ConsumerModelGroup, gone: list[ConsumerMember]) -> list[GroupRecord]:
        """Return the records by which members go while others stay, or nobody."""
        left = group.without(gone)
        records = []
        for member in gone:
            records += [GroupRecord(kind, member.member_id, None) for kind in (8, 7, 5)]
        unused = group.regexes() - group.regexes(left)
        records += [GroupRecord(16, regex, None) for regex in sorted(unused)]
        return [*records, GroupRecord(3, "", EpochRecord(group.epoch + 1, group.hash_of(left)))]

    def holding_left(self, member: ConsumerMember) -> Holding:
        """Return what a static member keeps while it is away."""
        assigned = dict.fromkeys(member.holding.assigned, 0)
        return replace(member.holding, epoch=-2, assigned=assigned, pending={})
