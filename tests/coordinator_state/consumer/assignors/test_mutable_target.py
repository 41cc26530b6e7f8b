"""A target that changes stays in the order of Java's map of sets, whatever is done to it."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from coordinator_state.consumer.assignors.mutable_target import MutableTarget, NewTarget, NewTargetOrder
from coordinator_state.consumer.member import TargetAssignment
from tests.coordinator_state.consumer.assignors.java_maps import JavaSet, JavaTarget

SEEDS = range(300)


def _change_both(random: Random, target: MutableTarget, java: JavaTarget, topic_ids: list[str]) -> None:
    """Do the same to both: several partitions of a topic at once, and one after the other."""
    capacities = {topic_id: random.choice((2, 4, 16)) for topic_id in topic_ids}
    for _ in range(random.randint(0, 12)):
        topic_id = random.choice(topic_ids)
        present = dict(java.in_record_order()).get(topic_id, ())
        match random.choice(("add", "remove", "drop")):
            case "add":
                free = sorted(set(range(100)) - set(present))
                partitions = random.sample(free, random.randint(1, 5))
                target.add(topic_id, partitions, capacities[topic_id])
                for partition in partitions:
                    java.add(topic_id, partition, capacities[topic_id])
            case "remove" if present:
                partitions = random.sample(present, random.randint(1, len(present)))
                target.remove(topic_id, partitions)
                for partition in partitions:
                    java.remove(topic_id, partition)
            case "drop" if present:
                target.drop_topic(topic_id)
                java.drop_topic(topic_id)


def test_a_recorded_target() -> None:
    for seed in SEEDS:
        random = Random(seed)
        topic_ids = _topic_ids(random)
        recorded: TargetAssignment = tuple(
            (topic_id, tuple(random.sample(range(100), random.randint(1, 30))))
            for topic_id in random.sample(topic_ids, random.randint(0, len(topic_ids)))
        )
        target, java = MutableTarget(recorded), JavaTarget(recorded)
        _change_both(random, target, java, topic_ids)
        assert target.in_record_order() == java.in_record_order(), seed


def test_a_new_target() -> None:
    """Also as it is before anything is done to it, in the quick way."""
    for seed in SEEDS:
        random = Random(seed)
        topic_ids = _topic_ids(random)
        capacities = {topic_id: random.choice((2, 4, 16)) for topic_id in topic_ids}
        new: NewTarget = {}
        java = JavaTarget(())
        for topic_id in random.sample(topic_ids, random.randint(0, len(topic_ids))):
            partitions = sorted(random.sample(range(100), random.choice((1, 1, 2, 7))))
            new[topic_id] = tuple(JavaSet(capacities[topic_id], partitions))
            for partition in partitions:
                java.add(topic_id, partition, capacities[topic_id])
        assert NewTargetOrder(topic_ids)(new) == java.in_record_order(), seed
        target = MutableTarget.of_new(new, capacities)
        assert target.in_record_order() == java.in_record_order(), seed
        _change_both(random, target, java, topic_ids)
        assert target.in_record_order() == java.in_record_order(), seed


def test_what_is_not_there_cannot_be_taken() -> None:
    topic_id, other = _topic_ids(Random(0))[:2]
    target = MutableTarget(((topic_id, (1, 2)),))
    for missing in ((0,), (1, 3)):
        with pytest.raises(KeyError):
            target.remove(topic_id, missing)
    with pytest.raises(KeyError):
        target.remove(other, (1,))
    with pytest.raises(KeyError):
        target.drop_topic(other)
    assert target.in_record_order() == ((topic_id, (1, 2)),)


def _topic_ids(random: Random) -> list[str]:
    """Topic ids, many of which share a bucket."""
    return [str(UUID(int=random.choice((16, 32, 1)) * random.randrange(1 << 20))) for _ in range(random.randint(2, 40))]
