"""The model's state of a consumer group (KIP-848): what its records say, and everything that can be computed from it.

Nothing is counted up and down and nothing is indexed: who owns a partition, which topics are subscribed, whether the
subscriptions are alike is found by looking at all members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from simulation.model_consumer_records import (
    STABLE,
    ConsumerMember,
    EpochRecord,
    GroupRecord,
    Holding,
    Partition,
    RecordValue,
    Resolved,
    Target,
    TargetEpochRecord,
    Wishes,
)
from simulation.model_group import ModelLife

REFRESH_LEAST_MS = 10_000
REFRESH_LAPSES_MS = 300_000
"""A result of expressions that has not come by then is not waited for: ours, as Kafka's executor is not."""
HOMOGENEOUS, HETEROGENEOUS = "Homogeneous", "Heterogeneous"
NO_TARGET: Target = frozenset()


@dataclass(kw_only=True)
class ConsumerModelGroup(ModelLife):
    """A consumer group."""

    epoch: int = 1
    metadata_hash: int = 0
    target_epoch: int = 1
    target_ms: int = 0
    """When the target was computed; 0: never."""
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    """Instance id -> member id. One that its member has given up for another still stands for it, as in Kafka."""
    targets: dict[str, Target] = field(default_factory=dict)
    resolved: dict[str, Resolved] = field(default_factory=dict)
    looks_again: tuple[int, int] = (0, 0)
    """The topics' hash is computed anew from this time on, or below this epoch."""
    is_removed: bool = False
    """A refused JoinGroup has removed it; only those who read what is committed still see it."""
    held_type: str = HOMOGENEOUS
    """Whether the members subscribe alike, as Kafka found when it last read something of a member. It does not look
    again when it forgets an expression."""

    def leave_out(self, skipped_ms: int) -> None:
        super().leave_out(skipped_ms)
        if self.target_ms:
            self.target_ms += skipped_ms
        if self.looks_again[0]:
            self.looks_again = (self.looks_again[0] + skipped_ms, self.looks_again[1])

    # --------------------------------------------------------------------------------------------- what records change

    def read(self, record: GroupRecord) -> None:
        """Take in one record of the group."""
        name, value = record.name, record.value
        match record.type, value:
            case 3, EpochRecord():
                self.epoch, self.metadata_hash = value
            case 6, TargetEpochRecord():
                self.target_epoch, self.target_ms = value
            case 16, None:
                self.resolved.pop(name, None)
            case 16, Resolved():
                self.resolved[name] = value
            case _:
                self._read_of_member(record.type, name, value)

    def _read_of_member(self, record_type: int, member_id: str, value: RecordValue | None) -> None:
        match record_type, value:
            case 5, None:
                gone = self.members.pop(member_id, None)
                if gone is not None and self.instances.get(gone.wishes.instance_id or "") == member_id:
                    del self.instances[gone.wishes.instance_id or ""]
            case 5, Wishes():
                self.members[member_id] = self._member(member_id).wanting(value)
                if value.instance_id is not None:
                    self.instances[value.instance_id] = member_id
            case 7, None:
                self.targets.pop(member_id, None)
            case 7, frozenset():
                self.targets[member_id] = value
            case 8, None:
                self.members[member_id] = self._member(member_id).having(Holding(epoch=-1))
            case 8, Holding():
                self.members[member_id] = self._member(member_id).having(value)
        if record_type in (5, 8):
            self.held_type = subscription_type(self.members.values(), self.resolved.values())

    def _member(self, member_id: str) -> ConsumerMember:
        return self.members.get(member_id, ConsumerMember(member_id))

    # ------------------------------------------------------------------------------------------- what can be looked up

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        holdings = [member.holding for member in self.members.values()]
        settled = all(holding.state == STABLE and holding.epoch == self.target_epoch for holding in holdings)
        return "Stable" if settled else "Reconciling"

    def holder(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the member with this instance id."""
        return None if instance_id is None else self.members.get(self.instances.get(instance_id, ""))

    def is_left_behind(self, instance_id: str | None) -> bool:
        """Return whether an instance id stands for a member that is gone: Kafka forgets only the last one of each."""
        return instance_id in self.instances and self.instances[instance_id] not in self.members

    def with_changed(self, member: ConsumerMember) -> list[ConsumerMember]:
        """Return the members as they will be when this one is new or has changed, those who were there first.

        Another member with its instance id makes way for it, at the same place.
        """
        replaced = self.holder(member.wishes.instance_id)
        gone_id = member.member_id if replaced is None else replaced.member_id
        members = [member if other.member_id == gone_id else other for other in self.members.values()]
        return members if gone_id in self.members else [*members, member]

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the topics that a member subscribes to; an expression that is not resolved gives none."""
        known = self.resolved.get(member.wishes.regex)
        return member.wishes.names | (known.topics if known is not None else frozenset())

    def subscribed(self, members: Collection[ConsumerMember] | None = None) -> frozenset[str]:
        """Return the topics that these members, or all, subscribe to."""
        chosen = self.members.values() if members is None else members
        matched = (known.topics for known in self._resolved_of(chosen))
        return frozenset().union(*matched, *(member.wishes.names for member in chosen))

    def _resolved_of(self, members: Collection[ConsumerMember]) -> list[Resolved]:
        """Return the results of expressions when these are the members: those that nobody uses any more go.

        One that nobody uses today stays. A member that takes an instance's place under the id of another member leaves
        the other's expression behind, and as in Kafka what that matches counts until the group has no member.
        """
        gone = self.regexes() - self.regexes(members)
        return [known for regex, known in self.resolved.items() if regex not in gone]

    def subscription_type_of(self, members: Collection[ConsumerMember]) -> str:
        """Return whether the members subscribe alike, when these are they."""
        return subscription_type(members, self._resolved_of(members))

    def regex_users(self, regex: str) -> int:
        return sum(member.wishes.regex == regex for member in self.members.values())

    def regexes(self, members: Iterable[ConsumerMember] | None = None) -> set[str]:
        chosen = self.members.values() if members is None else members
        return {member.wishes.regex for member in chosen if member.wishes.regex}

    def is_owned(self, partition: Partition) -> bool:
        return any(partition in member.holding.partitions for member in self.members.values())

    def hash_of(self, members: Collection[ConsumerMember] | None = None) -> int:
        return self.known.hash_of(self.subscribed(members))

    def target_of(self, member: ConsumerMember) -> Target:
        """Return a member's stored target: one with an instance id takes over that of the instance's holder."""
        if member.wishes.instance_id is None:
            return self.targets.get(member.member_id, NO_TARGET)
        holder = self.holder(member.wishes.instance_id)
        return NO_TARGET if holder is None else self.targets.get(holder.member_id, NO_TARGET)

    def must_look_again(self) -> bool:
        return self.now_ms >= self.looks_again[0] or self.epoch < self.looks_again[1]

    def without(self, gone: Collection[ConsumerMember]) -> list[ConsumerMember]:
        ids = {member.member_id for member in gone}
        return [member for member in self.members.values() if member.member_id not in ids]

    def empty_tombstones(self) -> list[GroupRecord]:
        """Return the tombstones of a group without members; one that was removed has none."""
        if self.is_removed:
            return []
        regexes = [GroupRecord(16, regex, None) for regex in sorted(self.resolved)]
        return [GroupRecord(6, "", None), *regexes, GroupRecord(4, "", None), GroupRecord(3, "", None)]

    def owners(self) -> dict[Partition, list[str]]:
        """Return who has each partition in hand, what must be given up included."""
        owners: dict[Partition, list[str]] = {}
        for member in self.members.values():
            for partition in member.holding.partitions:
                owners.setdefault(partition, []).append(member.member_id)
        return owners


def subscription_type(members: Collection[ConsumerMember], resolved: Iterable[Resolved]) -> str:
    """Return whether members subscribe alike, in Kafka's way of counting."""
    regexes = Counter(member.wishes.regex for member in members if member.wishes.regex)
    by_name = Counter(name for member in members for name in member.wishes.names)
    by_regex = Counter(topic for known in resolved for topic in known.topics)
    if not regexes:
        alike = all(by_name[topic] == len(members) for topic in {*by_name, *by_regex})
    else:
        alike = not by_name and list(regexes.values()) == [len(members)] and set(by_regex.values()) <= {1}
    return HOMOGENEOUS if alike else HETEROGENEOUS


def is_native(member: ConsumerMember) -> bool:
    """Return whether a member uses the consumer protocol."""
    return member.wishes.classic is None


def renamed(member: ConsumerMember, member_id: str) -> ConsumerMember:
    """Return the copy of a static member that comes back under an id: it has its partitions, and no epoch yet."""
    return replace(member, member_id=member_id, holding=replace(member.holding, epoch=0, previous=0))
