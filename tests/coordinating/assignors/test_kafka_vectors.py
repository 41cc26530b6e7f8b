"""Every assignor gives what Kafka's gives, lists in the same order; where Kafka fails, something right."""

from __future__ import annotations

from hashlib import sha256

import pytest

from group_coordinator.coordinating.assignors import ASSIGNORS, GroupAssignment
from tests.coordinating.assignors.vectors import Vector, expected_of, load_vectors, members_of, topics_of
from tests.hash_seeds import printed_with

FILES = ("range_assignor", "roundrobin_assignor", "sticky_assignor", "cooperative_sticky_assignor")
COUNTS = {"range_assignor": 139, "roundrobin_assignor": 63, "sticky_assignor": 275, "cooperative_sticky_assignor": 276}

Named = dict[str, list[str]]

# What the reference gets wrong, and what is right. The defects are those of Kafka's AbstractStickyAssignor:
# D1 it crashes over a former owner that takes no part in balancing; D2 it gives a partition to a former owner that no
# longer subscribes; D3 it takes an empty topic list, met first, for "the same subscription"; D4 it keeps, or crashes
# over, a claim on a partition that does not exist.
BETTER: dict[str, Named] = {
    "sticky-274": {  # D1
        "consumer-Z-0-0c12826c-2d72-476c-85a6-5f5c68e9414f": ["t2-1", "t2-2", "t2-4", "t2-7"],
        "consumer-x-1-fedf966d-c0d3-47e0-bcf0-d9372f18c422": ["orders-0"],
        "consumer-app-2-9b3dd08e-b2d8-4131-aa44-7d0671f922fb": ["z_last-0", "z_last-2", "z_last-1"],
        "consumer-Z-3-8cf23d08-c69b-49b3-8f1f-fbec600d718c": ["t2-3", "t2-5", "t2-6", "t2-0"],
    },
    "sticky-275": {"old": ["lone-0", "lone-1"], "a": ["t-2", "t-3"], "b": ["t-0", "t-1"]},  # D1
    "cooperative-sticky-210": {  # D2: consumer-x-1 has left 😀emoji and gets nothing of it
        "consumer-x-6-f08ef168-5e9d-47e4-a297-4ac3b6a71b92": ["users-5", "😀emoji-3"],
        "consumer-Z-7-301c14e1-c06c-4acc-8dde-e3e8295db01d": ["orders-0"],
        "consumer-Z-2-6693ac07-b268-4c7f-8d96-5f14aabc7971": ["😀emoji-2", "orders-1", "orders-5"],
        "C364070_0": ["users-1", "users-0"],
        "consumer-x-1-9f7e3048-5ed3-49ab-ad88-7e7a95a83bc3": ["users-2"],
        "consumer-x-3-1fddd95c-0ff1-4532-a85c-3e177774e62b": ["orders-3", "orders-4"],
        "consumer-app-5-c063424a-f3c8-4149-9272-7b9d61709666": ["users-4"],
        "C377541_4": ["clicks.v1-1"],
    },
    "cooperative-sticky-273": {"a": ["t-0", "u-1"], "b": ["u-0", "t-1"]},  # D4: t-5 does not exist
    "cooperative-sticky-274": {"a": ["t-0"], "b": ["u-0", "u-1"]},  # D4: t-5 is gone; t-1 goes to a when b gave it up
    "cooperative-sticky-275": {"a": [], "b": ["t-0", "t-1"]},  # D3: a subscribes to nothing
    "cooperative-sticky-276": {"a": [], "b": ["t-0", "t-1", "t-2"]},  # D3
}

VECTORS = [vector for name in FILES for vector in load_vectors(name)]


def assign(vector: Vector) -> GroupAssignment:
    return ASSIGNORS[vector["assignor"]].assign(topics_of(vector), members_of(vector))


@pytest.mark.parametrize("name", FILES)
def test_no_vector_is_missing(name: str) -> None:
    assert len(load_vectors(name)) == COUNTS[name]


@pytest.mark.parametrize("name", FILES)
def test_as_kafka(name: str) -> None:
    for vector in load_vectors(name):
        if vector["id"] not in BETTER:
            assert assign(vector) == expected_of(vector), vector["id"]


@pytest.mark.parametrize("vector_id", BETTER)
def test_better_than_kafka(vector_id: str) -> None:
    (vector,) = (vector for vector in VECTORS if vector["id"] == vector_id)
    assert "expected_error" in vector or "reference_defect" in vector
    named_partitions = {
        member: [f"{topic}-{number}" for topic, number in owned] for member, owned in assign(vector).items()
    }
    assert named_partitions == BETTER[vector_id]


def test_every_marked_defect_is_named() -> None:
    assert {v["id"] for v in VECTORS if "expected_error" in v or "reference_defect" in v} == set(BETTER)


def digest_of_all() -> str:
    return sha256(repr([list(assign(vector).items()) for vector in VECTORS]).encode()).hexdigest()


@pytest.mark.parametrize("hash_seed", ["1", "20250607"])
def test_the_hash_seed_of_python_changes_nothing(hash_seed: str) -> None:
    code = f"from {__name__} import digest_of_all; print(digest_of_all())"
    assert printed_with(hash_seed, code) == digest_of_all()
