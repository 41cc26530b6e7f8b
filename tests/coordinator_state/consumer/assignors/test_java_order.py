"""The orders of Java's tables, on values whose hashes are known; `test_kafka_vectors` has the rest."""

from __future__ import annotations

import pytest

from coordinator_state.consumer.assignors.java_order import (
    capacity_at_least,
    copied_set_order,
    partition_order,
    set_capacity,
    subscribed_topic_id_order,
    target_map_order,
    timeline_order,
    topic_id_hash,
    topic_id_order,
)
from schemas.java_hash import java_string_hash


def uuid(high: int, low: int) -> str:
    digits = f"{high % 2**64:016x}{low % 2**64:016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def test_hash_of_a_topic_id_is_the_xor_of_its_words() -> None:
    assert topic_id_hash(uuid(0x0000_0001_0000_0020, 0x0000_0300_0000_4000)) == 0x4321


def test_topic_ids_compare_by_signed_halves() -> None:
    ids = [uuid(1, 1), uuid(-1, 1), uuid(1, -1)]
    assert sorted(ids, key=topic_id_order) == [uuid(-1, 1), uuid(1, -1), uuid(1, 1)]


@pytest.mark.parametrize(("count", "capacity"), [(0, 1), (1, 1), (2, 2), (3, 4), (16, 16), (17, 32)])
def test_capacity_of_a_map(count: int, capacity: int) -> None:
    assert capacity_at_least(count) == capacity


@pytest.mark.parametrize(("count", "capacity"), [(0, 16), (11, 16), (12, 32), (23, 32), (24, 64)])
def test_capacity_of_a_copied_set(count: int, capacity: int) -> None:
    """At exactly three quarters JDK 17 takes the next power of two."""
    assert set_capacity(count) == capacity


def test_partitions_go_by_bucket_then_by_insertion() -> None:
    assert partition_order((95, 96, 16, 0), 16) == [96, 16, 0, 95]


def test_large_numbers_are_scrambled_as_java_does() -> None:
    assert partition_order((1, 65_536, 0), 16) == [0, 1, 65_536]


def test_a_copied_set_has_each_element_once() -> None:
    assert copied_set_order([17, 1, 17, 0], lambda number: number) == [0, 17, 1]


def test_subscribed_topics_that_exist_in_the_order_of_the_two_sets() -> None:
    """The second set is made for as many ids as there are names: one more, and it has twice the buckets."""
    names = [f"t{number}" for number in range(12)]
    ids = {"t0": uuid(0, 16), "t1": uuid(0, 1)}
    assert subscribed_topic_id_order(names, ids) == (uuid(0, 1), uuid(0, 16))
    assert subscribed_topic_id_order(names[:11], ids) == (uuid(0, 16), uuid(0, 1))


def test_topics_of_a_target_go_by_bucket() -> None:
    target = ((uuid(0, 17), (3,)), (uuid(0, 2), (1,)), (uuid(0, 1), (2,)))
    assert target_map_order(target) == [target[0], target[2], target[1]]


def test_order_of_a_timeline_map() -> None:
    """The newest key of a slot is walked first, and there are as many slots as there had to be once."""
    same_slot = [name for name in map(str, range(100)) if _timeline_slot(name, 2) == _timeline_slot("a", 2)]
    assert timeline_order(same_slot[:2], 2) == same_slot[1::-1]
    assert timeline_order(same_slot[:1], 2) == same_slot[:1]
    names = [f"member-{number}" for number in range(40)]
    for most, slots in ((40, 32), (42, 32), (43, 64), (1000, 1024)):
        walked = timeline_order(names, most)
        assert sorted(walked) == sorted(names)
        assert [_timeline_slot(name, slots) for name in walked] == sorted(_timeline_slot(name, slots) for name in names)


def _timeline_slot(name: str, capacity: int) -> int:
    scrambled = java_string_hash(name) * -7046029254386353131 % 2**64
    return scrambled * capacity // 2**64
