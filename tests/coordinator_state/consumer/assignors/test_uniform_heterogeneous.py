"""`uniform` with different subscriptions decides as one that goes partition by partition, and leaves the same order."""

from __future__ import annotations

from collections import Counter
from random import Random
from uuid import UUID

import pytest
from msgspec.structs import replace

from coordinator_state.consumer.assignors import (
    SERVER_ASSIGNORS,
    AssignorError,
    AssignorGroup,
    AssignorMember,
    AssignorTopic,
    SubscriptionType,
)
from coordinator_state.consumer.assignors.contract import check_assignment
from coordinator_state.consumer.assignors.java_order import copied_set_order, topic_id_hash
from coordinator_state.consumer.member import TargetAssignment
from tests.coordinator_state.consumer.assignors.uniform_reference import assign_heterogeneous

UNIFORM = SERVER_ASSIGNORS["uniform"]
RACKS = ("a", "b", "c")
TOPIC = "00000000-0000-0001-0000-000000000001"


class World:
    """Topics and members that change from round to round."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._partitions_max = random.choice((1, 3, 10, 60))
        self._topics: dict[str, AssignorTopic] = {}
        self._members: dict[str, AssignorMember] = {}
        self._joined = 0
        for _ in range(random.randint(1, random.choice((3, 20, 80)))):
            self._add_topic()
        self._subscriptions = [self._subscription() for _ in range(random.randint(1, 6))]
        for _ in range(random.randint(0, random.choice((6, 40)))):
            self._join()

    def group(self) -> AssignorGroup:
        members = tuple(
            replace(member, subscribed_topic_ids=tuple(filter(self._topics.__contains__, member.subscribed_topic_ids)))
            for member in self._members.values()
        )
        return AssignorGroup(members, self._topics, SubscriptionType.HETEROGENEOUS)

    def take(self, targets: dict[str, TargetAssignment]) -> None:
        """Let members have these targets. A few come back without theirs."""
        for member_id, target in targets.items():
            keeps = self._random.random() < 0.95
            self._members[member_id] = replace(self._members[member_id], target=target if keeps else ())

    def change(self) -> None:
        random = self._random
        for _ in range(random.randint(0, 5)):
            random.choice((self._join, self._leave, self._resubscribe, self._add_topic, self._grow, self._delete))()

    def _join(self) -> None:
        random = self._random
        self._joined += 1
        self._members[f"m{self._joined}"] = AssignorMember(
            f"m{self._joined}",
            random.choice((*self._subscriptions, self._subscription())),
            instance_id=random.choice((None, f"i{self._joined}")),
            rack_id=random.choice((None, *RACKS)),
        )

    def _leave(self) -> None:
        if self._members:
            del self._members[self._random.choice(list(self._members))]

    def _resubscribe(self) -> None:
        if self._members:
            member_id = self._random.choice(list(self._members))
            self._members[member_id] = replace(self._members[member_id], subscribed_topic_ids=self._subscription())

    def _add_topic(self) -> None:
        random = self._random
        count = random.randint(0, self._partitions_max)
        racks = tuple(tuple(random.sample(RACKS, 2)) for _ in range(count)) if random.random() < 0.5 else ()
        self._topics[str(UUID(int=random.getrandbits(128)))] = AssignorTopic(count, racks)

    def _grow(self) -> None:
        random = self._random
        if self._topics:
            topic_id = random.choice(list(self._topics))
            self._topics[topic_id] = AssignorTopic(self._topics[topic_id].partition_count + random.randint(1, 40))

    def _delete(self) -> None:
        if self._topics:
            del self._topics[self._random.choice(list(self._topics))]

    def _subscription(self) -> tuple[str, ...]:
        random = self._random
        share = random.choice((0.1, 0.5, 0.9))
        return tuple(copied_set_order([topic for topic in self._topics if random.random() < share], topic_id_hash))


@pytest.mark.parametrize("tens", range(30))
def test_random_groups(tens: int) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        world = World(Random(seed))
        for round_number in range(5):
            group = world.group()
            assignment = dict(UNIFORM.assign(group))
            check_assignment(group, assignment)
            assert assignment == assign_heterogeneous(group), (seed, round_number)
            world.take(assignment)
            world.change()


def test_random_groups_are_of_all_kinds() -> None:
    """The comparison would mean little if nothing were kept, moved or given in several turns."""
    seen: Counter[str] = Counter()
    for seed in range(60):
        world = World(Random(seed))
        for _ in range(3):
            group = world.group()
            assignment = dict(UNIFORM.assign(group))
            for member in group.members:
                after = assignment[member.member_id]
                had, has = dict(member.target), dict(after)
                seen["kept"] += bool(after) and member.target is after
                seen["new"] += not had and bool(has)
                seen["new, several of a topic"] += not had and any(len(partitions) > 1 for partitions in has.values())
                seen["new, many topics"] += not had and len(has) > 12
                seen["lost"] += any(set(had[topic]) - set(has.get(topic, ())) for topic in had)
                seen["gained"] += any(topic not in had for topic in has) and bool(had)
            world.take(assignment)
            world.change()
    assert all(count > 20 for count in seen.values()), seen


@pytest.mark.parametrize(("target", "wrong"), [((0, 4, 3), 4), ((2, -1, 7), -1), ((0, 3, 5), 5)])
def test_a_target_with_partitions_that_do_not_exist_is_refused(target: tuple[int, ...], wrong: int) -> None:
    """The message names the smallest if it is below 0, else the largest."""
    members = (AssignorMember("a", (TOPIC,), ((TOPIC, target),)), AssignorMember("b", ()))
    group = AssignorGroup(members, {TOPIC: AssignorTopic(3)}, SubscriptionType.HETEROGENEOUS)
    with pytest.raises(AssignorError, match=f"topic '{TOPIC}' has no partition {wrong}"):
        UNIFORM.assign(group)
