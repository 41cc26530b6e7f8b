"""The order of Java's hash tables, on orders that a JDK 17 gave."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.coordinating.assignors.java_hash_map import (
    JavaHashSet,
    java_map_order_computed,
    java_topic_partition_hash,
)
from schemas.java_hash import java_map_order, java_string_hash
from tests.coordinating.assignors.vectors import load_vectors

VECTORS = load_vectors("java_hash_order")


def hash_code(element: Any) -> int:
    if isinstance(element, str):
        return java_string_hash(element)
    topic, partition = element
    return java_topic_partition_hash(java_string_hash(topic), partition)


def elements(values: list[Any]) -> list[Hashable]:
    return [value if isinstance(value, str) else tuple(value) for value in values]


@pytest.mark.parametrize("vector", VECTORS, ids=map(str, range(len(VECTORS))))
def test_iterates_as_java_does(vector: dict[str, Any]) -> None:
    table = JavaHashSet(hash_code, elements(vector["insert"]))
    for element in elements(vector.get("remove", [])):
        table.remove(element)
    assert list(table) == elements(vector["iteration_order"])
    assert table.first() == elements(vector["iteration_order"])[0]


@pytest.mark.parametrize("vector", VECTORS, ids=map(str, range(len(VECTORS))))
def test_map_order(vector: dict[str, Any]) -> None:
    if vector["kind"] == "string" and "remove" not in vector:
        assert java_map_order(vector["insert"]) == vector["iteration_order"]


def test_hash_of_a_topic_partition() -> None:
    (vector,) = (vector for vector in VECTORS if vector["insert"][:1] == [["t0", 0]])
    assert [hash_code(element) for element in vector["insert"]] == vector["hash_codes"]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=120))
def test_first_is_where_iteration_begins(steps: list[tuple[bool, int]]) -> None:
    table: JavaHashSet[int] = JavaHashSet(lambda number: number * 7)
    held: set[int] = set()
    for insert, number in steps:
        if insert:
            table.add(number)
            held.add(number)
        elif number in held:
            table.remove(number)
            held.remove(number)
        assert set(table) == held
        assert len(table) == len(held)
        if held:
            assert table.first() == next(iter(table))


COMPUTED = {
    (6, 1): [33, 22, 11, 0, 18, 7],
    (6, 2): [33, 22, 11, 0, 18, 7],
    (12, 1): [33, 22, 11, 0, 10, 36, 25, 14, 3, 29, 18, 7],
    (12, 2): [33, 22, 11, 0, 10, 36, 25, 14, 3, 29, 18, 7],
    (13, 1): [33, 22, 11, 0, 21, 10, 36, 25, 14, 3, 29, 18, 7],
    (13, 2): [33, 22, 11, 0, 21, 10, 36, 25, 14, 3, 29, 18, 7],
    (14, 1): [33, 22, 11, 0, 32, 21, 10, 36, 25, 14, 3, 29, 18, 7],
    (14, 2): [33, 22, 11, 0, 32, 21, 10, 36, 25, 14, 3, 29, 18, 7],
    (25, 1): [33, 22, 11, 0, 31, 20, 32, 21, 10, 5, 35, 24, 13, 2, 36, 25, 14, 3, 9, 28, 17, 6, 29, 18, 7],
    (25, 2): [22, 0, 20, 21, 5, 24, 2, 25, 3, 9, 28, 6, 29, 7, 33, 11, 31, 32, 10, 35, 13, 36, 14, 17, 18],
    (26, 1): [22, 0, 20, 21, 5, 24, 2, 25, 3, 9, 28, 6, 29, 7, 33, 11, 31, 32, 10, 16, 35, 13, 36, 14, 17, 18],
    (26, 2): [22, 0, 20, 21, 5, 24, 2, 25, 3, 9, 28, 6, 29, 7, 33, 11, 31, 32, 10, 16, 35, 13, 36, 14, 17, 18],
}
"""By how many topics and partitions of each: the topics' numbers in the order of
`CollectionUtils.groupPartitionsByTopic(...).keySet()` (Kafka 4.3.1, JDK 17),
which asks for each partition's topic by `computeIfAbsent`."""


@pytest.mark.parametrize(("topics", "partitions"), COMPUTED)
def test_computed_keys_stand_before_the_others_of_their_bucket(topics: int, partitions: int) -> None:
    names = [f"topic-{number * 11 % 37:05}" for number in range(topics) for _ in range(partitions)]
    assert java_map_order_computed(names) == [f"topic-{number:05}" for number in COMPUTED[topics, partitions]]
