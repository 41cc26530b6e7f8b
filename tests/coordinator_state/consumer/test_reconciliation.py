"""A member on its way to its target: the whole table, and what holds for any group whose members beat in any order."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator_state.consumer.member import ConsumerMember, MemberState, PartitionsWithEpochs, TargetAssignment
from coordinator_state.consumer.reconciliation import Action, OwnedPartitions, Subscription, action_for, reconcile
from coordinator_state.errors import Refusal
from schemas.error_codes import ErrorCode

A, B = "00000000-0000-0001-0000-000000000001", "00000000-0000-0002-0000-000000000002"
STABLE, UNREVOKED, UNRELEASED, UNKNOWN = MemberState
BOTH = Subscription(True, frozenset((A, B)))
ONLY_A = Subscription(True, frozenset((A,)))
NOTHING = Subscription(False, frozenset())


def member(
    state: MemberState, epoch: int, assigned: PartitionsWithEpochs, pending: PartitionsWithEpochs | None = None
) -> ConsumerMember:
    return ConsumerMember("m", epoch, epoch - 1, state, assigned, pending or {})


def next_of(
    before: ConsumerMember,
    target: TargetAssignment,
    *,
    epoch: int = 8,
    subscription: Subscription = BOTH,
    changed: bool = False,
    owned: OwnedPartitions | None = None,
    taken: frozenset[tuple[str, int]] = frozenset(),
) -> ConsumerMember:
    def is_free(topic_id: str, partition: int) -> bool:
        return (topic_id, partition) not in taken

    return reconcile(before, epoch, target, subscription, changed, owned, is_free)


# ---------------------------------------------------------------------------------------------------------- the table


class OwnedKind(NamedTuple):
    owned: OwnedPartitions | None
    may_own_pending: bool


UNTOLD, NONE, OTHER, PENDING = (
    OwnedKind(None, True), OwnedKind({}, False), OwnedKind({A: (0,)}, False), OwnedKind({A: (0, 1)}, True),
)  # fmt: skip


@pytest.mark.parametrize(("owned", "changed"), list(product([UNTOLD, NONE, OTHER, PENDING], [False, True])))
def test_the_action_of_every_state(owned: OwnedKind, changed: bool) -> None:
    """The member gives up partition 1 of A. Every row of the table, for both epochs."""
    otherwise = Action.SHRINK if changed else Action.NOTHING
    expected = {
        (STABLE, 8): otherwise,
        (STABLE, 7): Action.NEXT,
        (UNREVOKED, 8): otherwise if owned.may_own_pending else Action.NEXT,
        (UNREVOKED, 7): otherwise if owned.may_own_pending else Action.NEXT,
        (UNRELEASED, 8): Action.NEXT,
        (UNRELEASED, 7): Action.NEXT,
        (UNKNOWN, 8): Action.NEXT if owned is NONE else Action.FENCE,
        (UNKNOWN, 7): Action.NEXT if owned is NONE else Action.FENCE,
    }
    for (state, epoch), action in expected.items():
        before = member(state, epoch, {A: {0: 3}}, {A: {1: 3}})
        assert action_for(before, 8, changed, owned.owned) is action, (state, epoch)


def test_nothing_leaves_the_member_as_it_is() -> None:
    before = member(STABLE, 8, {A: {0: 3}})
    assert next_of(before, ((A, (0, 1)),)) is before


def test_a_member_of_an_unknown_state_that_owns_something_is_fenced() -> None:
    with pytest.raises(Refusal) as refusal:
        next_of(member(UNKNOWN, 7, {}), (), owned={A: ()})
    assert refusal.value.error_code is ErrorCode.FENCED_MEMBER_EPOCH


# ---------------------------------------------------------------------------------------------------------------- next


@pytest.mark.parametrize("owned", [None, {A: (1,)}, {A: (0, 1), B: (5,)}])
def test_revocation_comes_first(owned: OwnedPartitions | None) -> None:
    """Nothing is added while something must go, and the epoch stays."""
    after = next_of(member(STABLE, 7, {A: {0: 3, 1: 5}}), ((A, (0, 2)),), owned=owned)
    assert after == ConsumerMember("m", 7, 7, UNREVOKED, {A: {0: 3}}, {A: {1: 5}})


@pytest.mark.parametrize("owned", [{}, {A: (0,)}, {B: (1,)}])
def test_a_member_that_owns_nothing_of_it_need_not_give_it_up(owned: OwnedPartitions) -> None:
    after = next_of(member(STABLE, 7, {A: {0: 3, 1: 5}}), ((A, (0, 2)),), owned=owned)
    assert after == ConsumerMember("m", 8, 7, STABLE, {A: {0: 3, 2: 8}}, {})


def test_what_another_has_is_waited_for() -> None:
    after = next_of(member(STABLE, 7, {A: {0: 3}}), ((A, (0, 1, 2)),), taken=frozenset({(A, 1)}))
    assert after == ConsumerMember("m", 8, 7, UNRELEASED, {A: {0: 3, 2: 8}}, {})


def test_its_own_pending_revocation_is_free_to_it() -> None:
    """A later target gives a partition back that the member has just given up."""
    before = member(UNREVOKED, 7, {A: {0: 3}}, {A: {1: 3}})
    after = next_of(before, ((A, (0, 1)),), owned={A: (0,)}, taken=frozenset({(A, 1)}))
    assert after == ConsumerMember("m", 8, 7, STABLE, {A: {0: 3, 1: 8}}, {})


def test_another_revocation_takes_the_place_of_one_that_is_done() -> None:
    before = member(UNREVOKED, 7, {A: {0: 3, 2: 3}}, {A: {1: 3}})
    after = next_of(before, ((A, (2,)),), owned={A: (0, 2)})
    assert after == ConsumerMember("m", 7, 7, UNREVOKED, {A: {2: 3}}, {A: {0: 3}})


def test_a_member_that_waits_changes_its_previous_epoch_once() -> None:
    taken = frozenset({(A, 1)})
    waiting = next_of(member(STABLE, 7, {}), ((A, (1,)),), taken=taken)
    again = next_of(waiting, ((A, (1,)),), taken=taken)
    assert (waiting.previous_member_epoch, again.previous_member_epoch) == (7, 8)
    assert next_of(again, ((A, (1,)),), taken=taken) is again


def test_topics_that_it_does_not_subscribe_to_are_withheld_and_taken_away() -> None:
    after = next_of(member(STABLE, 7, {B: {0: 3}}), ((A, (0,)), (B, (0, 1))), subscription=ONLY_A, owned={})
    assert after == ConsumerMember("m", 8, 7, STABLE, {A: {0: 8}}, {})


def test_a_member_of_an_unknown_state_that_owns_nothing_goes_on() -> None:
    after = next_of(member(UNKNOWN, 7, {A: {0: 3}}), ((A, (0,)),), owned={})
    assert after == ConsumerMember("m", 8, 7, STABLE, {A: {0: 3}}, {})


# -------------------------------------------------------------------------------------------------------------- shrink


def test_a_topic_that_is_given_up_is_revoked_before_the_next_target() -> None:
    before = member(STABLE, 8, {A: {0: 3}, B: {0: 4, 1: 4}})
    after = next_of(before, ((A, (0,)), (B, (0, 1))), subscription=ONLY_A, changed=True)
    assert after == ConsumerMember("m", 8, 8, UNREVOKED, {A: {0: 3}}, {B: {0: 4, 1: 4}})


def test_it_is_gone_at_once_if_the_member_has_let_it_go() -> None:
    before = member(STABLE, 8, {A: {0: 3}, B: {0: 4}})
    after = next_of(before, (), subscription=ONLY_A, changed=True, owned={A: (0,)})
    assert after == ConsumerMember("m", 8, 8, STABLE, {A: {0: 3}}, {})


def test_it_is_added_to_what_is_to_be_given_up() -> None:
    before = member(UNREVOKED, 7, {A: {0: 3}, B: {0: 4}}, {B: {1: 4}, A: {5: 1}})
    after = next_of(before, (), subscription=ONLY_A, changed=True, owned={A: (0, 5)})
    assert after == ConsumerMember("m", 7, 7, UNREVOKED, {A: {0: 3}}, {A: {5: 1}, B: {0: 4, 1: 4}})


def test_other_names_with_the_same_topics_change_nothing() -> None:
    before = member(STABLE, 8, {A: {0: 3}})
    assert next_of(before, ((A, (0,)),), subscription=ONLY_A, changed=True) is before


def test_without_any_subscription_the_previous_epoch_changes_even_if_nothing_was_assigned() -> None:
    assert next_of(member(STABLE, 8, {}), (), subscription=NOTHING, changed=True).previous_member_epoch == 8
    assert next_of(member(STABLE, 8, {}), (), subscription=ONLY_A, changed=True).previous_member_epoch == 7


# ------------------------------------------------------------------------------------------------------- whole groups

PARTITIONS = tuple(product((A, B), range(4)))
MEMBERS = ("x", "y", "z")
Owners = dict[tuple[str, int], int]
Beat = tuple[int, bool, bool]
"""Number of the member; whether it has done what it was told; whether it says what it owns."""

owners = st.lists(st.integers(0, len(MEMBERS)), min_size=len(PARTITIONS), max_size=len(PARTITIONS)).map(
    lambda numbers: dict(zip(PARTITIONS, numbers, strict=True))
)
beats = st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.booleans()), max_size=12)


class Group:
    """Members with their targets, each of whom does what it is told, sooner or later."""

    def __init__(self) -> None:
        self.members = [ConsumerMember(member_id) for member_id in MEMBERS]
        self.targets: list[TargetAssignment] = [()] * len(MEMBERS)
        self.owned: list[set[tuple[str, int]]] = [set() for _ in MEMBERS]
        """What the members really consume."""
        self.epoch = 0

    def retarget(self, owners: Owners) -> None:
        self.epoch += 1
        for number in range(len(MEMBERS)):
            target = []
            for topic_id in (A, B):
                partitions = [p for (topic, p), owner in owners.items() if topic == topic_id and owner == number]
                if partitions:
                    target.append((topic_id, tuple(partitions)))
            self.targets[number] = tuple(target)

    def beat(self, number: int, does_it: bool, tells: bool) -> None:
        told = {(topic, p) for topic, partitions in self.members[number].assigned.items() for p in partitions}
        if does_it:
            self.owned[number] = told
        owned: dict[str, set[int]] = {}
        for topic_id, partition in self.owned[number]:
            owned.setdefault(topic_id, set()).add(partition)
        self.members[number] = reconcile(
            self.members[number], self.epoch, self.targets[number], BOTH, False, owned if tells else None, self.is_free
        )
        self.check()

    def is_free(self, topic_id: str, partition: int) -> bool:
        held = [held for other in self.members for held in (other.assigned, other.pending_revocation)]
        return not any(partition in partitions.get(topic_id, ()) for partitions in held)

    def check(self) -> None:
        held = [(topic, p) for m in self.members for has in (m.assigned, m.pending_revocation)
                for topic, partitions in has.items() for p in partitions]  # fmt: skip
        assert len(held) == len(set(held)), "a partition belongs to two members"
        consumed = [partition for owned in self.owned for partition in owned]
        assert len(consumed) == len(set(consumed)), "two members consume a partition"
        for one in self.members:
            assert one.member_epoch <= self.epoch
            assert one.previous_member_epoch <= one.member_epoch
            assert bool(one.pending_revocation) == (one.state is UNREVOKED)
            for epochs in one.assigned.values():
                assert epochs
                assert max(epochs.values()) <= one.member_epoch


@settings(max_examples=150)
@given(st.lists(st.tuples(owners, beats), min_size=1, max_size=4))
def test_no_partition_ever_has_two_owners_and_all_arrive(rounds: list[tuple[Owners, list[Beat]]]) -> None:
    group = Group()
    for target, sent in rounds:
        group.retarget(target)
        for beat in sent:
            group.beat(*beat)
    for _ in range(4):  # told, given up, taken, done
        for number in range(len(MEMBERS)):
            group.beat(number, True, True)
    for one, goal in zip(group.members, group.targets, strict=True):
        assert one.is_reconciled_to(group.epoch)
        assert {topic: set(partitions) for topic, partitions in one.assigned.items()} == {
            topic: set(partitions) for topic, partitions in goal
        }


@given(owners, owners, st.integers(0, 2))
def test_what_a_member_keeps_it_keeps_with_its_epoch(before: Owners, after: Owners, number: int) -> None:
    group = Group()
    group.retarget(before)
    group.beat(number, True, True)
    had = group.members[number].assigned
    group.retarget(after)
    group.beat(number, False, True)
    for topic_id, partitions in group.members[number].assigned.items():
        for partition, epoch in partitions.items():
            assert epoch == had.get(topic_id, {}).get(partition, group.epoch)


def test_members_compare_by_what_is_recorded() -> None:
    """A member that comes out as it went in is not written again."""
    before = member(UNRELEASED, 8, {A: {0: 3}})
    before = replace(before, previous_member_epoch=8)
    assert next_of(before, ((A, (0, 1)),), taken=frozenset({(A, 1)})) is before
